"""Join of two streams. Each side remembers its rows; a batch of one side is looked up in the other, then remembered itself.

A row is late when its event time ≤ watermark: dropped and counted. So whoever comes is later than the watermark, and a row that
only earlier ones could match has expired: it is forgotten, and an outer join lets it leave without a partner. Each row of the
preserved side leaves with all its partners or once without any, never both: a mark in the state says which it will be.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import polars as pl

from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US, Batch, Output
from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle
from tidegate.model.types import Schema
from tidegate.operators.columns import empty_frame
from tidegate.operators.expressions import Predicate
from tidegate.operators.horizon import Horizon, HorizonValue
from tidegate.operators.join_state import StoredSide, hashes_of, key_schema, keys_of, times_of
from tidegate.operators.protocol import Operator, OperatorContext, OperatorCounters, OperatorState, Restored
from tidegate.operators.values import decoded
from tidegate.plan.expressions import columns_of
from tidegate.plan.keyed import Moment, StreamJoin, StreamJoinKind
from tidegate.state.chunk import NewChunk
from tidegate.state.columns import Mask, Rows
from tidegate.state.index import Hashes
from tidegate.state.row_index import Times

LEFT, RIGHT = 0, 1
_PRESERVED = {StreamJoinKind.LEFT: (LEFT,), StreamJoinKind.RIGHT: (RIGHT,), StreamJoinKind.FULL: (LEFT, RIGHT)}
_PAIR = "#pair"


class JoinValue(msgspec.Struct, frozen=True, tag_field="format", tag="stream-join/1"):
    """What is not keyed. Rows that the horizon had let expire are not in the state."""

    horizon: HorizonValue
    next_number: int
    """No stored row has this number or a higher one."""


class StreamJoinOperator(Operator):
    """Input: rows of the two sides by port, keys of this subtask's key groups only. Output: ``StreamJoin.schema``."""

    def __init__(self, node: StreamJoin, context: OperatorContext) -> None:
        super().__init__()
        self._node = node
        self._context = context
        self._sides = (node.left, node.right)
        self._keys = (key_schema(node.left), key_schema(node.right))
        self._names = [field.name for field in node.schema]
        self._columns = tuple([field.name for field in side.schema] for side in self._sides)
        self._semi = node.kind is StreamJoinKind.SEMI
        self._preserved = _PRESERVED.get(node.kind, ())
        self._condition = None if node.condition is None else Predicate(node.condition)
        read = frozenset[str]() if node.condition is None else columns_of(node.condition)
        self._read = tuple([name for name in names if name in read] for names in self._columns)
        within = node.within
        ordered_by = (None, None) if within is None else (within.left, within.right)
        self._stored = tuple(
            StoredSide(side, port, context, marked=port in self._preserved, ordered_by=ordered_by[port])
            for port, side in enumerate(self._sides)
        )
        values = [decoded(value, JoinValue, "the watermark of a join") for value in context.restored.values]
        self._horizon = Horizon(context, (value.horizon for value in values))
        self.counters = OperatorCounters.restored(context, self._horizon.late_rows)
        # All of them count, not only those of our key groups: the next rescale may bring any two together.
        self._next_number = max((value.next_number for value in values), default=0)
        self._handed_out: dict[CheckpointId, tuple[tuple[ChunkHandle | NewChunk, ...], ...]] = {}
        self._restore(context.restored)

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        port = batch.port
        rows, leaves, hashes = self._on_time(batch.rows, port)
        if not rows.height:
            return
        able = _able(rows, self._keys[port], self._node.null_safe)
        if not able.all():
            if port in self._preserved:
                yield self._alone(rows.filter(~able), port)
            rows, leaves, hashes = rows.filter(able), leaves.filter(able), hashes[able.to_numpy()]
        matched = np.zeros(rows.height, np.bool_)
        yield from self._match(port, rows, leaves, hashes, matched)
        expires = self._expires(rows, port)
        stay = (expires > self._horizon.watermark_us).fill_null(True).to_numpy()
        if self._semi and port == LEFT:
            stay &= ~matched
        if port in self._preserved and not (gone := stay | matched).all():
            yield self._alone(rows.filter(~gone), port)
        if stay.any():
            self._remember(port, rows, hashes, expires, matched, stay)
        self._count()

    def on_watermark(self, watermark_us: int) -> Iterator[Output]:
        self._horizon.advance(watermark_us)
        for port, stored in enumerate(self._stored):
            for rows in stored.expire(self._horizon.watermark_us):
                yield self._alone(stored.rows(rows), port)
        self._count()

    def output_watermark(self, watermark_us: int) -> int | None:
        """Rows that wait for a partner leave later than their event time says: by the range of the condition."""
        lag_us = self._node.lag_us
        if watermark_us >= WATERMARK_MAX_US:
            return watermark_us
        return None if lag_us is None else watermark_us - lag_us

    # -- one batch

    def _on_time(self, rows: pl.DataFrame, port: int) -> tuple[pl.DataFrame, pl.DataFrame, Hashes]:
        keys = self._keys[port]
        leaves = keys_of(rows, keys)
        hashes = hashes_of(leaves, keys)
        event_time = self._sides[port].event_time
        if event_time is None or self._horizon.open:
            return rows, leaves, hashes
        # A null event time is never late.
        until_us = self._horizon.until_us(lambda: hashes)
        bound = until_us if isinstance(until_us, int) else pl.Series(until_us)
        late = (times_of(rows, event_time) <= bound).fill_null(False)
        if not late.any():
            return rows, leaves, hashes
        self.counters.late_rows += int(late.sum())
        return rows.filter(~late), leaves.filter(~late), hashes[~late.to_numpy()]

    def _match(
        self, port: int, rows: pl.DataFrame, leaves: pl.DataFrame, hashes: Hashes, matched: Mask
    ) -> Iterator[Output]:
        """Lets the rows leave that found a partner, and notes in ``matched`` which of the batch did."""
        other = self._stored[1 - port]
        if not rows.height or not other.live_rows:
            return
        for positions, partners in other.lookup(leaves, hashes, *self._range(port, rows)):
            positions, partners = self._fulfilled(port, rows, positions, partners)
            if not len(partners):
                continue
            if self._semi:
                yield from self._semi_matches(port, rows, positions, partners, matched)
                continue
            matched[positions] = True
            if 1 - port in self._preserved:
                other.mark(partners)
            yield self._joined(port, rows[positions], other.rows(partners))

    def _fulfilled(self, port: int, rows: pl.DataFrame, positions: Rows, partners: Rows) -> tuple[Rows, Rows]:
        """The pairs for which the condition is true."""
        if self._condition is None or not len(partners):
            return positions, partners
        mine = [rows.get_column(name)[positions] for name in self._read[port]]
        theirs = self._read[1 - port]
        read = self._stored[1 - port].columns(partners, theirs).get_columns() if theirs else []
        pairs = pl.DataFrame([pl.Series(_PAIR, np.arange(len(partners))), *mine, *read])
        kept = self._condition.apply(pairs).get_column(_PAIR).to_numpy()
        return positions[kept], partners[kept]

    def _semi_matches(
        self, port: int, rows: pl.DataFrame, positions: Rows, partners: Rows, matched: Mask
    ) -> Iterator[Output]:
        """A left row leaves with its first partner and needs no other."""
        if port == LEFT:
            fresh = np.unique(positions[~matched[positions]])
            matched[positions] = True
            if len(fresh):
                yield Batch(rows[fresh].select(self._names))
        else:
            left = self._stored[LEFT]
            yield Batch(left.rows(left.take(partners)).select(self._names))

    def _range(self, port: int, rows: pl.DataFrame) -> tuple[Times | None, Times | None]:
        """Which times of the other side can be partners of each row."""
        within = self._node.within
        if within is None:
            return None, None
        own = times_of(rows, Moment(within.left if port == LEFT else within.right))
        at_us = own.fill_null(WATERMARK_MIN_US).to_numpy()
        low_us, high_us = within.low_us, within.high_us
        if port == RIGHT:
            low_us, high_us = _negative(high_us), _negative(low_us)
        return None if low_us is None else at_us + low_us, None if high_us is None else at_us + high_us

    def _joined(self, port: int, own: pl.DataFrame, others: pl.DataFrame) -> Batch:
        left, right = (own, others) if port == LEFT else (others, own)
        return Batch(left.hstack(right.get_columns()).select(self._names))

    def _alone(self, rows: pl.DataFrame, port: int) -> Batch:
        missing = empty_frame(self._sides[1 - port].schema).clear(rows.height)
        return self._joined(port, rows, missing)

    def _expires(self, rows: pl.DataFrame, port: int) -> pl.Series:
        expires = self._sides[port].expires
        return (
            pl.Series(dtype=pl.Int64).extend_constant(None, rows.height) if expires is None else times_of(rows, expires)
        )

    def _remember(
        self, port: int, rows: pl.DataFrame, hashes: Hashes, expires: pl.Series, matched: Mask, stay: Mask
    ) -> None:
        if not stay.all():
            rows, hashes, expires, matched = rows.filter(stay), hashes[stay], expires.filter(stay), matched[stay]
        self._stored[port].add(rows, hashes, self._next_number, expires, matched)
        self._next_number += rows.height

    def _count(self) -> None:
        self.counters.state_rows = sum(stored.live_rows for stored in self._stored)
        self.counters.state_bytes = sum(stored.size_bytes for stored in self._stored)

    # -- snapshots

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        value = JoinValue(self._horizon.value(self.counters.late_rows), self._next_number)
        parts = tuple(stored.snapshot(checkpoint) for stored in self._stored)
        self._handed_out[checkpoint] = parts
        return OperatorState(
            chunks=tuple(chunk for part in parts for chunk in part), value=msgspec.msgpack.encode(value)
        )

    def capture(self) -> None:
        for stored in self._stored:
            stored.capture()

    def abandon_capture(self, checkpoint: CheckpointId) -> None:
        self._handed_out.pop(checkpoint, None)
        for stored in self._stored:
            stored.abandon_capture(checkpoint)

    def on_stored(self, checkpoint: CheckpointId, handles: tuple[ChunkHandle, ...]) -> None:
        """Chunks come back in the order they were handed out, those without rows left out."""
        remaining = iter(handles)
        for stored, chunks in zip(self._stored, self._handed_out.pop(checkpoint, ()), strict=False):
            kept = [chunk for chunk in chunks if isinstance(chunk, ChunkHandle) or chunk.rows.height]
            stored.on_stored(checkpoint, tuple(next(remaining) for _ in kept))

    def on_completed(self, checkpoint: CheckpointId) -> None:
        self._handed_out = {at: parts for at, parts in self._handed_out.items() if at > checkpoint}
        for stored in self._stored:
            stored.on_completed(checkpoint)

    def _restore(self, restored: Restored) -> None:
        for stored in self._stored:
            stored.restore(restored.chunks, self._horizon)
        self._count()


def _able(rows: pl.DataFrame, keys: Schema, null_safe: tuple[bool, ...]) -> pl.Series:
    """Which rows can have a partner at all: null equals nothing, unless the comparison is null-safe."""
    able = pl.Series(np.ones(rows.height, np.bool_))
    for key, safe in zip(keys, null_safe, strict=True):
        column = rows.get_column(key.name)
        if not safe and column.null_count():
            able &= column.is_not_null()
    return able


def _negative(value: int | None) -> int | None:
    return None if value is None else -value
