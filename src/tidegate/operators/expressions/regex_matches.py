"""All matches of a regular expression, and where the first one stands."""

from __future__ import annotations

import re

import polars as pl

from tidegate.model import types as t
from tidegate.operators.expressions import regexes
from tidegate.operators.expressions.compiled import Built
from tidegate.operators.expressions.registry import argument, arity, constants, function, optional, takes
from tidegate.plan.expressions import Call

_CONTEXT = re.compile(r"(?<!\\)(?:\\\\)*(?:[\^$]|\\[bBAzZG])")
"""What looks at the characters around a match: a match taken out of its text may match differently."""


def _usable(call: Call) -> str | None:
    pattern, group = str(argument(call, 1)), optional(call, 2, 1)
    if (reason := regexes.reason_against(pattern)) is not None:
        return reason
    if pl.select(pl.lit("").str.contains(regexes.translate(pattern))).item():
        return f"{call.function} with {pattern!r}, which matches the empty string, is not supported"
    if group != 0 and call.function == "regexp_extract_all" and _CONTEXT.search(re.sub(r"\[\^", "[", pattern)):
        return f"{call.function} of a group with an anchor in {pattern!r} is not supported"
    if not isinstance(group, int) or group < 0 or group > re.compile(_python(pattern)).groups:
        return f"{call.function}: {pattern!r} has no group {group}"
    return None


def _python(pattern: str) -> str:
    """Enough of the pattern to count its groups."""
    return re.sub(r"\\.", "x", pattern)


_PATTERN = arity(2, 3, also=constants(1, 2, also=takes(t.STRING, arguments=(0,), also=_usable)))


@function("regexp_extract_all", "regexpextractall", supports=_PATTERN)
def regexp_extract_all(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """Group 1 unless another is named; empty where it takes no part in the match."""
    pattern, group = regexes.translate(str(argument(call, 1))), optional(call, 2, 1)
    assert isinstance(group, int)
    matches = text.str.extract_all(pattern)
    if group == 0:
        return matches
    return matches.list.eval(pl.element().str.extract(pattern, group).fill_null(""))


@function("regexp_instr", "regexpinstr", supports=_PATTERN)
def regexp_instr(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """In characters, from 1; 0 if nothing matches."""
    at = text.str.find(regexes.translate(str(argument(call, 1))))
    before = text.cast(pl.Binary).bin.slice(0, at).cast(pl.String).str.len_chars().cast(pl.Int32) + 1
    return pl.when(at.is_not_null()).then(before).when(text.is_not_null()).then(pl.lit(0, dtype=pl.Int32))
