"""Column types of a plan: Spark's types, without Spark. Values of these types live in Polars columns.

======================  =======================================================
plan type               Polars column
======================  =======================================================
BOOLEAN … DOUBLE        Boolean, Int8, Int16, Int32, Int64, Float32, Float64
STRING, BINARY          String, Binary
DATE                    Date
TIMESTAMP               Datetime("us", "UTC")
TIMESTAMP_NTZ           Datetime("us")
DAY_TIME_INTERVAL       Duration("us")
YEAR_MONTH_INTERVAL     Int32 (months; only inside expressions)
Decimal(p, s)           Decimal(p, s)
Array(t)                List(t)
Map(k, v)               List(Struct(key, value))
Struct(fields)          Struct(fields)
NULL                    Null
======================  =======================================================
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Atomic(msgspec.Struct, frozen=True, tag="atomic"):
    """A type without parameters; ``name`` is Spark's ``simpleString``."""

    name: str


class Decimal(msgspec.Struct, frozen=True, tag="decimal"):
    precision: int
    scale: int


class Array(msgspec.Struct, frozen=True, tag="array"):
    element: DataType
    contains_null: bool = True


class Map(msgspec.Struct, frozen=True, tag="map"):
    key: DataType
    value: DataType
    value_contains_null: bool = True


class Field(msgspec.Struct, frozen=True):
    """A named column. Inside a plan names are unique (``price#3``); inside a Struct they are the user's."""

    name: str
    type: DataType
    nullable: bool = True


class Struct(msgspec.Struct, frozen=True, tag="struct"):
    fields: tuple[Field, ...]


DataType: TypeAlias = Atomic | Decimal | Array | Map | Struct
Schema: TypeAlias = tuple[Field, ...]

BOOLEAN = Atomic("boolean")
BYTE = Atomic("tinyint")
SHORT = Atomic("smallint")
INTEGER = Atomic("int")
LONG = Atomic("bigint")
FLOAT = Atomic("float")
DOUBLE = Atomic("double")
STRING = Atomic("string")
BINARY = Atomic("binary")
DATE = Atomic("date")
TIMESTAMP = Atomic("timestamp")
TIMESTAMP_NTZ = Atomic("timestamp_ntz")
DAY_TIME_INTERVAL = Atomic("interval day to second")
YEAR_MONTH_INTERVAL = Atomic("interval year to month")
NULL = Atomic("void")

INTEGRAL = (BYTE, SHORT, INTEGER, LONG)
FRACTIONAL = (FLOAT, DOUBLE)


def simple_string(of: DataType) -> str:
    """The type as Spark prints it: ``array<struct<a:int,b:string>>``."""
    match of:
        case Atomic(name):
            return name
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Array(element):
            return f"array<{simple_string(element)}>"
        case Map(key, value):
            return f"map<{simple_string(key)},{simple_string(value)}>"
        case Struct(fields):
            return "struct<" + ",".join(f"{f.name}:{simple_string(f.type)}" for f in fields) + ">"
