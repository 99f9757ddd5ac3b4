"""``applyInPandasWithState``: one value and one time-out per key, through PySpark's ``GroupState``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import polars as pl
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tidegate.connectors.pyspark_state.rows import PandasBorder
from tidegate.connectors.pyspark_state.transform import border_of
from tidegate.connectors.spark_types import spark_schema
from tidegate.model.errors import Bug
from tidegate.operators.stateful.keyed_state import KeyedState
from tidegate.operators.stateful.processor import Key
from tidegate.plan.keyed import StatefulProcess, TimeMode

_TIMEOUTS = {
    TimeMode.NONE: GroupStateTimeout.NoTimeout,
    TimeMode.PROCESSING: GroupStateTimeout.ProcessingTimeTimeout,
    TimeMode.EVENT: GroupStateTimeout.EventTimeTimeout,
}


class ApplyProcessor:
    """A ``Processor``. A time-out is a timer of which a key has at most one.

    As in Spark, a call that neither updates nor removes the state and sets no time-out leaves the old time-out as it was; an
    update without one ends it.
    """

    def __init__(self, node: StatefulProcess, state: KeyedState, function: Callable[..., Any]) -> None:
        self._node = node
        self._state = state
        self._function = function
        border = border_of(node)
        assert isinstance(border, PandasBorder)
        self._border = border
        self._value = state.value("state", node.state_schema)
        self._schema = spark_schema(node.state_schema)
        self._timeout = _TIMEOUTS[node.time_mode]
        self._taken = pd.DataFrame()

    def take(self, rows: pl.DataFrame) -> None:
        self._taken = self._border.taken(rows)

    def on_rows(self, key: Key, start: int, stop: int) -> None:
        self._call(key, self._border.cut(self._taken, start, stop), timed_out=False)

    def on_timer(self, key: Key, at_ms: int) -> None:
        self._state.delete_timer(at_ms)
        self._call(key, iter([self._border.empty()]), timed_out=True)

    def on_initial(self, key: Key, rows: pl.DataFrame) -> None:
        raise Bug("applyInPandasWithState has no initial state")

    @property
    def kept_rows(self) -> int:
        return self._border.kept_rows

    def results(self) -> Iterator[pl.DataFrame]:
        return self._border.results()

    def close(self) -> None:
        return None

    def _call(self, key: Key, frames: Iterator[pd.DataFrame], *, timed_out: bool) -> None:
        value = self._value.get()
        state = GroupState(
            optionalValue=None if value is None else Row(*value),  # pyright: ignore[reportArgumentType]
            batchProcessingTimeMs=self._state.now_ms,
            eventTimeWatermarkMs=self._state.watermark_ms if self._node.has_watermark else GroupState.NO_TIMESTAMP,
            timeoutConf=self._timeout,
            hasTimedOut=timed_out,
            watermarkPresent=self._node.has_watermark,
            defined=value is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=GroupState.NO_TIMESTAMP,
            keyAsUnsafe=b"",
            valueSchema=self._schema,
        )
        results = self._function(self._border.key(key), frames, state)
        if results is None or isinstance(results, pd.DataFrame):
            raise TypeError(f"the function must give an iterable of pandas.DataFrame, not {type(results).__name__}")
        self._border.keep(results)
        self._write(state)

    def _write(self, state: GroupState) -> None:
        if state._updated:
            self._value.update(tuple(state._value))
        elif state._removed:
            self._value.clear()
        timeout_ms = int(state._timeout_timestamp)
        has_timeout = timeout_ms != GroupState.NO_TIMESTAMP
        if state._updated or state._removed or has_timeout:
            for old_ms in self._state.list_timers():
                if old_ms != timeout_ms:
                    self._state.delete_timer(old_ms)
        if has_timeout:
            self._state.register_timer(timeout_ms)
