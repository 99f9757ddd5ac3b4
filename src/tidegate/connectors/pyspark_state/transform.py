"""``transformWithState`` and ``transformWithStateInPandas``: a ``StatefulProcessor`` at work in a slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasUdfUtils
from pyspark.sql.types import StructType

from tidegate.connectors.pyspark_state.handle import Handle, ReadSchema
from tidegate.connectors.pyspark_state.rows import Border, PandasBorder, RowBorder
from tidegate.model.errors import Bug, InvalidQuery
from tidegate.model.types import Field, Schema
from tidegate.operators.stateful.keyed_state import KeyedState
from tidegate.operators.stateful.processor import Key
from tidegate.operators.user_functions import user_name
from tidegate.plan.keyed import StatefulKind, StatefulProcess, TimeMode


class TransformProcessor:
    """A ``Processor``. ``init`` runs once per attempt: what the user's object keeps in attributes of its own is not state."""

    def __init__(self, node: StatefulProcess, state: KeyedState, function: Callable[..., Any]) -> None:
        self._node = node
        self._state = state
        self._user = processor_of(function)
        self._border = border_of(node)
        self._taken: Any = None
        # Of a timer Spark's key is a Row, read back from its state, where that of rows is a tuple.
        self._timer_key = Row(*(user_name(name) for name in node.keys))
        handle = Handle(state, known_schemas(node.state_schemas), node.time_mode)
        self._user.init(handle)
        handle.declaring = False

    def take(self, rows: pl.DataFrame) -> None:
        self._taken = self._border.taken(rows)

    def on_rows(self, key: Key, start: int, stop: int) -> None:
        rows = self._border.cut(self._taken, start, stop)
        self._border.keep(self._user.handleInputRows(self._border.key(key), rows, self._times()))

    def on_timer(self, key: Key, at_ms: int) -> None:
        self._border.keep(
            self._user.handleExpiredTimer(
                key=self._timer_key(*key), timerValues=self._times(), expiredTimerInfo=ExpiredTimerInfo(at_ms)
            )
        )

    def on_initial(self, key: Key, rows: pl.DataFrame) -> None:
        node = self._node
        schema = node.initial_schema[len(node.keys) :]
        for one in self._border.initial(rows, schema, node.initial_names):
            self._user.handleInitialState(self._border.key(key), one, self._times())

    @property
    def kept_rows(self) -> int:
        return self._border.kept_rows

    def results(self) -> Iterator[pl.DataFrame]:
        return self._border.results()

    def close(self) -> None:
        self._user.close()

    def _times(self) -> TimerValues:
        if self._node.time_mode is TimeMode.NONE:
            return TimerValues(-1, -1)
        return TimerValues(self._state.now_ms, self._state.watermark_ms if self._node.has_watermark else -1)


def processor_of(function: Callable[..., Any]) -> StatefulProcessor:
    """The user's object out of the function Spark made of it."""
    wrapper = getattr(function, "__self__", None)
    if not isinstance(wrapper, TransformWithStateInPandasUdfUtils):
        raise Bug(f"the command of a transformWithState holds a {type(function).__name__}, not PySpark's wrapper")
    return wrapper._stateful_processor


def border_of(node: StatefulProcess) -> Border:
    seen = node.input_schema[len(node.input_schema) - len(node.input_names) :]
    names = zip(node.output_names, node.schema, strict=True)
    public = tuple(Field(name, field.type, field.nullable) for name, field in names)
    kind = RowBorder if node.kind is StatefulKind.TRANSFORM_ROW else PandasBorder
    return kind(seen, node.input_names, node.key_schema, node.schema, public, node.zone)


def known_schemas(schemas: tuple[tuple[str, Schema], ...]) -> ReadSchema:
    """Schemas were read when the query started: only Spark's JVM understands their text."""
    known = dict(schemas)

    def read(schema: StructType | str) -> Schema:
        text = schema if isinstance(schema, str) else schema.json()
        if text not in known:
            raise InvalidQuery(
                f"init() declares a state variable with the schema {text}, which it did not when the query started",
                hint="declare the same variables at every call of init()",
            )
        return known[text]

    return read
