"""Session windows: rows of a key that follow one another closely are aggregated together, however many they are.

Every row is an interval ``[time, time + gap)``; overlapping and touching intervals of a key are one session. A batch is first brought to
its own sessions, then merged with those in state, all keys at once. All sessions of a key share one row of state, so a merge
overwrites what it replaces and there is nothing to bury.

Append: a session leaves once, when the watermark reaches its end, and is forgotten. Complete: all of them leave at every barrier and
none is forgotten. In both a row is late when its own interval has ended, whether or not a session goes on there: as in Spark.
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
from tidegate.operators.accumulators.protocol import (
    Merging,
    Settling,
    overflow_as_data_error,
    partial_expressions,
)
from tidegate.operators.accumulators.registry import accumulator_of
from tidegate.operators.columns import polars_type
from tidegate.operators.horizon import restored_horizon
from tidegate.operators.keys import KeyColumns
from tidegate.operators.pieces import pieces
from tidegate.operators.protocol import OperatorContext, OperatorCounters, OperatorState, Restored
from tidegate.operators.session_intervals import (
    END,
    FIRST_END,
    ROW,
    SESSION,
    START,
    all_apart,
    bounds,
    numbered,
    packed,
    state_types,
    unpacked,
)
from tidegate.operators.tabled import Tabled
from tidegate.operators.whole_results import check_size
from tidegate.plan.keyed import SessionAggregate
from tidegate.state.chunk import RestoredChunk
from tidegate.state.table import KeyedTable

_FIRST_END, _ENDS = 0, 2
"""Among the value columns."""


class SessionAggregateOperator(Tabled[KeyedTable]):
    """Input: rows with keys of this subtask's key groups only, no session of them null. Output: ``SessionAggregate.schema``."""

    flushes = True

    def __init__(self, node: SessionAggregate, context: OperatorContext) -> None:
        super().__init__()
        self._node = node
        self._context = context
        types = {field.name: field for field in node.input_schema}
        self._keys = KeyColumns(node.key_schema)
        self._session_type = polars_type(types[node.session].type)
        self._accumulators = tuple(accumulator_of(call) for call in node.calls)
        self._merging = Merging(self._accumulators)
        self._settling = Settling(self._accumulators)
        self._read = list(dict.fromkeys(name for call in node.calls for name in call.reads))
        self._closes = node.event_time and node.mode is not OutputMode.COMPLETE
        self._table = KeyedTable(
            self._keys.types,
            state_types([polars_type(field.type) for a in self._accumulators for field in a.columns]),
            hash_keys=self._keys.hashes,
            groups=context.groups,
            max_parallelism=context.max_parallelism,
            capture_rows=context.capture_rows,
        )
        self._horizon = restored_horizon(context)
        self.counters = OperatorCounters.restored(context, self._horizon.late_rows)
        self._first_end_us: int | None = None
        self._sessions = 0
        self._restore(context.restored)

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        rows, keys = self._on_time(batch.rows, self._keys.normalised(batch.rows))
        if rows.height:
            found, _ = self._table.upsert(keys)
            self._merge(np.unique(found), self._sessions_of(rows, found))
            self._count()
        return iter(())

    def on_watermark(self, watermark_us: int) -> Iterator[Output]:
        self._horizon.advance(watermark_us)
        reached_us = self._horizon.watermark_us
        if not self._closes or self._first_end_us is None or self._first_end_us > reached_us:
            return
        rows = self._table.rows_with_value_at_most(_FIRST_END, reached_us)
        sessions = self._unpacked(rows)
        over = sessions.get_column(END) <= reached_us
        keys = self._table.keys_of(rows)
        self._keep(rows, sessions.filter(~over))
        self._sessions -= int(over.sum())
        self._first_end_us = self._table.smallest_value(_FIRST_END)
        self._count()
        yield from self._results(sessions.filter(over), rows, keys)

    def on_barrier(self, checkpoint: CheckpointId) -> Iterator[Output]:
        """The whole result, in complete mode."""
        if self._node.mode is not OutputMode.COMPLETE:
            return
        check_size(self._sessions, self._context, self._node.id)
        rows = self._table.all_rows()
        for part in pieces(len(rows)):
            piece = rows[part]
            yield from self._results(self._unpacked(piece), piece, self._table.keys_of(piece))

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        value = msgspec.msgpack.encode(self._horizon.value(self.counters.late_rows))
        return OperatorState(chunks=self._table.snapshot(checkpoint), value=value)

    # -- rows to sessions

    def _on_time(self, rows: pl.DataFrame, keys: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        if not self._node.event_time or self._horizon.open:
            return rows, keys
        end = pl.col(self._node.session).struct.field("end").to_physical()
        until_us = self._horizon.until_us(lambda: self._keys.hashes(keys))
        late = rows.select(end <= (until_us if isinstance(until_us, int) else pl.Series(until_us))).to_series()
        if not late.any():
            return rows, keys
        self.counters.late_rows += int(late.sum())
        return rows.filter(~late), keys.filter(~late)

    def _sessions_of(self, rows: pl.DataFrame, found: NDArray[np.int64]) -> pl.DataFrame:
        """The rows of a batch, as sessions among themselves: ``ROW START END`` and the accumulators."""
        session = pl.col(self._node.session)
        intervals = rows.select(
            pl.Series(ROW, found),
            session.struct.field("start").to_physical().alias(START),
            session.struct.field("end").to_physical().alias(END),
            *self._read,
        )
        together = numbered(intervals)
        with overflow_as_data_error(self._accumulators):
            partial = together.group_by(SESSION, maintain_order=True).agg(
                partial_expressions(self._accumulators, together)
            )
        return bounds(together).hstack(self._settling.apply(partial).drop(SESSION).get_columns())

    def _merge(self, rows: NDArray[np.int64], added: pl.DataFrame) -> None:
        """Puts ``added`` together with the sessions that the keys in ``rows`` have already."""
        before = self._unpacked(rows)
        together = numbered(pl.concat([before, added]))
        if all_apart(together):
            merged = together.drop(SESSION)
        else:
            accumulators = self._merging.combined(together, SESSION).drop(SESSION)
            merged = bounds(together).hstack(accumulators.get_columns())
        self._sessions += merged.height - before.height
        self._write(merged)
        first = merged.get_column(END).min()
        assert isinstance(first, int)
        if self._first_end_us is None or first < self._first_end_us:
            self._first_end_us = first

    # -- state

    def _unpacked(self, rows: NDArray[np.int64]) -> pl.DataFrame:
        return unpacked(pl.Series(rows), self._table.values_of(rows), self._merging.names)

    def _write(self, sessions: pl.DataFrame) -> NDArray[np.int64]:
        """Whole keys; their rows."""
        values = packed(sessions)
        rows = values.drop_in_place(ROW).to_numpy()
        self._table.write(rows, values)
        return rows

    def _keep(self, rows: NDArray[np.int64], left: pl.DataFrame) -> None:
        """Of the keys in ``rows`` only the sessions ``left``; a key without any is forgotten."""
        kept = self._write(left) if left.height else rows[:0]
        # No tombstones: the watermark in the snapshot says which sessions are gone.
        self._table.remove(np.setdiff1d(rows, kept), tombstones=False)

    def _results(self, sessions: pl.DataFrame, rows: NDArray[np.int64], keys: pl.DataFrame) -> Iterator[Output]:
        """``rows`` ascending, with ``keys`` in the same order."""
        for part in pieces(sessions.height):
            piece = sessions[part]
            whose = keys[np.searchsorted(rows, piece.get_column(ROW).to_numpy())]
            window = piece.select(pl.struct(pl.col(START).alias("start"), pl.col(END).alias("end"))).to_series()
            columns = {self._node.session: window.cast(self._session_type)}
            columns |= {column.name: column for column in self._keys.whole(whose)}
            columns |= {a.call.name: a.finish(piece) for a in self._accumulators}
            yield Batch(pl.DataFrame([columns[field.name].alias(field.name) for field in self._node.schema]))

    def _count(self) -> None:
        self.counters.state_rows = self._sessions
        self.counters.state_bytes = self._table.size_bytes

    # -- restoring

    def _restore(self, restored: Restored) -> None:
        self._table.restore([self._without_closed(chunk) for chunk in restored.chunks])
        self._sessions = self._unpacked(self._table.all_rows()).height
        self._first_end_us = self._table.smallest_value(_FIRST_END)
        self._count()

    def _without_closed(self, chunk: RestoredChunk) -> RestoredChunk:
        """Without the sessions that their owner had closed before the barrier: stored earlier, emitted, gone."""
        if not self._closes or not chunk.rows.height:
            return chunk
        rows, accumulators = chunk.rows, len(self._merging.names)
        names = rows.columns
        until = pl.Series(self._horizon.restored_until_us(chunk))
        lists = [f"v{i}" for i in range(1, _ENDS + 1 + accumulators)]
        sessions = rows.with_row_index(ROW).with_columns(until.alias(FIRST_END)).explode(lists)
        left = sessions.filter(pl.col(f"v{_ENDS}") > pl.col(FIRST_END))
        plain = [name for name in names if name not in lists]
        together = left.group_by(ROW, maintain_order=True).agg(
            *(pl.col(name).first() for name in plain), *(pl.col(name) for name in lists)
        )
        first = pl.col(f"v{_ENDS}").list.min()
        return RestoredChunk(chunk.handle, together.with_columns(first.alias(f"v{_FIRST_END}")).select(names))
