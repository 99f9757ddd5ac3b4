"""Plan types and their columns."""

from __future__ import annotations

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Field
from tidegate.operators.columns import arrow_schema, conform, empty_frame, from_arrow, plan_type, polars_type, to_arrow

ALL = (t.BOOLEAN, t.BYTE, t.SHORT, t.INTEGER, t.LONG, t.FLOAT, t.DOUBLE, t.STRING, t.BINARY, t.DATE, t.TIMESTAMP,
       t.TIMESTAMP_NTZ, t.DAY_TIME_INTERVAL, t.NULL, t.Decimal(12, 3), t.Array(t.LONG),
       t.Struct((Field("a", t.STRING), Field("b", t.Array(t.DATE)))))  # fmt: skip


@pytest.mark.parametrize("kind", ALL, ids=t.simple_string)
def test_a_type_survives_the_way_to_polars_and_back(kind: t.DataType) -> None:
    assert plan_type(polars_type(kind)) == kind


def test_a_type_without_column_is_refused_by_name() -> None:
    with pytest.raises(InvalidQuery, match="columns of type variant"):
        polars_type(t.Atomic("variant"))


def test_rows_that_already_conform_are_not_copied() -> None:
    schema = (Field("a", t.INTEGER), Field("b", t.STRING))
    rows = pl.DataFrame({"a": [1], "b": ["x"]}, schema={"a": pl.Int32, "b": pl.String})
    assert conform(rows, schema) is rows


def test_conform_orders_casts_and_drops_columns() -> None:
    rows = pl.DataFrame({"b": ["x"], "c": [0], "a": [1]})
    wanted = pl.DataFrame({"a": [1], "b": ["x"]}, schema={"a": pl.Int32, "b": pl.String})
    assert conform(rows, (Field("a", t.INTEGER), Field("b", t.STRING))).equals(wanted)


def test_conforming_to_no_columns_keeps_the_height() -> None:
    assert conform(pl.DataFrame({"a": [1, 2, 3]}), ()).height == 3


def test_an_empty_frame_has_the_types() -> None:
    assert empty_frame((Field("a", t.TIMESTAMP),)).schema == {"a": pl.Datetime("us", "UTC")}


def test_maps_become_arrow_maps_wherever_they_stand() -> None:
    inner = t.Map(t.STRING, t.INTEGER)
    schema = (Field("m", inner), Field("ms", t.Array(inner)), Field("s", t.Struct((Field("m", inner),))))
    entries = [{"key": "a", "value": 1}, {"key": "b", "value": None}]
    rows = pl.DataFrame(
        {"m": [entries, None, []], "ms": [[entries], [], None], "s": [{"m": entries}, {"m": None}, {"m": []}]},
        schema={field.name: polars_type(field.type) for field in schema},
    )
    table = to_arrow(rows, schema)
    assert table.schema == arrow_schema(schema)
    assert table["m"].to_pylist() == [[("a", 1), ("b", None)], None, []]
    assert from_arrow(table, schema).equals(rows)
