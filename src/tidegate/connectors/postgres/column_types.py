"""Spark's types as columns of PostgreSQL: what a new table gets, and which columns of an existing one take a value unharmed."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import DataType, simple_string

_CREATED: dict[DataType, str] = {
    t.BOOLEAN: "boolean",
    t.BYTE: "smallint",
    t.SHORT: "smallint",
    t.INTEGER: "integer",
    t.LONG: "bigint",
    t.FLOAT: "real",
    t.DOUBLE: "double precision",
    t.STRING: "text",
    t.BINARY: "bytea",
    t.DATE: "date",
    t.TIMESTAMP: "timestamp with time zone",
    t.TIMESTAMP_NTZ: "timestamp without time zone",
    t.DAY_TIME_INTERVAL: "interval",
}
_WIDER: dict[DataType, tuple[str, ...]] = {
    t.BYTE: ("integer", "bigint", "real", "double precision"),
    t.SHORT: ("integer", "bigint", "real", "double precision"),
    t.INTEGER: ("bigint", "double precision"),
    t.FLOAT: ("double precision",),
}
"""Other column types that hold every value exactly."""
_DIGITS: dict[DataType, int] = {t.BYTE: 3, t.SHORT: 5, t.INTEGER: 10, t.LONG: 19}
JSON_TYPES = ("jsonb", "json")
_NOT_TEXT = frozenset("NBDTA")
"""Categories of types that a string does not become by itself: numbers, booleans, dates and times, intervals, arrays."""


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of the table. ``type``: PostgreSQL's name for it, of a domain that of what it is made of."""

    name: str
    type: str
    category: str
    precision: int | None
    scale: int | None
    not_null: bool
    has_default: bool
    generated: bool


def created_type(kind: DataType, column: str) -> str:
    """The column type that a new table gets. InvalidQuery for a type that PostgreSQL has nothing for."""
    match kind:
        case t.Decimal(precision, scale):
            return f"numeric({precision},{scale})"
        case t.Array(element) if is_plain(element):
            return f"{created_type(element, column)}[]"
        case t.Array(element):
            created_type(element, column)
            return "jsonb"
        case t.Map(key, value):
            created_type(key, column)
            created_type(value, column)
            return "jsonb"
        case t.Struct(fields):
            for field in fields:
                created_type(field.type, column)
            return "jsonb"
        case t.Atomic():
            if kind in _CREATED:
                return _CREATED[kind]
            raise InvalidQuery(
                f"column {column!r} is a {simple_string(kind)}: PostgreSQL has no such type",
                hint="cast it in the query, or leave it out",
            )


def is_plain(kind: DataType) -> bool:
    """Neither nested nor a list: such values may stand in an array of PostgreSQL, whose rows must all have one length."""
    return isinstance(kind, t.Atomic | t.Decimal)


def fits(kind: DataType, column: TargetColumn) -> bool:
    """Whether every value of ``kind`` can be written to ``column`` without being cut, rounded or guessed at."""
    return _fits(kind, column.type, column)


def _fits(kind: DataType, type_: str, column: TargetColumn) -> bool:
    match kind:
        case t.Atomic("string"):
            return column.category not in _NOT_TEXT and type_ != "bytea"
        case t.Decimal(precision, scale):
            return type_ == "numeric" and _holds(column, precision - scale, scale)
        case t.Array(element) if is_plain(element) and type_.endswith("[]"):
            return _fits_element(element, type_.removesuffix("[]"), column)
        case t.Array() | t.Map() | t.Struct():
            return type_ in (*JSON_TYPES, "text")
        case t.Atomic():
            if type_ == "numeric" and kind in _DIGITS:
                return _holds(column, _DIGITS[kind], 0)
            return type_ == _CREATED.get(kind) or type_ in _WIDER.get(kind, ())


def _fits_element(kind: DataType, type_: str, column: TargetColumn) -> bool:
    if kind == t.STRING:
        return type_ in ("text", "character varying", "uuid", "citext")
    return _fits(kind, type_, column)


def _holds(column: TargetColumn, whole_digits: int, scale: int) -> bool:
    if column.precision is None or column.scale is None:
        return True
    return column.scale >= scale and column.precision - column.scale >= whole_digits
