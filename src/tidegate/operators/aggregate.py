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

from tidegate.model.elements import Batch, Output
from tidegate.model.ids import CheckpointId
from tidegate.model.output_mode import OutputMode
from tidegate.operators.accumulators.protocol import Merging
from tidegate.operators.columns import polars_type
from tidegate.operators.horizon import restored_horizon
from tidegate.operators.keys import KeyColumns
from tidegate.operators.partial_aggregate import accumulators_of, key_schema, rows_column
from tidegate.operators.pieces import pieces
from tidegate.operators.protocol import OperatorContext, OperatorCounters, OperatorState, Restored
from tidegate.operators.tabled import Tabled
from tidegate.operators.whole_results import check_size
from tidegate.plan.relational import Aggregate
from tidegate.state.chunk import RestoredChunk
from tidegate.state.frames import picked
from tidegate.state.table import KeyedTable


class AggregateOperator(Tabled[KeyedTable]):
    """Input: rows of ``partial_schema``, keys of this subtask's key groups only. Output: ``Aggregate.schema``."""

    flushes = True

    def __init__(self, node: Aggregate, context: OperatorContext) -> None:
        super().__init__()
        self._node = node
        self._context = context
        self._keys = KeyColumns(key_schema(node))
        self._accumulators = accumulators_of(node)
        self._merging = Merging(self._accumulators)
        self._rows_column = rows_column(self._accumulators)
        self._end_leaf = None if node.event_time is None else self._keys.leaf(*node.event_time.path)
        self._table = KeyedTable(
            self._keys.types,
            [polars_type(field.type) for a in self._accumulators for field in a.columns],
            hash_keys=self._keys.hashes,
            groups=context.groups,
            max_parallelism=context.max_parallelism,
            capture_rows=context.capture_rows,
        )
        self._horizon = restored_horizon(context)
        self.counters = OperatorCounters.restored(context, self._horizon.late_rows)
        self._first_end_us: int | None = None
        self._restore(context.restored)

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        rows = self._on_time(batch.rows)
        if not rows.height:
            return
        keys = self._keys.taken(rows)
        names = self._merging.names
        keys, values = self._merge(keys, picked(rows, names) if names else rows.select())
        self._count()
        if self._node.mode is OutputMode.UPDATE:
            for piece in pieces(keys.height):
                yield self._results(keys[piece], values[piece])

    def on_watermark(self, watermark_us: int) -> Iterator[Output]:
        self._horizon.advance(watermark_us)
        reached_us = self._horizon.watermark_us
        if self._end_leaf is None or self._first_end_us is None or self._first_end_us > reached_us:
            return
        closed = self._table.rows_at_most(self._end_leaf, reached_us)
        for part in pieces(len(closed)):
            piece = closed[part]
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
        for part in pieces(len(rows)):
            piece = rows[part]
            yield self._results(self._table.keys_of(piece), self._values_of(piece))

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        value = msgspec.msgpack.encode(self._horizon.value(self.counters.late_rows))
        return OperatorState(chunks=self._table.snapshot(checkpoint), value=value)

    # -- merging

    def _on_time(self, rows: pl.DataFrame) -> pl.DataFrame:
        event_time = self._node.event_time
        if event_time is None or self._horizon.open:
            return rows
        end = pl.col(event_time.column)
        if event_time.field is not None:
            end = end.struct.field(event_time.field)
        # A null event time is never late and never closed.
        until_us = self._horizon.until_us(lambda: self._keys.hashes(self._keys.taken(rows)))
        bound = until_us if isinstance(until_us, int) else pl.Series(until_us)
        late = rows.select((end.to_physical() <= bound).fill_null(False)).to_series()
        if not late.any():
            return rows
        self.counters.late_rows += int(rows.get_column(self._rows_column).filter(late).sum())
        return rows.filter(~late)

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
        return Batch(pl.DataFrame([*self._keys.whole(keys), *results]))

    def _count(self) -> None:
        self.counters.state_rows = self._table.live_rows
        self.counters.state_bytes = self._table.size_bytes

    # -- restoring

    def _restore(self, restored: Restored) -> None:
        self._table.restore([self._without_closed(chunk) for chunk in restored.chunks])
        if self._end_leaf is not None:
            self._first_end_us = self._table.smallest(self._end_leaf)
        self._count()

    def _without_closed(self, chunk: RestoredChunk) -> RestoredChunk:
        if self._end_leaf is None:
            return chunk
        return self._horizon.without_closed(chunk, pl.col(f"k{self._end_leaf}").to_physical())
