"""Plan types as PySpark types, for user code that expects them."""

from __future__ import annotations

from pyspark.sql import types as s

from tidegate.model import types as t
from tidegate.model.errors import Bug

_ATOMIC: dict[str, type[s.DataType]] = {
    "boolean": s.BooleanType,
    "tinyint": s.ByteType,
    "smallint": s.ShortType,
    "int": s.IntegerType,
    "bigint": s.LongType,
    "float": s.FloatType,
    "double": s.DoubleType,
    "string": s.StringType,
    "binary": s.BinaryType,
    "date": s.DateType,
    "timestamp": s.TimestampType,
    "timestamp_ntz": s.TimestampNTZType,
    "interval day to second": s.DayTimeIntervalType,
    "void": s.NullType,
}


def spark_schema(schema: t.Schema) -> s.StructType:
    return s.StructType([s.StructField(field.name, spark_type(field.type), field.nullable) for field in schema])


def spark_type(kind: t.DataType) -> s.DataType:
    match kind:
        case t.Decimal(precision, scale):
            return s.DecimalType(precision, scale)
        case t.Array(element, contains_null):
            return s.ArrayType(spark_type(element), contains_null)
        case t.Map(key, value, value_contains_null):
            return s.MapType(spark_type(key), spark_type(value), value_contains_null)
        case t.Struct(fields):
            return spark_schema(fields)
        case t.Atomic(name):
            if name not in _ATOMIC:
                raise Bug(f"the plan holds a column of type {name}, which has no PySpark type")
            return _ATOMIC[name]()
