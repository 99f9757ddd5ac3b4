"""Searching in texts: whether, where, and what stands before or behind. Positions count from 1, in characters."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import argument, arity, constants, function, optional, plain, takes
from tidegate.plan.expressions import Call, Literal

_TEXT = takes(t.STRING)


@plain("contains", supports=_TEXT)
def contains(text: pl.Expr, part: pl.Expr) -> Built:
    return text.str.contains(part, literal=True)


@plain("startswith", supports=_TEXT)
def starts_with(text: pl.Expr, part: pl.Expr) -> Built:
    return text.str.starts_with(part)


@plain("endswith", supports=_TEXT)
def ends_with(text: pl.Expr, part: pl.Expr) -> Built:
    return text.str.ends_with(part)


@function("instr", "stringinstr", supports=_TEXT)
def instr(call: Call, text: pl.Expr, part: pl.Expr) -> Built:
    if isinstance(call.args[1], Literal):
        return _position(text, str(argument(call, 1)))
    return _position_of_column(text, part)


def _position_of_column(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    at = text.str.find(part, literal=True)
    before = text.cast(pl.Binary).bin.slice(0, at).cast(pl.String).str.len_chars().cast(pl.Int32) + 1
    there = text.is_not_null() & part.is_not_null()
    return pl.when(at.is_not_null()).then(before).when(there).then(pl.lit(0, dtype=pl.Int32))


def _constant_start(call: Call) -> str | None:
    if isinstance(call.args[0], Literal):
        return constants(0, 2)(call)
    if optional(call, 2, 1) != 1:
        return f"{call.function} of a column from another position than 1 is not supported"
    return None


@function(
    "locate",
    "stringlocate",
    "position",
    supports=constants(2, also=takes(t.STRING, arguments=(0,), also=_constant_start)),
)
def locate(call: Call, needle: pl.Expr, text: pl.Expr, _start: pl.Expr | None = None) -> Built:
    first = optional(call, 2, 1)
    assert isinstance(first, int)
    if not isinstance(call.args[0], Literal):
        return _position_of_column(text, needle)
    if first < 1:
        return pl.when(text.is_not_null()).then(pl.lit(0, dtype=pl.Int32)).otherwise(None)
    part = str(argument(call, 0))
    if not part:
        return _position(text, part)
    found = _position(text.str.slice(first - 1), part)
    beyond = text.str.len_chars() < first - 1
    zero = pl.lit(0, dtype=pl.Int32)
    return pl.when(beyond | (found == 0)).then(pl.when(text.is_not_null()).then(zero)).otherwise(found + (first - 1))


def _position(text: pl.Expr, part: str) -> pl.Expr:
    """1-based character position of ``part``, 0 if it is not there."""
    if not part:
        return pl.when(text.is_not_null()).then(pl.lit(1, dtype=pl.Int32)).otherwise(None)
    before = text.str.splitn(part, 2).struct.field("field_0").str.len_chars().cast(pl.Int32)
    return pl.when(text.str.contains(part, literal=True)).then(before + 1).otherwise(before * 0)


@function("split_part", supports=arity(3, also=constants(1, 2, also=takes(t.STRING, arguments=(0, 1)))))
def split_part(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """Counts from 1, or from the end; parts that are not there are empty."""
    separator, part = str(argument(call, 1)), argument(call, 2)
    assert isinstance(part, int)
    nothing = text.str.slice(0, 0)
    if part == 0:
        return Checked(nothing, (Check(text.is_not_null(), "INVALID_INDEX_OF_ZERO", always=True),))
    if not separator:
        return text if part in (1, -1) else nothing
    index = part - 1 if part > 0 else part
    found = text.str.split(separator).list.get(index, null_on_oob=True)
    return pl.coalesce(found, nothing)


def _index_supported(call: Call) -> str | None:
    separator = str(argument(call, 1))
    if any(separator.startswith(separator[cut:]) for cut in range(1, len(separator))):
        return f"{call.function} is not supported with {separator!r}, which may overlap itself"
    return None


@function(
    "substring_index",
    supports=arity(3, also=constants(1, 2, also=takes(t.STRING, arguments=(0, 1), also=_index_supported))),
)
def substring_index(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """What stands before the n-th separator, or behind the n-th from the end; all of it when there are fewer."""
    separator, count = str(argument(call, 1)), argument(call, 2)
    assert isinstance(count, int)
    if not separator or count == 0:
        return text.str.slice(0, 0)
    parts = text.str.split(separator)
    kept = parts.list.head(count) if count > 0 else parts.list.tail(-count)
    return kept.list.join(separator)
