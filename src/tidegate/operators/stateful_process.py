"""``transformWithState`` and ``applyInPandasWithState``: the user's code over the rows and timers of one key at a time.

Rows of a key in one batch make one call. Timers in event time fire when the watermark reaches them, those in processing time when
the clock does, each once, in the order of their times. With event time, rows at or before the watermark are late: dropped and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import polars as pl

from tidegate.model.elements import WATERMARK_MIN_US, Batch, Output
from tidegate.model.errors import Bug
from tidegate.model.ids import CheckpointId
from tidegate.operators.protocol import OperatorContext, OperatorCounters, OperatorState
from tidegate.operators.stateful.codec import Codec
from tidegate.operators.stateful.grouping import KeyGrouping
from tidegate.operators.stateful.keyed_state import KeyedState
from tidegate.operators.stateful.processor import Processor
from tidegate.operators.stateful.variables import Declared, Variables
from tidegate.operators.tabled import Tabled
from tidegate.operators.user_functions import Load, failure, load_function
from tidegate.operators.values import decoded
from tidegate.plan.keyed import StatefulKind, StatefulProcess, TimeMode
from tidegate.state.entries import EntryTable

RESULT_ROWS = 1 << 13
"""Results leave once there are so many, so that back-pressure can act between the keys of a batch."""
_PURGE_MS = 1_000
"""Expired entries are invisible at once and removed at most this often."""


class ProcessValue(msgspec.Struct, frozen=True, tag_field="format", tag="process/1"):
    """What is not keyed: where event time stood, and which variables there are. Whoever has one has taken the initial state."""

    watermark_us: int
    variables: tuple[Declared, ...]
    late_rows: int = 0
    """Rows the subtask had dropped as late."""


class StatefulProcessOperator(Tabled[EntryTable]):
    """Input: rows of ``input_schema``, keys of this subtask's key groups only. It must be told what the clock shows."""

    def __init__(
        self,
        node: StatefulProcess,
        context: OperatorContext,
        load: Load,
    ) -> None:
        super().__init__()
        self._node = node
        self._operator = f"{node.kind.value}({node.label})"
        keys = node.key_schema
        values = [
            decoded(value, ProcessValue, "the state variables of a stateful processor")
            for value in context.restored.values
        ]
        self.counters = OperatorCounters.restored(context, (value.late_rows for value in values))
        self._watermark_us = min((value.watermark_us for value in values), default=WATERMARK_MIN_US)
        self._initialised = bool(values)
        loaded = load_function(load, node.command, node.label)
        if loaded.processor is None:
            raise Bug(f"whoever loaded {node.label!r} cannot run stateful functions")
        self._keys = Codec(keys, "the grouping key", loaded.make_row)
        self._grouping = KeyGrouping(keys, self._keys, context.max_parallelism)
        self._groups = context.groups
        self._table = EntryTable(context.entries(), context.groups, context.capture_rows)
        variables = Variables(declared for value in values for declared in value.variables)
        self._state = KeyedState(self._table, variables, loaded.make_row)
        self._table.restore(context.restored.chunks)
        self._state.reload()
        self._tell_watermark(self._watermark_us)
        self._processor: Processor = loaded.processor(node, self._state, loaded.function)
        self._purged_ms = 0
        self._count()

    # -- input

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        self._take_initial()
        rows = self._on_time(batch.rows)
        if not rows.height:
            return
        self._purge()
        grouped = self._grouping.split(rows)
        self._processor.take(grouped.rows)
        for group, key, start, stop in grouped.keys:
            values = self._keys.decode(key)
            self._state.enter(group, key)
            with_key = self._processor.on_rows
            yield from self._call(values, lambda: with_key(values, start, stop))  # noqa: B023 - called at once
        yield from self._results()
        if self._node.time_mode is TimeMode.EVENT and self._state.timers.next_ms <= self._state.watermark_ms:
            yield from self._fire(self._state.watermark_ms)  # Registered for a time that is over.
        self._count()

    def on_watermark(self, watermark_us: int) -> Iterator[Output]:
        self._take_initial()
        self._tell_watermark(watermark_us)
        if self._node.time_mode is TimeMode.EVENT:
            yield from self._fire(self._state.watermark_ms)

    def on_end(self) -> Iterator[Output]:
        self._take_initial()
        return iter(())

    # -- the clock

    @property
    def next_time_ms(self) -> float:
        if self._node.time_mode is not TimeMode.PROCESSING:
            return float("inf")
        purge_ms = max(self._state.expiring.next_ms, self._purged_ms + _PURGE_MS)
        return min(self._state.timers.next_ms + self._strictly, purge_ms)

    def tell_time(self, now_ms: int) -> None:
        self._state.now_ms = max(self._state.now_ms, now_ms)

    def on_time(self, now_ms: int) -> Iterator[Output]:
        self._take_initial()
        self.tell_time(now_ms)
        if self._node.time_mode is TimeMode.PROCESSING:
            self._purge()
            yield from self._fire(self._state.now_ms)

    @property
    def _strictly(self) -> int:
        """A time-out of ``applyInPandasWithState`` has passed only when its time lies behind, a timer when it is reached."""
        return 1 if self._node.kind is StatefulKind.APPLY_PANDAS else 0

    def _fire(self, until_ms: int) -> Iterator[Output]:
        for at_ms, group, key in self._state.due_timers(until_ms - self._strictly):
            values = self._keys.decode(key)
            self._state.enter(group, key)
            on_timer = self._processor.on_timer
            yield from self._call(values, lambda: on_timer(values, at_ms))  # noqa: B023 - called at once
            # After the call, as Spark does it: a timer that its own firing registers again for the same time is gone.
            if self._node.kind is not StatefulKind.APPLY_PANDAS:
                self._state.delete_timer(at_ms)
        yield from self._results()
        self._count()

    def _purge(self) -> None:
        if self._state.now_ms >= self._purged_ms + _PURGE_MS:
            self._purged_ms = self._state.now_ms
            self._state.drop_expired()

    def _tell_watermark(self, watermark_us: int) -> None:
        self._watermark_us = max(self._watermark_us, watermark_us)
        self._state.watermark_ms = max(0, self._watermark_us // 1_000)

    # -- user code

    def _take_initial(self) -> None:
        """Before anything else, once in the life of a pipeline. It gives no rows."""
        node = self._node
        if self._initialised or not node.initial:
            return
        self._initialised = True
        rows = pl.read_ipc_stream(node.initial)
        keys = [field.name for field in node.initial_schema[: len(node.keys)]]
        seen = [field.name for field in node.initial_schema[len(node.keys) :]]
        renamed = rows.select(*(pl.col(name).alias(own) for name, own in zip(keys, node.keys, strict=True)), *seen)
        grouped = self._grouping.split(renamed, within=self._groups)
        user_rows = grouped.rows.select(seen)
        for group, key, start, stop in grouped.keys:
            values = self._keys.decode(key)
            self._state.enter(group, key)
            try:
                self._processor.on_initial(values, user_rows.slice(start, stop - start))
            except Exception as error:
                raise failure(error, self._operator, f"initial state of key: {values!r}") from error

    def _call(self, key: tuple[object, ...], call: Callable[[], None]) -> Iterator[Output]:
        try:
            call()
        except Exception as error:
            raise failure(error, self._operator, f"key: {key!r}") from error
        if self._processor.kept_rows >= RESULT_ROWS:
            yield from self._results()

    def _results(self) -> Iterator[Output]:
        for rows in self._processor.results():
            yield Batch(rows)

    def _on_time(self, rows: pl.DataFrame) -> pl.DataFrame:
        event_time = self._node.event_time
        if event_time is None or self._node.time_mode is not TimeMode.EVENT or self._watermark_us == WATERMARK_MIN_US:
            return rows
        column = rows.get_column(event_time)
        if isinstance(column.dtype, pl.Struct):  # A window is over when its end is reached.
            column = column.struct.field("end")
        late = (column.to_physical() <= self._watermark_us).fill_null(False)
        if not late.any():
            return rows
        self.counters.late_rows += int(late.sum())
        return rows.filter(~late)

    def _count(self) -> None:
        self.counters.state_rows = self._table.rows
        self.counters.state_bytes = self._table.size_bytes

    # -- snapshots

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState:
        self._take_initial()
        value = ProcessValue(self._watermark_us, self._state.variables.all, self.counters.late_rows)
        return OperatorState(chunks=self._table.snapshot(checkpoint), value=msgspec.msgpack.encode(value))

    def close(self) -> None:
        self._processor.close()
        self._table.close()
