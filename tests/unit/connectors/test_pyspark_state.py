"""PySpark's state classes over Tidegate's state, without a Spark session: what the user's code sees."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pandas as pd
import polars as pl
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasUdfUtils

from tidegate.connectors.pyspark_state.declaring import declared_schemas
from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.model.errors import InvalidQuery, UserCodeFailed
from tidegate.model.ids import OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field, Schema
from tidegate.operators.protocol import OperatorContext
from tidegate.operators.stateful_process import StatefulProcessOperator
from tidegate.plan.keyed import StatefulKind, StatefulProcess, TimeMode
from tidegate.spark.functions import load
from tidegate.state.keygroups import range_of

NUMBER: Schema = (Field("n", t.LONG),)
INPUT: Schema = (Field("k#0", t.INTEGER), Field("ts#1", t.TIMESTAMP), Field("v#2", t.LONG))
OUTPUT: Schema = (Field("k#3", t.INTEGER), Field("text#4", t.STRING))
NOW_MS = 1_700_000_000_000


def operator(code: Any, kind: StatefulKind, mode: TimeMode, state_schema: Schema = ()) -> StatefulProcessOperator:
    if kind is not StatefulKind.APPLY_PANDAS:
        code = TransformWithStateInPandasUdfUtils(code, mode.value).transformWithStateUDF
    node = StatefulProcess(
        id=OperatorId("process-k"),
        kind=kind,
        label="code",
        command=cloudpickle.dumps((code, None)),
        keys=("k#0",),
        time_mode=mode,
        event_time="ts#1" if mode is TimeMode.EVENT else None,
        mode=OutputMode.APPEND,
        input_names=("k", "ts", "v"),
        output_names=("k", "text"),
        schema=OUTPUT,
        input_schema=INPUT,
        state_schema=state_schema,
        state_schemas=(("n bigint", NUMBER),),
        has_watermark=mode is TimeMode.EVENT,
    )
    context = OperatorContext(node.id, SlotIndex(0), 1, 8, range_of(0, 1, 8))
    return StatefulProcessOperator(node, context, load)


def batch(*rows: tuple[int, int, int | None]) -> Batch:
    """Key, second, value."""
    schema = {"k#0": pl.Int32, "ts#1": pl.Datetime("us", "UTC"), "v#2": pl.Int64}
    data = [(key, datetime.fromtimestamp(second, UTC), value) for key, second, value in rows]
    return Batch(pl.DataFrame(data, schema=schema, orient="row"))


def texts(produced: Any) -> list[tuple[int, str]]:
    return [row for one in produced for row in one.rows.rows()]


class Pandas(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.seen = handle.getValueState("seen", "n bigint")

    def handleInputRows(self, key, rows, timerValues):
        frame = pd.concat(list(rows))
        kinds = [str(kind) for kind in frame.dtypes]
        assert (
            kinds[0] == "int64" and kinds[1].startswith("datetime64") and list(frame.index) == list(range(len(frame)))
        )
        self.seen.update(((self.seen.get() or (0,))[0] + len(frame),))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 5_000)
        yield pd.DataFrame({"text": [f"{key} {self.seen.get()}"], "k": [key[0]]})

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield pd.DataFrame({"k": [key.k], "text": [f"{expiredTimerInfo.getExpiryTimeInMs()}"]})

    def close(self):
        pass


def test_a_pandas_processor_sees_plain_frames_and_gives_columns_by_name() -> None:
    one = operator(Pandas(), StatefulKind.TRANSFORM_PANDAS, TimeMode.EVENT)
    assert texts(one.on_batch(batch((1, 1, 5), (2, 1, None), (1, 2, 6)))) == [(1, "(1,) (2,)"), (2, "(2,) (1,)")]
    assert texts(one.on_watermark(5_000_000)) == [(1, "5000"), (2, "5000")]


class Rows(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.seen = handle.getValueState("seen", "n bigint", 100)

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            assert row.ts.tzinfo is not None and isinstance(row, Row)
            yield Row(text=f"{row.v} {self.seen.exists()}", k=key[0])
            self.seen.update((row.v,))

    def close(self):
        pass


def test_a_row_processor_sees_rows_and_a_value_past_its_time_is_gone() -> None:
    one = operator(Rows(), StatefulKind.TRANSFORM_ROW, TimeMode.PROCESSING)
    one.tell_time(NOW_MS)
    assert texts(one.on_batch(batch((1, 1, 5), (1, 1, 6)))) == [(1, "5 False"), (1, "6 True")]
    one.tell_time(NOW_MS + 100)
    assert texts(one.on_batch(batch((1, 1, 7)))) == [(1, "7 False")]


def sessions(key, frames, state: GroupState):
    if state.hasTimedOut:
        yield pd.DataFrame({"k": [key[0]], "text": [f"over after {state.get} {sum(map(len, frames))}"]})
        state.remove()
        return
    state.update(((state.getOption or (0,))[0] + sum(map(len, frames)),))
    state.setTimeoutDuration(1_000)


def test_a_time_out_of_apply_in_pandas_moves_with_every_call_and_comes_once() -> None:
    one = operator(sessions, StatefulKind.APPLY_PANDAS, TimeMode.PROCESSING, NUMBER)
    one.tell_time(NOW_MS)
    assert texts(one.on_batch(batch((1, 1, 5), (2, 1, 5)))) == []
    one.tell_time(NOW_MS + 600)
    texts(one.on_batch(batch((1, 1, 5))))
    assert texts(one.on_time(NOW_MS + 1_001)) == [(2, "over after (1,) 0")]
    assert texts(one.on_time(NOW_MS + 1_600)) == [], "its time must lie behind, not only be reached"
    assert texts(one.on_time(NOW_MS + 1_601)) == [(1, "over after (2,) 0")]
    assert texts(one.on_time(NOW_MS + 99_999)) == [] and one.counters.state_rows == 0


class Late(StatefulProcessor):
    """Declares a variable too late."""

    def init(self, handle):
        self.handle = handle

    def handleInputRows(self, key, rows, timerValues):
        self.handle.getValueState("seen", "n bigint")
        yield from ()

    def close(self):
        pass


def test_a_variable_declared_outside_init_is_the_users_error() -> None:
    one = operator(Late(), StatefulKind.TRANSFORM_ROW, TimeMode.NONE)
    with pytest.raises(UserCodeFailed, match=r"must be declared in init\(\)"):
        texts(one.on_batch(batch((1, 1, 1))))


def test_schemas_are_found_out_on_the_driver_and_a_ttl_needs_processing_time() -> None:
    wrapped = TransformWithStateInPandasUdfUtils(Rows(), "processingtime").transformWithStateUDF
    found = declared_schemas(wrapped, lambda _: NUMBER, TimeMode.PROCESSING)
    assert found == (("n bigint", NUMBER),)
    with pytest.raises(InvalidQuery, match="has a TTL, which counts processing time"):
        declared_schemas(wrapped, lambda _: NUMBER, TimeMode.EVENT)
