"""Stream–static join: the static side is indexed once, each batch of the stream is looked up in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.model import types as t
from tidegate.model.elements import Batch, Output
from tidegate.model.snapshot import KeyGroupRange
from tidegate.operators.expressions import Predicate, Projection
from tidegate.operators.ports import LoadTable
from tidegate.operators.protocol import Operator
from tidegate.operators.static_tables import table_of
from tidegate.plan.expressions import Expression, Named
from tidegate.plan.relational import JoinKind, StaticJoin

Indices = npt.NDArray[np.int64]

_PAIR = "#pair"

_MATCHES_MAX = 65_536
"""Most pairs looked at at once: one stream row may match every static row, and back-pressure needs bounded steps."""


class StaticJoinOperator(Operator):
    """Keys match as in Spark: null only where the key is null-safe, NaN equals NaN, −0.0 equals 0.0."""

    def __init__(self, node: StaticJoin, groups: KeyGroupRange | None = None, chunks: LoadTable | None = None) -> None:
        """``groups``, ``chunks``: of a partitioned table, which rows are ours, and who reads them."""
        super().__init__()
        self._kind = node.kind
        self._names = [field.name for field in node.schema]
        self._stream_keys = _keys(node.stream_keys)
        self._condition = None if node.condition is None else Predicate(node.condition)
        self._static = _Index.build(table_of(node, groups, chunks), node)
        self._missing = self._static.rows.clear()

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        stream = batch.rows
        if stream.is_empty():
            return
        keys = self._stream_keys.apply(stream) if self._stream_keys else None
        matched = np.zeros(stream.height, dtype=bool)
        for left, right in self._static.lookup(keys, stream.height):
            if self._condition is not None:
                pairs = _side_by_side(stream[left], self._static.rows[right]).with_row_index(_PAIR)
                keep = self._condition.apply(pairs).get_column(_PAIR).to_numpy()
                left, right = left[keep], right[keep]
            matched[left] = True
            if self._kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.CROSS) and len(left):
                joined = _side_by_side(stream[left], self._static.rows[right])
                yield batch.with_rows(joined.select(self._names))
        if self._kind is JoinKind.LEFT and not matched.all():
            alone = stream.filter(~matched)
            yield batch.with_rows(_side_by_side(alone, self._missing.clear(alone.height)).select(self._names))
        elif self._kind in (JoinKind.SEMI, JoinKind.ANTI):
            kept = stream.filter(matched if self._kind is JoinKind.SEMI else ~matched)
            if kept.height:
                yield batch.with_rows(kept.select(self._names))
        elif self._kind is JoinKind.EXISTENCE:
            yield batch.with_rows(stream.with_columns(pl.Series(self._names[-1], matched)).select(self._names))


@dataclass(frozen=True, slots=True)
class _Index:
    """Static rows in the order of a hash of their keys, so that a lookup is a binary search per stream row.

    A hash that two keys share costs a comparison, never a wrong match. It lives in this process only, hence Polars' own.
    """

    rows: pl.DataFrame
    keys: pl.DataFrame | None
    hashes: npt.NDArray[np.uint64]
    null_safe: tuple[bool, ...]

    @classmethod
    def build(cls, rows: pl.DataFrame, node: StaticJoin) -> _Index:
        projection = _keys(node.static_keys)
        if projection is None:
            return cls(rows, None, np.zeros(0, dtype=np.uint64), ())
        keys = _canonical(projection.apply(rows))
        usable = _without_unsafe_nulls(keys, node.null_safe)
        rows, keys = rows.filter(usable), keys.filter(usable)
        hashes = _hash(keys)
        order = np.argsort(hashes, kind="stable")
        return cls(rows[order], keys[order], hashes[order], node.null_safe)

    def lookup(self, keys: pl.DataFrame | None, height: int) -> Iterator[tuple[Indices, Indices]]:
        """Pairs (stream row, static row) whose keys are equal, in bounded portions."""
        if keys is None or self.keys is None:
            starts, counts = np.zeros(height, dtype=np.int64), np.full(height, self.rows.height, dtype=np.int64)
            yield from _pairs(starts, counts)
            return
        keys = _canonical(keys)
        hashes = _hash(keys)
        starts = np.searchsorted(self.hashes, hashes, side="left")
        counts = np.searchsorted(self.hashes, hashes, side="right") - starts
        counts[~_without_unsafe_nulls(keys, self.null_safe).to_numpy()] = 0
        for left, right in _pairs(starts, counts):
            same = _equal(keys[left], self.keys[right])
            yield left[same], right[same]


def _pairs(starts: Indices, counts: Indices) -> Iterator[tuple[Indices, Indices]]:
    """Row i of the stream with static rows ``starts[i] … starts[i] + counts[i]``, at most ``_MATCHES_MAX`` at a time."""
    ends = np.cumsum(counts)
    total = int(ends[-1])
    for low in range(0, total, _MATCHES_MAX):
        number = np.arange(low, min(low + _MATCHES_MAX, total), dtype=np.int64)
        left = np.searchsorted(ends, number, side="right")
        yield left, starts[left] + number - (ends[left] - counts[left])


def _keys(expressions: tuple[Expression, ...]) -> Projection | None:
    if not expressions:
        return None
    columns = [Named(f"{i}", expression) for i, expression in enumerate(expressions)]
    return Projection(columns, tuple(t.Field(column.name, column.expression.type) for column in columns))


def _canonical(keys: pl.DataFrame) -> pl.DataFrame:
    """One bit pattern for all NaNs and for both zeros, so that equal keys hash alike."""
    floats = [name for name, dtype in keys.schema.items() if dtype.is_float()]
    return keys.with_columns(
        pl.when(pl.col(name).is_nan())
        .then(float("nan"))
        .otherwise(pl.col(name) + 0.0)
        .cast(keys.schema[name])
        .alias(name)
        for name in floats
    )


def _hash(keys: pl.DataFrame) -> npt.NDArray[np.uint64]:
    return keys.hash_rows(seed=0).to_numpy()


def _without_unsafe_nulls(keys: pl.DataFrame, null_safe: tuple[bool, ...]) -> pl.Series:
    usable = pl.Series(np.ones(keys.height, dtype=bool))
    for column, safe in zip(keys.get_columns(), null_safe, strict=True):
        if not safe:
            usable &= column.is_not_null()
    return usable


def _equal(left: pl.DataFrame, right: pl.DataFrame) -> npt.NDArray[np.bool_]:
    same = np.ones(left.height, dtype=bool)
    for mine, other in zip(left.get_columns(), right.get_columns(), strict=True):
        same &= mine.eq_missing(other).to_numpy()
    return same


def _side_by_side(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    return left.hstack(right.get_columns())
