"""Texts changed in places, chosen from, or taken apart by position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tidegate.model import types as t
from tidegate.operators.expressions import arrays, characters
from tidegate.operators.expressions.compiled import Built, Compiled, Guard
from tidegate.operators.expressions.registry import argument, arity, branching, function, plain, takes
from tidegate.plan.expressions import Call, Literal

_MANY = 10_000


def part(text: pl.Expr, position: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    """Spark's ``substring`` for positions and lengths of any sign, for text and bytes alike (as slices of characters)."""
    size = text.str.len_chars().cast(pl.Int64)
    wide = position.cast(pl.Int64)
    start = pl.when(wide > 0).then(wide - 1).when(wide < 0).then(size + wide).otherwise(0)
    end = size if length is None else start + length.cast(pl.Int64)
    first = start.clip(lower_bound=0)
    return text.str.slice(first, (end - first).clip(lower_bound=0))


@function("overlay", supports=arity(4, also=takes(t.STRING, arguments=(0, 1))))
def overlay(_call: Call, text: pl.Expr, by: pl.Expr, position: pl.Expr, length: pl.Expr) -> Built:
    """A negative length means that of the replacement."""
    size = pl.when(length >= 0).then(length.cast(pl.Int64)).otherwise(by.str.len_chars().cast(pl.Int64))
    one = pl.lit(1, dtype=pl.Int64)
    before, behind = part(text, one, position.cast(pl.Int64) - 1), part(text, position.cast(pl.Int64) + size)
    present = position.is_not_null() & length.is_not_null()
    return pl.when(present).then(pl.concat_str(before, by, behind))


@branching("elt", supports=arity(2, _MANY))
def elt(call: Call, args: Sequence[Compiled]) -> Compiled:
    """The n-th of the others, which alone is evaluated."""
    number, *choices = args
    chosen = pl.lit(None, dtype=pl.String if call.type == t.STRING else pl.Binary)
    guards = list(number.guards)
    for index, choice in enumerate(choices, start=1):
        taken = number.value == index
        chosen = pl.when(taken).then(choice.value).otherwise(chosen)
        guards += choice.guards_if(taken.fill_null(False))
    if call.ansi:
        guards.append(Guard(~number.value.is_between(1, len(choices)), "INVALID_ARRAY_INDEX", call.sql))
    return Compiled(chosen, tuple(guards))


@plain("find_in_set", "findinset", supports=arity(2, also=takes(t.STRING)))
def find_in_set(text: pl.Expr, choices: pl.Expr) -> Built:
    """Its position in a list with commas, 0 if it is not there."""
    place = arrays.array_position(choices.str.split(","), text)
    assert isinstance(place, pl.Expr)
    return pl.when(choices.is_not_null()).then(place).cast(pl.Int32)


@plain("quote", supports=arity(1, also=takes(t.STRING)))
def quote(text: pl.Expr) -> Built:
    return "'" + text.str.replace_all("'", "\\'", literal=True) + "'"


def _mask_supported(call: Call) -> str | None:
    if not all(isinstance(arg, Literal) for arg in call.args[1:]):
        return "mask needs constants for the characters"
    return None


@function("mask", supports=arity(5, also=takes(t.STRING, t.NULL, also=_mask_supported)), null_skips=False)
def mask(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """Capitals, small letters, digits and all else become one character each; null leaves them as they are."""
    upper, lower, digit, other = (argument(call, index) for index in range(1, 5))

    def run(column: pl.Series) -> pl.Series:
        codes = characters.matrix(column)
        kinds = [characters.where(codes, test) for test in (str.isupper, str.islower, str.isdecimal)]
        rest = ~np.logical_or.reduce(kinds) & (codes != characters.END)
        result = codes
        for kind, by in zip((*kinds, rest), (upper, lower, digit, other), strict=True):
            result = result if by is None else np.where(kind, ord(str(by)), result)
        return characters.texts(result)

    return pl.when(text.is_not_null()).then(text.map_batches(run, return_dtype=pl.String, is_elementwise=True))
