"""Columns cross the border to Arrow with exactly Spark's types, and come back as the plan keeps them."""

from __future__ import annotations

import datetime

import polars as pl
import pyarrow as pa
import pytest

from tidegate.model import types as t
from tidegate.operators.arrow_columns import arrow_column, polars_column, retyped

INSTANT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SCORES = t.Map(t.STRING, t.LONG)


def test_timestamps_carry_the_label_of_the_session_zone_and_the_same_instant() -> None:
    column = pl.Series([INSTANT, None], dtype=pl.Datetime("us", "UTC"))
    array = arrow_column(column, t.TIMESTAMP, "Asia/Tokyo")
    assert array.type == pa.timestamp("us", "Asia/Tokyo")
    assert array.to_pylist() == [INSTANT, None]
    assert polars_column(array, t.TIMESTAMP).to_list() == [INSTANT, None]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (SCORES, [[{"key": "a", "value": 1}, {"key": "b", "value": None}], None, []]),
        (t.Array(SCORES), [[[{"key": "a", "value": 1}], None], None, []]),
        (t.Struct((t.Field("m", SCORES),)), [{"m": [{"key": "a", "value": 1}]}, None, {"m": None}]),
        (t.Map(t.STRING, t.TIMESTAMP), [[{"key": "a", "value": INSTANT}]]),
        (t.Array(t.STRING), [["x", None], None, []]),
        (t.Decimal(38, 18), [None]),
    ],
)
def test_nested_values_survive_the_round_trip(kind: t.DataType, values: list[object]) -> None:
    from tidegate.operators.columns import arrow_type, polars_type

    column = pl.Series(values, dtype=polars_type(kind))
    array = arrow_column(column, kind)
    assert array.type == arrow_type(kind)
    array.validate(full=True)
    back = polars_column(array, kind)
    assert back.dtype == column.dtype
    assert back.to_list() == values


def test_a_slice_of_a_column_is_converted_as_if_it_stood_alone() -> None:
    column = pl.Series([[{"key": str(i), "value": i}] for i in range(10)]).slice(4, 3)
    array = arrow_column(column, SCORES)
    assert array.to_pylist() == [[("4", 4)], [("5", 5)], [("6", 6)]]


NAMED_MAP = pa.map_(pa.field("k", pa.large_string(), nullable=False), pa.field("v", pa.int64()))
ENTRY = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int32())])


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array([[("a", 1)], None, [("b", None)], []], pa.map_(pa.string(), pa.int32())), NAMED_MAP),
        (pa.array([[{"key": "a", "value": 1}], None, []], pa.large_list(ENTRY)), NAMED_MAP),
        (pa.array([[{"key": "a", "value": 1}], None, []], pa.list_(ENTRY)), NAMED_MAP),
        (pa.array([[1, None], None, []], pa.list_(pa.int32())), pa.large_list(pa.field("element", pa.int64()))),
        (pa.array([[1, None], None, []], pa.large_list(pa.int32())), pa.list_(pa.field("element", pa.int64()))),
    ],
    ids=["a map", "long lists of entries", "lists of entries", "lists", "long lists"],
)
def test_fields_inside_are_renamed_and_entries_become_maps(array: pa.Array, target: pa.DataType) -> None:
    """Also inside of a struct, and of a slice."""
    values = [
        [tuple(one.values()) if isinstance(one, dict) else one for one in row] if row else row
        for row in array.to_pylist()
    ]
    made = retyped(array, target)
    made.validate(full=True)
    assert made.type.equals(target, check_metadata=True) and made.to_pylist() == values
    assert retyped(array.slice(1), target).to_pylist() == values[1:]
    struct = pa.StructArray.from_arrays([array], names=["x"], mask=pa.array([False, False, True, False][: len(array)]))
    renamed = retyped(struct.slice(1), pa.struct([pa.field("y", target)]))
    assert renamed.to_pylist() == [{"y": one} if n != 1 else None for n, one in enumerate(values[1:])]
