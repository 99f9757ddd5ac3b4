"""approx_count_distinct: HyperLogLog++ with Spark's hash, registers and bias correction, hence Spark's estimates to the digit.

A register is one number, ``index × 64 + rank``; only those that were hit are kept, so small groups have small sketches and none has more than ``2^p``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidegate.model.types import INTEGER, Array, Schema
from tidegate.operators.accumulators.protocol import column, filtered, new, old, result
from tidegate.operators.canonical import normalised
from tidegate.operators.expressions.xxhash import hash_columns
from tidegate.plan.relational import AggregateCall

_SEED = 42
_RANKS = 64
_NEIGHBOURS = 6
"""How many points of the bias table a correction averages."""
_TABLED_PRECISION_MAX = 18

Floats = NDArray[np.float64]


def precision(relative_sd: float) -> int:
    """How many bits of the hash choose the register, so that the estimates spread no more than asked for."""
    return math.ceil(2.0 * math.log(1.106 / relative_sd) / math.log(2.0))


@dataclass(frozen=True, slots=True)
class Cardinality:
    """``params``: the relative standard deviation asked for. ``tables``: raw estimates, their biases, and the one number below
    which linear counting is better; none of them where the precision is beyond the tables."""

    call: AggregateCall

    @property
    def columns(self) -> Schema:
        return (column(self.call, "registers", Array(INTEGER, contains_null=False)),)

    @property
    def _precision(self) -> int:
        (relative_sd,) = self.call.params
        assert isinstance(relative_sd, float)
        return precision(relative_sd)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        (arg,), (of,) = self.call.args, self.call.input_types

        def hits(values: pl.Series) -> pl.Series:
            hashes = hash_columns([values], [of], _SEED).to_numpy().view(np.uint64)
            return pl.Series(_registers(hashes, self._precision))

        value = pl.col(arg)
        hit = normalised(value, of).map_batches(hits, return_dtype=pl.Int32(), is_elementwise=True)
        return [filtered(pl.when(value.is_not_null()).then(hit), self.call).drop_nulls().unique()]

    def combine(self) -> list[pl.Expr]:
        return [_highest(old(self.columns[0]).list.explode().drop_nulls())]

    def merge(self) -> list[pl.Expr]:
        before, added = old(self.columns[0]), new(self.columns[0])
        both = pl.concat_list(before, added).list.eval(_highest(pl.element()))
        return [pl.coalesce(both, before, added)]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        registers_hit = pl.col(self.columns[0].name).list.eval(_highest(pl.element()))
        lists = accumulators.select(registers_hit).to_series()
        lengths = lists.list.len().fill_null(0).to_numpy()
        hits = lists.filter(pl.Series(lengths > 0)).list.explode().to_numpy()
        registers = 1 << self._precision
        zeros = (registers - lengths).astype(np.float64)
        rows = np.repeat(np.arange(len(lists)), lengths)
        inverse = zeros + np.bincount(rows, weights=np.exp2(-(hits % _RANKS).astype(np.float64)), minlength=len(lists))
        return result(pl.Series(self._estimates(zeros, inverse)), self.call)

    def _estimates(self, zeros: Floats, inverse: Floats) -> NDArray[np.int64]:
        bits, registers = self._precision, 1 << self._precision
        raw = _alpha(bits) * registers * registers / inverse
        corrected = raw
        linear_below = 0.0
        if bits <= _TABLED_PRECISION_MAX:
            estimates, biases, (linear_below,) = (np.array(table) for table in self.call.tables)
            corrected = np.where(raw < 5.0 * registers, raw - _bias(raw, estimates, biases), raw)
        with np.errstate(divide="ignore"):
            linear = registers * np.log(registers / zeros)
        use_linear = (zeros > 0) & ((linear <= linear_below) | (raw <= 2.5 * registers))
        return np.floor(np.where(use_linear, linear, corrected) + 0.5).astype(np.int64)


def _registers(hashes: NDArray[np.uint64], bits: int) -> NDArray[np.int32]:
    """Leading bits choose the register; its rank is the position of the first one among the rest."""
    index = hashes >> np.uint64(64 - bits)
    rest = (hashes << np.uint64(bits)) | np.uint64(1 << (bits - 1))
    return (index * np.uint64(_RANKS) + _leading_zeros(rest) + np.uint64(1)).astype(np.int32)


def _leading_zeros(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of 64-bit words, none of them 0."""
    zeros = np.zeros(len(words), np.uint64)
    left = words.copy()
    for width in (32, 16, 8, 4, 2, 1):
        empty = left < np.uint64(1 << (64 - width))
        zeros[empty] += np.uint64(width)
        left[empty] <<= np.uint64(width)
    return zeros


def _highest(hits: pl.Expr) -> pl.Expr:
    """Of every register the highest rank: the last one in order."""
    ordered = hits.sort()
    register = ordered // _RANKS
    return ordered.filter((register != register.shift(-1)).fill_null(True))


def _alpha(bits: int) -> float:
    return {4: 0.673, 5: 0.697, 6: 0.709}.get(bits, 0.7213 / (1.0 + 1.079 / (1 << bits)))


def _bias(raw: Floats, estimates: Floats, biases: Floats) -> Floats:
    """The mean bias of the nearest raw estimates in the table."""
    low = np.maximum(np.searchsorted(estimates, raw) - _NEIGHBOURS + 1, 0)
    high = np.minimum(low + _NEIGHBOURS, len(estimates))
    while True:
        inside = np.minimum(high, len(estimates) - 1)
        nearer = (high < len(estimates)) & ((raw - estimates[inside]) ** 2 < (raw - estimates[low]) ** 2)
        if not nearer.any():
            break
        low, high = low + nearer, high + nearer
    total = np.zeros(len(raw))
    for step in range(_NEIGHBOURS):
        at = low + step
        total += np.where(at < high, biases[np.minimum(at, len(biases) - 1)], 0.0)
    return total / (high - low)
