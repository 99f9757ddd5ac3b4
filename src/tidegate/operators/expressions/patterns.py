"""LIKE and regular expressions. Patterns are constants, so they are translated once and refused before anything runs."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.operators.expressions import regexes
from tidegate.operators.expressions.compiled import Built
from tidegate.operators.expressions.registry import Supports, argument, arity, constants, function, optional, takes
from tidegate.plan.expressions import Call


def _pattern(index: int = 1, most: int = 2, least: int = 2) -> Supports:
    def legal(call: Call) -> str | None:
        return regexes.reason_against(str(argument(call, index)))

    return arity(least, most, also=constants(*range(1, most), also=takes(t.STRING, arguments=(0,), also=legal)))


def _like_supported(call: Call) -> str | None:
    try:
        regexes.like(str(argument(call, 1)), str(optional(call, 2, "\\")))
    except InvalidQuery as refusal:
        return refusal.message
    return None


@function("like", supports=arity(2, 3, also=constants(1, 2, also=takes(t.STRING, also=_like_supported))))
def like(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    kind, pattern = regexes.like(str(argument(call, 1)), str(optional(call, 2, "\\")))
    match kind:
        case "equal":
            return text == pattern
        case "prefix":
            return text.str.starts_with(pattern)
        case "suffix":
            return text.str.ends_with(pattern)
        case "infix":
            return text.str.contains(pattern, literal=True)
        case _:
            return text.str.contains(pattern)


@function("rlike", "regexp", "regexp_like", supports=_pattern())
def rlike(call: Call, text: pl.Expr, _: pl.Expr) -> Built:
    return text.str.contains(regexes.translate(str(argument(call, 1)), searching=True))


@function("regexp_extract", "regexpextract", supports=_pattern(most=3))
def regexp_extract(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """Empty where nothing, or not this group, matches."""
    group = optional(call, 2, 1)
    assert isinstance(group, int)
    found = text.str.extract(regexes.translate(str(argument(call, 1))), group).fill_null("")
    return pl.when(text.is_not_null()).then(found).otherwise(None)


def _replace_supported(call: Call) -> str | None:
    if optional(call, 3, 1) != 1:
        return "regexp_replace from a position other than 1 is not supported"
    try:
        regexes.replacement(str(argument(call, 2)))
    except InvalidQuery as refusal:
        return refusal.message
    return regexes.reason_against(str(argument(call, 1)))


@function(
    "regexp_replace",
    "regexpreplace",
    supports=arity(3, 4, also=constants(1, 2, 3, also=takes(t.STRING, arguments=(0,), also=_replace_supported))),
)
def regexp_replace(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    pattern, by = str(argument(call, 1)), str(argument(call, 2))
    return text.str.replace_all(regexes.translate(pattern), regexes.replacement(by))


def _split_supported(call: Call) -> str | None:
    limit = optional(call, 2, -1)
    if not isinstance(limit, int) or limit > 0:
        return "split with a limit is not supported"
    pattern = str(argument(call, 1))
    if (reason := regexes.reason_against(pattern)) is not None:
        return reason
    if pl.select(pl.lit("").str.contains(regexes.translate(pattern))).item():
        return f"split by {pattern!r}, which matches the empty string, is not supported"
    return None


@function(
    "split",
    "stringsplit",
    supports=arity(2, 3, also=constants(1, 2, also=takes(t.STRING, arguments=(0,), also=_split_supported))),
)
def split(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    pattern = str(argument(call, 1))
    if not set(pattern) & set(r"\.+*?()|[]{}^$"):
        return text.str.split(pattern)
    return text.str.split(regexes.translate(pattern), literal=False)
