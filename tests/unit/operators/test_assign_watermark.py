"""From event times to watermarks."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl

from tidegate.model.elements import NO_ORIGIN, WATERMARK_MAX_US, Batch, Output, SourceStatus, Watermark
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import KeyGroupRange
from tidegate.operators.assign_watermark import AssignWatermarkOperator
from tidegate.operators.protocol import OperatorContext, Restored
from tidegate.plan.relational import AssignWatermark

SECOND = 1_000_000


def make(*values: bytes) -> AssignWatermarkOperator:
    node = AssignWatermark(id=OperatorId("watermark-0"), column="ts", delay_us=2 * SECOND, schema=())
    context = OperatorContext(
        operator=node.id,
        subtask=SlotIndex(0),
        parallelism=1,
        max_parallelism=1,
        groups=KeyGroupRange(0, 1),
        restored=Restored(values=values),
    )
    return AssignWatermarkOperator(node, context)


def batch(*seconds: int | None, origin: int = NO_ORIGIN) -> Batch:
    times = [None if s is None else datetime.fromtimestamp(s, UTC) for s in seconds]
    return Batch(pl.DataFrame({"ts": times}, schema={"ts": pl.Datetime("us", "UTC")}), origin)


def watermarks(outputs: list[Output]) -> list[int]:
    return [output.at_us // SECOND for output in outputs if isinstance(output, Watermark)]


def test_rows_come_first_and_the_watermark_after_them() -> None:
    rows = batch(5, 9, 7)
    outputs = list(make().on_batch(rows))
    assert outputs[0] is rows
    assert outputs[1:] == [Watermark(7 * SECOND)]


def test_rows_without_event_time_move_nothing() -> None:
    assert watermarks(list(make().on_batch(batch(None, None)))) == []


def test_the_end_of_a_window_is_its_event_time() -> None:
    rows = pl.DataFrame(
        {"ts": [{"start": datetime(1970, 1, 1, tzinfo=UTC), "end": datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC)}]}
    )
    assert watermarks(list(make().on_batch(Batch(rows)))) == [8]


def test_other_time_units_are_the_same_times() -> None:
    rows = batch(9).rows.with_columns(pl.col("ts").dt.cast_time_unit("ns"))
    assert watermarks(list(make().on_batch(Batch(rows)))) == [7]


def test_watermarks_from_above_end_here_except_that_of_a_drain() -> None:
    operator = make()
    assert operator.output_watermark(123) is None
    assert operator.output_watermark(WATERMARK_MAX_US) == WATERMARK_MAX_US


def test_state_survives_a_restore() -> None:
    """T26"""
    before = make()
    list(before.on_status(SourceStatus(frozenset({1, 2}), holding=False)))
    list(before.on_batch(batch(50, origin=1)))
    list(before.on_batch(batch(30, origin=2)))
    value = before.snapshot(CheckpointId(1)).value
    after = make(value)
    assert watermarks(list(after.on_status(SourceStatus(frozenset({1, 2}), holding=False)))) == [28]
