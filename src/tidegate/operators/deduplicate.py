"""``dropDuplicates``, ``distinct``, ``dropDuplicatesWithinWatermark``: the first row of a key passes, the others do not.

What is kept is the keys; of ``dropDuplicatesWithinWatermark`` also when each of them expires. Keys whose time has passed are removed
without tombstones: the watermark in the snapshot says, at restore, that they are gone.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US, Batch, Output, SourceStatus
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange
from tidegate.operators.closed import Closed, beyond, closed_until
from tidegate.operators.columns import polars_type
from tidegate.operators.partial_aggregate import normalised
from tidegate.operators.protocol import OperatorContext, OperatorCounters, OperatorState, Restored
from tidegate.plan.keyed import Deduplicate
from tidegate.plan.relational import EventTimeKey
from tidegate.state.chunk import RestoredChunk
from tidegate.state.frames import picked
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups
from tidegate.state.leaves import Leaf, leaf_expression, leaves_of
from tidegate.state.table import KeyedTable

_EXPIRES = 0
"""The only value column, of ``dropDuplicatesWithinWatermark``: microseconds; null: never."""
_SCAN_SHARE = 16
"""Looking for passed keys means looking at all of them: done once so many of them, one in sixteen, are new since the last time."""


class DeduplicateValue(msgspec.Struct, frozen=True, tag_field="format", tag="deduplicate/1"):
    """What is not keyed: the watermark of the subtask that owned ``groups``. Keys whose time had passed are not in the state."""

    watermark_us: int
    groups: KeyGroupRange
    closed: tuple[Closed, ...] = ()
    """What earlier owners had forgotten beyond that watermark."""


class DeduplicateOperator:
    """Input: rows with keys of this subtask's key groups only. Output: some of them, unchanged and in order."""

    def __init__(self, node: Deduplicate, context: OperatorContext) -> None:
        self.counters = OperatorCounters()
        self._node = node
        self._context = context
        types = {field.name: field for field in node.schema}
        self._leaves = leaves_of(tuple(types[key] for key in node.keys))
        self._taking_apart = [
            normalised(leaf_expression(leaf), leaf.type).alias(f"k{i}") for i, leaf in enumerate(self._leaves)
        ]
        self._hashed = [i for i, leaf in enumerate(self._leaves) if not leaf.presence]
        self._hashed_types = tuple(self._leaves[i].type for i in self._hashed)
        self._time_leaf = None if node.within_watermark else _time_leaf(node, self._leaves)
        self._forgets = node.within_watermark or self._time_leaf is not None
        self._table = KeyedTable(
            [polars_type(leaf.type) for leaf in self._leaves],
            [pl.Int64()] if node.within_watermark else [],
            hash_keys=self._hash_keys,
            groups=context.groups,
            max_parallelism=context.max_parallelism,
            capture_rows=context.capture_rows,
        )
        self._watermark_us = WATERMARK_MIN_US
        self._closed: tuple[Closed, ...] = ()
        self._added_rows = 0
        self._restore(context.restored)

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        rows = batch.rows
        keys = rows.select(self._taking_apart)
        until_us = self._passed_until(keys)
        if (late := self._late(rows, until_us)) is not None:
            self.counters.late_rows += int(np.count_nonzero(late))
            on_time = np.flatnonzero(~late)
            rows, keys = rows[on_time], keys[on_time]
            until_us = until_us if isinstance(until_us, int) else until_us[on_time]
        if not rows.height:
            return
        firsts = self._remember(rows, keys, until_us)
        self._count()
        if len(firsts):
            yield batch.with_rows(rows if len(firsts) == rows.height else rows[firsts])

    def on_watermark(self, watermark_us: int) -> Iterator[Output]:
        self._watermark_us = max(self._watermark_us, watermark_us)
        due = self._added_rows * _SCAN_SHARE >= self._table.live_rows or watermark_us >= WATERMARK_MAX_US
        if self._forgets and due and self._table.live_rows:
            self._added_rows = 0
            self._table.remove(self._passed_rows(), tombstones=False)
            self._count()
        return iter(())

    def output_watermark(self, watermark_us: int) -> int | None:
        return watermark_us

    def on_status(self, status: SourceStatus) -> Iterator[Output]:
        return iter(())

    def on_end(self) -> Iterator[Output]:
        return iter(())

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        closed = beyond(self._closed, self._context.groups, self._watermark_us)
        value = DeduplicateValue(self._watermark_us, self._context.groups, closed)
        return OperatorState(chunks=self._table.snapshot(checkpoint), value=msgspec.msgpack.encode(value))

    def capture(self) -> None:
        self._table.capture()

    def abandon_capture(self, checkpoint: CheckpointId) -> None:
        self._table.abandon_capture(checkpoint)

    def on_stored(self, checkpoint: CheckpointId, handles: tuple[ChunkHandle, ...]) -> None:
        self._table.on_stored(checkpoint, handles)

    def on_completed(self, checkpoint: CheckpointId) -> None:
        self._table.on_completed(checkpoint)

    def on_committed(self, checkpoint: CheckpointId) -> None:
        return None

    # -- late rows

    def _late(self, rows: pl.DataFrame, until_us: int | NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """None when no row is. A null time is never late."""
        if self._node.event_time is None or (isinstance(until_us, int) and until_us == WATERMARK_MIN_US):
            return None
        bound = until_us if isinstance(until_us, int) else pl.Series(until_us)
        late = rows.select((_time_of(self._node.event_time) <= bound).fill_null(False)).to_series()
        return late.to_numpy() if late.any() else None

    def _passed_until(self, keys: pl.DataFrame) -> int | NDArray[np.int64]:
        """The watermark; for every row its own, where an earlier owner of its key had seen a later one."""
        self._closed = beyond(self._closed, self._context.groups, self._watermark_us)
        if not self._closed:
            return self._watermark_us
        groups = key_groups(self._hash_keys(keys), self._context.max_parallelism)
        return np.maximum(closed_until(self._closed, groups.astype(np.int64)), self._watermark_us)

    # -- keys

    def _remember(self, rows: pl.DataFrame, keys: pl.DataFrame, until_us: int | NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of the rows that are the first of their key, ascending."""
        table = self._table
        found, added = table.upsert(keys)
        self._added_rows += len(added)
        if not self._node.within_watermark:
            return _first_positions(found, found >= added[0]) if len(added) else found[:0]
        # Nothing is removed while a key that has expired waits for the next look at all of them: it counts as new.
        expired = table.values_of(found).to_series(_EXPIRES) <= pl.Series(np.broadcast_to(until_us, len(found)))
        fresh = expired.fill_null(False).to_numpy().copy()
        if len(added):
            fresh |= found >= added[0]
        firsts = _first_positions(found, fresh)
        if len(firsts):
            assert self._node.event_time is not None
            expires = rows[firsts].select(_time_of(self._node.event_time) + self._node.delay_us)
            table.write(found[firsts], expires)
        return firsts

    def _passed_rows(self) -> NDArray[np.int64]:
        if self._time_leaf is not None:
            return self._table.rows_at_most(self._time_leaf, self._watermark_us)
        return self._table.rows_with_value_at_most(_EXPIRES, self._watermark_us)

    def _hash_keys(self, keys: pl.DataFrame) -> NDArray[np.uint64]:
        """As the exchange hashes whole keys: a struct by its fields, without the leaf that says whether it is null."""
        plain = keys if len(self._hashed) == len(self._leaves) else picked(keys, [f"k{i}" for i in self._hashed])
        return hash_columns(plain, self._hashed_types)

    def _count(self) -> None:
        self.counters.state_rows = self._table.live_rows
        self.counters.state_bytes = self._table.size_bytes

    # -- restoring

    def _restore(self, restored: Restored) -> None:
        owners = [_decoded(value) for value in restored.values]
        overlapping = [owner for owner in owners if owner.groups.intersect(self._context.groups) is not None]
        self._watermark_us = min((owner.watermark_us for owner in overlapping), default=WATERMARK_MIN_US)
        closed = [one for owner in overlapping for one in (Closed(owner.groups, owner.watermark_us), *owner.closed)]
        self._closed = beyond(closed, self._context.groups, self._watermark_us)
        self._table.restore([self._without_passed(chunk, closed) for chunk in restored.chunks])
        self._count()

    def _without_passed(self, chunk: RestoredChunk, closed: list[Closed]) -> RestoredChunk:
        """Keys that their owner had forgotten before the barrier."""
        if not self._forgets:
            return chunk
        time = pl.col(f"v{_EXPIRES}" if self._time_leaf is None else f"k{self._time_leaf}").to_physical()
        gone = pl.lit(False)
        for one in closed:
            owned = (pl.col("kg") >= one.groups.start) & (pl.col("kg") < one.groups.stop)
            gone = gone | (owned & (time <= one.until_us))
        return RestoredChunk(chunk.handle, chunk.rows.filter(~gone.fill_null(False)))


def _first_positions(found: NDArray[np.int64], fresh: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Of every row number among the ``fresh`` ones the first position, ascending."""
    positions = np.flatnonzero(fresh)
    _, firsts = np.unique(found[positions], return_index=True)
    return np.sort(positions[firsts])


def _time_of(event_time: EventTimeKey) -> pl.Expr:
    """Microseconds; of a window, its end."""
    column = pl.col(event_time.column)
    return (column if event_time.field is None else column.struct.field(event_time.field)).to_physical()


def _time_leaf(node: Deduplicate, leaves: tuple[Leaf, ...]) -> int | None:
    """Which key column is the event time; None when the keys do without it."""
    if node.event_time is None:
        return None
    field = node.event_time.field
    wanted = (node.event_time.column,) if field is None else (node.event_time.column, field)
    return next((i for i, leaf in enumerate(leaves) if leaf.path == wanted), None)


def _decoded(value: bytes) -> DeduplicateValue:
    try:
        return msgspec.msgpack.decode(value, type=DeduplicateValue)
    except msgspec.MsgspecError as error:
        raise CorruptSnapshot(
            f"the watermark of a deduplication cannot be read: {error}",
            hint="restore an older checkpoint, or use the Tidegate version that wrote this one",
        ) from error
