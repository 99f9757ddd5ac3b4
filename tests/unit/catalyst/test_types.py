"""Spark's types in their JSON form."""

from __future__ import annotations

import pytest

from tidegate.catalyst.types import from_json, schema_of
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery


@pytest.mark.parametrize(
    ("json", "expected"),
    [
        ("long", t.LONG),
        ("integer", t.INTEGER),
        ("short", t.SHORT),
        ("byte", t.BYTE),
        ("timestamp_ntz", t.TIMESTAMP_NTZ),
        ("void", t.NULL),
        ("decimal(12,3)", t.Decimal(12, 3)),
        ("varchar(7)", t.STRING),
        ("char(7)", t.STRING),
        ("interval month", t.YEAR_MONTH_INTERVAL),
        ("interval second", t.DAY_TIME_INTERVAL),
        ("interval day to second", t.DAY_TIME_INTERVAL),
        ({"type": "array", "elementType": "long", "containsNull": False}, t.Array(t.LONG, False)),
        (
            {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True},
            t.Map(t.STRING, t.DOUBLE),
        ),
    ],
)
def test_every_type_of_a_column_has_a_type_of_the_plan(json, expected):
    assert from_json(json) == expected


def test_structs_keep_names_and_nullability():
    field = {"name": "end", "type": "timestamp", "nullable": False, "metadata": {}}
    assert from_json({"type": "struct", "fields": [field]}) == t.Struct((t.Field("end", t.TIMESTAMP, False),))


@pytest.mark.parametrize("json", ["variant", "interval", "time(6)", "string collate UNICODE", {"type": "udt"}])
def test_types_without_a_column_are_refused_with_a_way_out(json):
    with pytest.raises(InvalidQuery) as caught:
        from_json(json)
    assert caught.value.hint


def test_a_collated_column_is_refused_by_name():
    text = '{"type":"struct","fields":[{"name":"city","type":"string","nullable":true,"metadata":{"__COLLATIONS":{"city":"icu.UNICODE_CI"}}}]}'
    with pytest.raises(InvalidQuery, match=r"'city' with the collation icu\.UNICODE_CI"):
        schema_of(text)
