"""orderBy and limit of whole results."""

from __future__ import annotations

import math

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import KeyGroupRange
from tidegate.model.types import Field, Struct
from tidegate.operators.columns import polars_schema
from tidegate.operators.protocol import OperatorContext
from tidegate.operators.sort import SortOperator
from tidegate.plan.ordering import Sort, SortKey

POINT = Struct((Field("x", t.LONG), Field("y", t.STRING)))
SCHEMA = (Field("a", t.LONG), Field("d", t.DOUBLE), Field("p", POINT))


def operator(*order: SortKey, limit: int | None = None, rows_max: int = 1_000) -> SortOperator:
    context = OperatorContext(OperatorId("sort"), SlotIndex(0), 1, 8, KeyGroupRange(0, 8), complete_rows_max=rows_max)
    return SortOperator(Sort(order=order, limit=limit, schema=SCHEMA), context)


def sorted_column(name: str, values: list[object], key: SortKey, limit: int | None = None) -> list[object]:
    sort = operator(key, limit=limit)
    types = polars_schema(SCHEMA)
    for value in values:
        columns = [pl.Series(column, [value if column == name else None], of) for column, of in types.items()]
        assert not list(sort.on_batch(Batch(pl.DataFrame(columns))))
    return [value for batch in sort.on_barrier(CheckpointId(1)) for value in batch.rows[name].to_list()]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (SortKey("a"), [None, -2, 1, 3]),
        (SortKey("a", nulls_first=False), [-2, 1, 3, None]),
        (SortKey("a", ascending=False, nulls_first=False), [3, 1, -2, None]),
        (SortKey("a", ascending=False), [None, 3, 1, -2]),
    ],
)
def test_nulls_stand_where_the_query_says(key: SortKey, expected: list[object]) -> None:
    assert sorted_column("a", [3, None, -2, 1], key) == expected


def test_nan_is_greater_than_every_number() -> None:
    found = sorted_column("d", [math.nan, 1.0, math.inf, -math.inf], SortKey("d"))
    assert found[:3] == [-math.inf, 1.0, math.inf]
    assert math.isnan(float(str(found[3])))


def test_structs_are_compared_field_by_field_and_null_inside_is_the_smallest() -> None:
    low, middle, high = {"x": None, "y": "z"}, {"x": 1, "y": None}, {"x": 1, "y": "a"}
    assert sorted_column("p", [high, None, low, middle], SortKey("p")) == [None, low, middle, high]
    down = SortKey("p", ascending=False, nulls_first=False)
    assert sorted_column("p", [low, None, high, middle], down) == [high, middle, low, None]


def test_only_the_first_rows_leave() -> None:
    assert sorted_column("a", [5, 1, 4], SortKey("a"), limit=2) == [1, 4]


def test_nothing_is_left_for_the_next_barrier() -> None:
    sort = operator(SortKey("a"))
    row = pl.DataFrame({"a": [1], "d": [1.0], "p": [None]}, schema=dict(polars_schema(SCHEMA)))
    list(sort.on_batch(Batch(row)))
    assert [batch.rows.height for batch in sort.on_barrier(CheckpointId(1))] == [1]
    assert list(sort.on_barrier(CheckpointId(2))) == []


def test_too_large_a_result_is_refused_before_it_fills_the_memory() -> None:
    sort = operator(SortKey("a"), rows_max=2)
    rows = pl.DataFrame({"a": [1, 2, 3], "d": [1.0] * 3, "p": [None] * 3}, schema=dict(polars_schema(SCHEMA)))
    with pytest.raises(InvalidQuery, match="completeRowsMax"):
        list(sort.on_batch(Batch(rows)))
