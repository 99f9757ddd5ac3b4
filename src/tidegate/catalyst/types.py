"""Spark's data types, from their JSON form, to the plan's."""

from __future__ import annotations

import json
import re
from typing import Any

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery

_ATOMIC: dict[str, t.DataType] = {
    "boolean": t.BOOLEAN,
    "byte": t.BYTE,
    "short": t.SHORT,
    "integer": t.INTEGER,
    "long": t.LONG,
    "float": t.FLOAT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "binary": t.BINARY,
    "date": t.DATE,
    "timestamp": t.TIMESTAMP,
    "timestamp_ntz": t.TIMESTAMP_NTZ,
    "void": t.NULL,
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_FIXED_STRING = re.compile(r"(var)?char\(\d+\)")
_YEAR_MONTH = re.compile(r"interval (year|month)( to month)?")
_DAY_TIME = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")
_COLLATION = "__COLLATIONS"


def from_json_text(text: str) -> t.DataType:
    return from_json(json.loads(text))


def from_json(of: Any) -> t.DataType:
    """The plan's type for ``DataType.jsonValue``. Raises InvalidQuery for a type that no column may have yet."""
    match of:
        case str(name):
            return _atomic(name)
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            return t.Array(from_json(element), bool(nullable))
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}:
            return t.Map(from_json(key), from_json(value), bool(nullable))
        case {"type": "struct", "fields": fields}:
            return t.Struct(fields_of(fields))
        case {"type": "udt"}:
            raise _refused("a user-defined type", "convert the column to plain columns or a struct first")
        case _:
            raise _refused(str(of), "cast the column to another type")


def fields_of(fields: list[Any]) -> t.Schema:
    """The fields of a struct, or the columns of a schema."""
    result: list[t.Field] = []
    for field in fields:
        collations = set(field.get("metadata", {}).get(_COLLATION, {}).values())
        if collations:
            raise _refused(
                f"column {field['name']!r} with the collation {', '.join(sorted(collations))}",
                "only UTF8_BINARY compares as Spark does here: cast to STRING COLLATE UTF8_BINARY, or compare lower(column)",
            )
        result.append(t.Field(field["name"], from_json(field["type"]), bool(field["nullable"])))
    return tuple(result)


def schema_of(text: str) -> t.Schema:
    """The columns of ``StructType.json``."""
    return fields_of(json.loads(text)["fields"])


def _atomic(name: str) -> t.DataType:
    if (atomic := _ATOMIC.get(name)) is not None:
        return atomic
    if (found := _DECIMAL.fullmatch(name)) is not None:
        return t.Decimal(int(found[1]), int(found[2]))
    if _FIXED_STRING.fullmatch(name):
        return t.STRING
    if _DAY_TIME.fullmatch(name):
        return t.DAY_TIME_INTERVAL
    if _YEAR_MONTH.fullmatch(name):
        return t.YEAR_MONTH_INTERVAL
    if name.startswith("interval"):
        raise _refused(f"type {name!r}", "months have no fixed length: use days, hours, minutes or seconds")
    if name.startswith("string collate"):
        raise _refused(f"type {name!r}", "only UTF8_BINARY compares as Spark does here: compare lower(column) instead")
    raise _refused(f"type {name!r}", "cast the column to another type, or write it as a pandas UDF")


def _refused(what: str, hint: str) -> InvalidQuery:
    return InvalidQuery(f"{what} is not supported", hint=hint)
