"""The time of day as a column."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl

from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.model.types import Field
from tidegate.operators.columns import polars_schema
from tidegate.operators.stamp_time import StampTimeOperator
from tidegate.plan.relational import StampTime

NODE = StampTime(column="now", schema=(Field("id", t.LONG), Field("now", t.TIMESTAMP, False)))


def stamps(operator: StampTimeOperator) -> list[datetime]:
    (out,) = operator.on_batch(Batch(pl.DataFrame({"id": [1, 2]}), origin=4))
    assert out.origin == 4
    assert out.rows.schema == polars_schema(NODE.schema)
    return out.rows.get_column("now").to_list()


def test_all_rows_of_a_batch_get_what_the_clock_shows() -> None:
    operator = StampTimeOperator(NODE)
    operator.tell_time(1_700_000_000_123)
    assert stamps(operator) == [datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)] * 2


def test_time_never_goes_back_when_a_clock_is_set() -> None:
    operator = StampTimeOperator(NODE)
    operator.tell_time(2_000)
    before = stamps(operator)
    operator.tell_time(1_000)
    assert stamps(operator) == before


def test_the_loop_tells_it_the_time_and_never_wakes_for_it() -> None:
    operator = StampTimeOperator(NODE)
    assert operator.next_time_ms == float("inf")
    assert not list(operator.on_time(5))
