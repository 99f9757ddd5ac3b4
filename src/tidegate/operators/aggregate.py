"""Second phase of an aggregation: accumulators of batches are merged into keyed state.

Append: a group leaves once, when the watermark reaches its end, and is forgotten. Update: the current value of every group that a batch
changed leaves at once. Complete: all groups leave at every barrier, and none is ever closed. A row is late when its group's end has
been reached; late rows are dropped and counted, rows of the input: what the first phase made one row of counts as many.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidegate.model.elements import WATERMARK_MIN_US, Batch, Output, SourceStatus
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange
from tidegate.operators.accumulators.protocol import Merging
from tidegate.operators.closed import Closed, beyond, closed_until
from tidegate.operators.columns import polars_type
from tidegate.operators.partial_aggregate import accumulators_of, key_schema, rows_column
from tidegate.operators.protocol import OperatorContext, OperatorCounters, OperatorState, Restored
from tidegate.operators.whole_results import check_size
from tidegate.plan.relational import Aggregate, OutputMode
from tidegate.state.chunk import RestoredChunk
from tidegate.state.frames import picked
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups
from tidegate.state.leaves import Leaf, leaves_of, put_together, take_apart
from tidegate.state.table import KeyedTable

SLICE_ROWS = 1 << 15
"""Closed groups leave in pieces of this many rows, so that back-pressure can act between them."""


class AggregateValue(msgspec.Struct, frozen=True, tag_field="format", tag="aggregate/1"):
    """What is not keyed: the watermark of the subtask that owned ``groups``. Groups it had closed are not in the state."""

    watermark_us: int
    groups: KeyGroupRange
    closed: tuple[Closed, ...] = ()
    """What earlier owners had closed beyond that watermark."""


class AggregateOperator:
    """Input: rows of ``partial_schema``, keys of this subtask's key groups only. Output: ``Aggregate.schema``."""

    def __init__(self, node: Aggregate, context: OperatorContext) -> None:
        self.counters = OperatorCounters()
        self._node = node
        self._context = context
        self._keys = key_schema(node)
        self._accumulators = accumulators_of(node)
        self._merging = Merging(self._accumulators)
        self._rows_column = rows_column(self._accumulators)
        self._leaves = leaves_of(self._keys)
        self._hashed = [i for i, leaf in enumerate(self._leaves) if not leaf.presence]
        self._hashed_types = tuple(self._leaves[i].type for i in self._hashed)
        self._end_leaf = _event_time_leaf(node, self._leaves)
        self._table = KeyedTable(
            [polars_type(leaf.type) for leaf in self._leaves] or [pl.Boolean()],
            [polars_type(field.type) for a in self._accumulators for field in a.columns],
            hash_keys=self._hash_keys,
            groups=context.groups,
            max_parallelism=context.max_parallelism,
            capture_rows=context.capture_rows,
        )
        self._watermark_us = WATERMARK_MIN_US
        self._closed: tuple[Closed, ...] = ()
        self._first_end_us: int | None = None
        self._restore(context.restored)

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        rows = self._on_time(batch.rows)
        if not rows.height:
            return
        keys = take_apart(rows, self._keys) if self._keys else rows.select(k0=pl.repeat(True, pl.len()))
        names = self._merging.names
        keys, values = self._merge(keys, picked(rows, names) if names else rows.select())
        self._count()
        if self._node.mode is OutputMode.UPDATE and keys.height <= SLICE_ROWS:
            yield self._results(keys, values)
        elif self._node.mode is OutputMode.UPDATE:
            for start in range(0, keys.height, SLICE_ROWS):
                yield self._results(keys[start : start + SLICE_ROWS], values[start : start + SLICE_ROWS])

    def on_watermark(self, watermark_us: int) -> Iterator[Output]:
        self._watermark_us = max(self._watermark_us, watermark_us)
        if self._end_leaf is None or self._first_end_us is None or self._first_end_us > self._watermark_us:
            return
        closed = self._table.rows_at_most(self._end_leaf, self._watermark_us)
        for start in range(0, len(closed), SLICE_ROWS):
            piece = closed[start : start + SLICE_ROWS]
            # No tombstones: the watermark in the snapshot says that these groups are gone.
            self._table.remove(piece, tombstones=False)
            if self._node.mode is OutputMode.APPEND:
                yield self._results(self._table.keys_of(piece), self._values_of(piece))
        self._first_end_us = self._table.smallest(self._end_leaf)
        self._count()

    def on_barrier(self, checkpoint: CheckpointId) -> Iterator[Output]:
        """The whole result, in complete mode."""
        if self._node.mode is not OutputMode.COMPLETE:
            return
        check_size(self._table.live_rows, self._context, self._node.id)
        rows = self._table.all_rows()
        for start in range(0, len(rows), SLICE_ROWS):
            piece = rows[start : start + SLICE_ROWS]
            yield self._results(self._table.keys_of(piece), self._values_of(piece))

    def output_watermark(self, watermark_us: int) -> int | None:
        return watermark_us

    def on_status(self, status: SourceStatus) -> Iterator[Output]:
        return iter(())

    def on_end(self) -> Iterator[Output]:
        return iter(())

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        closed = beyond(self._closed, self._context.groups, self._watermark_us)
        value = AggregateValue(self._watermark_us, self._context.groups, closed)
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

    # -- merging

    def _on_time(self, rows: pl.DataFrame) -> pl.DataFrame:
        event_time = self._node.event_time
        if event_time is None or (self._watermark_us == WATERMARK_MIN_US and not self._closed):
            return rows
        end = pl.col(event_time.column)
        if event_time.field is not None:
            end = end.struct.field(event_time.field)
        # A null event time is never late and never closed.
        late = rows.select((end.to_physical() <= self._late_until(rows)).fill_null(False)).to_series()
        if not late.any():
            return rows
        self.counters.late_rows += int(rows.get_column(self._rows_column).filter(late).sum())
        return rows.filter(~late)

    def _late_until(self, rows: pl.DataFrame) -> int | pl.Series:
        """Of every row, where what an earlier owner had closed lies beyond the watermark; otherwise one for all of them."""
        self._closed = beyond(self._closed, self._context.groups, self._watermark_us)
        if not self._closed or not self._keys:
            return max((self._watermark_us, *(one.until_us for one in self._closed)))
        groups = key_groups(self._hash_keys(take_apart(rows, self._keys)), self._context.max_parallelism)
        until_us = np.maximum(closed_until(self._closed, groups.astype(np.int64)), self._watermark_us)
        return pl.Series(until_us)

    def _merge(self, keys: pl.DataFrame, added: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Returns the groups that changed, each once: keys and what is now in the table for them."""
        table = self._table
        rows, new_rows = table.upsert(keys)
        if self._end_leaf is not None and len(new_rows):
            self._remember_end(keys.to_series(self._end_leaf))
        if not table.all_distinct(rows):
            rows, added = self._combined(rows, added)
            keys = table.keys_of(rows)
        if len(new_rows) < len(rows):
            added = self._merging.merged(self._values_of(rows), added)
        table.write(rows, added)
        return keys, added

    def _combined(self, rows: NDArray[np.int64], added: pl.DataFrame) -> tuple[NDArray[np.int64], pl.DataFrame]:
        """Accumulator rows of one key (batches of several senders in one) are first combined among themselves."""
        # Not ``with_columns``: GROUP BY without aggregates has no accumulator column that says how many rows there are.
        combined = self._merging.combined(pl.DataFrame([pl.Series("row", rows), *added.get_columns()]), "row")
        return combined.drop_in_place("row").to_numpy(), combined

    def _remember_end(self, ends: pl.Series) -> None:
        first = ends.to_physical().min()
        if isinstance(first, int) and (self._first_end_us is None or first < self._first_end_us):
            self._first_end_us = first

    def _values_of(self, rows: NDArray[np.int64]) -> pl.DataFrame:
        values = self._table.values_of(rows)
        values.columns = self._merging.names
        return values

    def _results(self, keys: pl.DataFrame, values: pl.DataFrame) -> Batch:
        results = [accumulator.finish(values) for accumulator in self._accumulators]
        return Batch(pl.DataFrame([*(put_together(keys, self._keys).get_columns() if self._keys else ()), *results]))

    def _hash_keys(self, keys: pl.DataFrame) -> NDArray[np.uint64]:
        """As the exchange hashes whole keys: a struct by its fields, without the leaf that says whether it is null."""
        if not self._leaves:
            return np.zeros(keys.height, np.uint64)
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
        self._table.restore([self._without_closed(chunk, closed) for chunk in restored.chunks])
        if self._end_leaf is not None:
            self._first_end_us = self._table.smallest(self._end_leaf)
        self._count()

    def _without_closed(self, chunk: RestoredChunk, closed: list[Closed]) -> RestoredChunk:
        """Groups that their owner had closed before the barrier: stored earlier, emitted, gone."""
        if self._end_leaf is None:
            return chunk
        gone = pl.lit(False)
        for one in closed:
            owned = (pl.col("kg") >= one.groups.start) & (pl.col("kg") < one.groups.stop)
            gone = gone | (owned & (pl.col(f"k{self._end_leaf}").to_physical() <= one.until_us))
        return RestoredChunk(chunk.handle, chunk.rows.filter(~gone.fill_null(False)))


def _event_time_leaf(node: Aggregate, leaves: tuple[Leaf, ...]) -> int | None:
    if node.event_time is None:
        return None
    wanted = (
        (node.event_time.column,) if node.event_time.field is None else (node.event_time.column, node.event_time.field)
    )
    return next(i for i, leaf in enumerate(leaves) if leaf.path == wanted)


def _decoded(value: bytes) -> AggregateValue:
    try:
        return msgspec.msgpack.decode(value, type=AggregateValue)
    except msgspec.MsgspecError as error:
        raise CorruptSnapshot(
            f"the watermark of an aggregation cannot be read: {error}",
            hint="restore an older checkpoint, or use the Tidegate version that wrote this one",
        ) from error
