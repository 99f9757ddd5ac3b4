"""Comparisons of texts character by character: distance, sound, check digits. A step per place, for all rows at once."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.model import types as t
from tidegate.operators.expressions import characters
from tidegate.operators.expressions.compiled import Built
from tidegate.operators.expressions.registry import argument, arity, constants, function, plain, takes
from tidegate.plan.expressions import Call

_SOUNDS = np.array([int(code) for code in "01230127022455012623017202"], np.int64)
"""Of the letters A to Z: 0 separates equal sounds, 7 does not."""
_SILENT = 7


@function("levenshtein", supports=arity(2, 3, also=constants(2, also=takes(t.STRING, arguments=(0, 1)))))
def levenshtein(call: Call, left: pl.Expr, right: pl.Expr, *_: pl.Expr) -> Built:
    """Insertions, deletions and replacements that lead from one text to the other; -1 above the threshold, if one is given."""

    def run(pairs: pl.Series) -> pl.Series:
        a, b = (characters.matrix(pairs.struct.field(name)) for name in ("a", "b"))
        return pl.Series(_distances(a, b), dtype=pl.Int32)

    distance = pl.struct(a=left, b=right).map_batches(run, return_dtype=pl.Int32, is_elementwise=True)
    if len(call.args) == 3:
        limit = argument(call, 2)
        assert isinstance(limit, int)
        distance = pl.when(distance <= limit).then(distance).otherwise(-1)
    return pl.when(left.is_not_null() & right.is_not_null()).then(distance)


def _distances(a: characters.Codes, b: characters.Codes) -> characters.Codes:
    """The classic table, one row at a time; its last cell is read where each of the two texts ends."""
    long_a, long_b = (side != characters.END for side in (a, b))
    end_a, end_b = long_a.sum(axis=1), long_b.sum(axis=1)
    rows = np.arange(len(a))
    above = np.broadcast_to(np.arange(b.shape[1] + 1), (len(a), b.shape[1] + 1)).copy()
    result = np.where(end_a == 0, end_b, 0)
    for i in range(a.shape[1]):
        current = np.empty_like(above)
        current[:, 0] = i + 1
        for j in range(b.shape[1]):
            change = above[:, j] + (a[:, i] != b[:, j])
            current[:, j + 1] = np.minimum(np.minimum(above[:, j + 1], current[:, j]) + 1, change)
        above = current
        ended = end_a == i + 1
        result[ended] = above[rows[ended], end_b[ended]]
    return result


@plain("soundex", supports=arity(1, also=takes(t.STRING)))
def soundex(text: pl.Expr) -> Built:
    """A text that does not begin with a letter is its own code."""
    letters = text.str.contains("^[A-Za-z]")
    return pl.when(letters).then(text.map_batches(_codes, return_dtype=pl.String, is_elementwise=True)).otherwise(text)


def _codes(column: pl.Series) -> pl.Series:
    matrix = characters.matrix(column)
    upper = np.where((matrix >= 97) & (matrix <= 122), matrix - 32, matrix)
    letter = (upper >= 65) & (upper <= 90)
    sounds = np.where(letter, _SOUNDS[np.where(letter, upper - 65, 0)], 0)
    result = np.full((len(column), 4), ord("0"), np.int64)
    if matrix.shape[1]:
        result[:, 0] = np.where(letter[:, 0], upper[:, 0], ord("0"))
    filled = np.ones(len(column), np.int64)
    last = sounds[:, 0] if matrix.shape[1] else np.zeros(len(column), np.int64)
    for place in range(1, matrix.shape[1]):
        sound = sounds[:, place]
        heard = letter[:, place] & (sound != _SILENT)
        new = np.flatnonzero(heard & (sound != 0) & (sound != last) & (filled < 4))
        result[new, filled[new]] = sound[new] + ord("0")
        filled[new] += 1
        last = np.where(heard | (~letter[:, place] & (matrix[:, place] != characters.END)), sound, last)
    return characters.texts(result)


@plain("luhn_check", supports=arity(1, also=takes(t.STRING)))
def luhn_check(text: pl.Expr) -> Built:
    """Whether the digits end with the check digit of credit cards; false for anything but digits."""

    def run(column: pl.Series) -> pl.Series:
        matrix = characters.matrix(column)
        digits = np.where(matrix == characters.END, 0, matrix - 48)
        from_right = (matrix != characters.END).sum(axis=1)[:, None] - 1 - np.arange(matrix.shape[1])
        doubled = np.where(from_right % 2 == 1, digits * 2, digits)
        return pl.Series(
            (np.where(doubled > 9, doubled - 9, doubled) * (matrix != characters.END)).sum(axis=1) % 10 == 0
        )

    sums = text.map_batches(run, return_dtype=pl.Boolean, is_elementwise=True)
    return sums & text.str.contains("^[0-9]+$")
