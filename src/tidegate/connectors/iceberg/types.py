"""Plan types as Iceberg types."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from pyiceberg import types as ice
from pyiceberg.schema import Schema

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery

_ATOMIC: dict[t.DataType, ice.PrimitiveType] = {
    t.BOOLEAN: ice.BooleanType(),
    t.BYTE: ice.IntegerType(),
    t.SHORT: ice.IntegerType(),
    t.INTEGER: ice.IntegerType(),
    t.LONG: ice.LongType(),
    t.FLOAT: ice.FloatType(),
    t.DOUBLE: ice.DoubleType(),
    t.STRING: ice.StringType(),
    t.BINARY: ice.BinaryType(),
    t.DATE: ice.DateType(),
    t.TIMESTAMP: ice.TimestamptzType(),
    t.TIMESTAMP_NTZ: ice.TimestampType(),
}
"""Iceberg has no integers shorter than 32 bits; Spark writes those as ``int``, too."""


def iceberg_schema(schema: t.Schema) -> Schema:
    """Every column may hold nulls. Field ids count from 1."""
    ids = count(1)
    return Schema(*(_field(field, ids) for field in schema))


def fits(given: t.DataType, has: ice.IcebergType) -> bool:
    """Whether a column of type ``has`` holds values of type ``given`` as they are."""
    match given, has:
        case t.Array(element, contains_null), ice.ListType():
            return fits(element, has.element_type) and not (contains_null and has.element_required)
        case t.Map(key, value, contains_null), ice.MapType():
            return (
                fits(key, has.key_type) and fits(value, has.value_type) and not (contains_null and has.value_required)
            )
        case t.Struct(fields), ice.StructType():
            return len(fields) == len(has.fields) and all(
                mine.name == its.name and fits(mine.type, its.field_type) and not (mine.nullable and its.required)
                for mine, its in zip(fields, has.fields, strict=True)
            )
        case t.Array() | t.Map() | t.Struct(), _:
            return False
        case _:
            return iceberg_type(given, count(1)) == has


def iceberg_type(of: t.DataType, ids: Iterator[int]) -> ice.IcebergType:
    match of:
        case t.Decimal(precision, scale):
            return ice.DecimalType(precision, scale)
        case t.Array(element):
            return ice.ListType(next(ids), iceberg_type(element, ids), element_required=False)
        case t.Map(key, value):
            return ice.MapType(
                next(ids), iceberg_type(key, ids), next(ids), iceberg_type(value, ids), value_required=False
            )
        case t.Struct(fields):
            return ice.StructType(*(_field(field, ids) for field in fields))
        case t.Atomic(name):
            if of in _ATOMIC:
                return _ATOMIC[of]
            raise InvalidQuery(f"an Iceberg table has no columns of type {name}", hint="cast the column")


def _field(field: t.Field, ids: Iterator[int]) -> ice.NestedField:
    return ice.NestedField(next(ids), field.name, iceberg_type(field.type, ids), required=False)
