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

from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US, Batch, Output
from tidegate.model.ids import CheckpointId
from tidegate.operators.horizon import restored_horizon
from tidegate.operators.keys import KeyColumns
from tidegate.operators.protocol import OperatorContext, OperatorCounters, OperatorState, Restored
from tidegate.operators.tabled import Tabled
from tidegate.plan.keyed import Deduplicate
from tidegate.plan.relational import EventTimeKey
from tidegate.state.chunk import RestoredChunk
from tidegate.state.table import KeyedTable

_EXPIRES = 0
"""The only value column, of ``dropDuplicatesWithinWatermark``: microseconds; null: never."""
_SCAN_SHARE = 16
"""Looking for passed keys means looking at all of them: done once so many of them, one in sixteen, are new since the last time."""


class DeduplicateOperator(Tabled[KeyedTable]):
    """Input: rows with keys of this subtask's key groups only. Output: some of them, unchanged and in order."""

    def __init__(self, node: Deduplicate, context: OperatorContext) -> None:
        super().__init__()
        self._node = node
        self._keys = KeyColumns(node.key_schema)
        by_key = node.event_time is not None and not node.within_watermark
        self._time_leaf = self._keys.leaf(*node.event_time.path) if by_key and node.event_time is not None else None
        self._forgets = node.within_watermark or self._time_leaf is not None
        self._table = KeyedTable(
            self._keys.types,
            [pl.Int64()] if node.within_watermark else [],
            hash_keys=self._keys.hashes,
            groups=context.groups,
            max_parallelism=context.max_parallelism,
            capture_rows=context.capture_rows,
        )
        self._horizon = restored_horizon(context)
        self.counters = OperatorCounters.restored(context, self._horizon.late_rows)
        self._added_rows = 0
        self._restore(context.restored)

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        rows = batch.rows
        keys = self._keys.normalised(rows)
        until_us = self._horizon.until_us(lambda: self._keys.hashes(keys))
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
        self._horizon.advance(watermark_us)
        due = self._added_rows * _SCAN_SHARE >= self._table.live_rows or watermark_us >= WATERMARK_MAX_US
        if self._forgets and due and self._table.live_rows:
            self._added_rows = 0
            self._table.remove(self._passed_rows(), tombstones=False)
            self._count()
        return iter(())

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        value = msgspec.msgpack.encode(self._horizon.value(self.counters.late_rows))
        return OperatorState(chunks=self._table.snapshot(checkpoint), value=value)

    # -- late rows

    def _late(self, rows: pl.DataFrame, until_us: int | NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """None when no row is. A null time is never late."""
        if self._node.event_time is None or (isinstance(until_us, int) and until_us == WATERMARK_MIN_US):
            return None
        bound = until_us if isinstance(until_us, int) else pl.Series(until_us)
        late = rows.select((_time_of(self._node.event_time) <= bound).fill_null(False)).to_series()
        return late.to_numpy() if late.any() else None

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
            return self._table.rows_at_most(self._time_leaf, self._horizon.watermark_us)
        return self._table.rows_with_value_at_most(_EXPIRES, self._horizon.watermark_us)

    def _count(self) -> None:
        self.counters.state_rows = self._table.live_rows
        self.counters.state_bytes = self._table.size_bytes

    # -- restoring

    def _restore(self, restored: Restored) -> None:
        self._table.restore([self._without_passed(chunk) for chunk in restored.chunks])
        self._count()

    def _without_passed(self, chunk: RestoredChunk) -> RestoredChunk:
        if not self._forgets:
            return chunk
        time = pl.col(f"v{_EXPIRES}" if self._time_leaf is None else f"k{self._time_leaf}")
        return self._horizon.without_closed(chunk, time.to_physical())


def _first_positions(found: NDArray[np.int64], fresh: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Of every row number among the ``fresh`` ones the first position, ascending."""
    positions = np.flatnonzero(fresh)
    _, firsts = np.unique(found[positions], return_index=True)
    return np.sort(positions[firsts])


def _time_of(event_time: EventTimeKey) -> pl.Expr:
    """Microseconds; of a window, its end."""
    column = pl.col(event_time.column)
    return (column if event_time.field is None else column.struct.field(event_time.field)).to_physical()
