"""Constants of a query as Python values of the plan."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

from tidegate.catalyst.java import Java, interval_parts, items
from tidegate.catalyst.tree import Node
from tidegate.catalyst.types import from_json
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import DataType
from tidegate.plan.expressions import Literal, Scalar

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_NTZ = datetime.datetime(1970, 1, 1)
_EPOCH_DATE = datetime.date(1970, 1, 1)

Evaluate = Callable[[Java], Any]
"""Runs ``SELECT <constant>`` on Spark: the way to read arrays, maps and structs without a call per element."""

_US_PER_DAY = 86_400_000_000


def literal(node: Node, evaluate: Evaluate) -> Literal:
    if node.fields["dataType"] == "interval":
        return _calendar_interval(node)
    of = from_json(node.fields["dataType"])
    text = node.fields["value"]
    if text is None:
        return Literal(None, of)
    match of:
        case t.BOOLEAN:
            return Literal(text == "true", of)
        case t.Atomic() if of in t.INTEGRAL:
            return Literal(int(text), of)
        case t.Atomic() if of in t.FRACTIONAL:
            return Literal(float(text), of)
        case t.STRING:
            return Literal(str(text), of)
        case t.Decimal():
            return Literal(decimal.Decimal(text), of)
        case t.DAY_TIME_INTERVAL:
            return Literal(datetime.timedelta(microseconds=int(text)), of)
        case t.YEAR_MONTH_INTERVAL:
            return Literal(int(text), of)
        case t.Array() | t.Map() | t.Struct():
            # The text of an empty one does not say of what it is empty.
            return Literal(frozen(evaluate(node.java)), of)
        case _:
            return Literal(internal_value(node.java.value(), of), of)


def internal_value(value: Java, of: DataType) -> Scalar:
    """A value as Catalyst keeps it (days, microseconds, UTF8String …) as the plan keeps it."""
    if value is None:
        return None
    try:
        match of:
            case t.DATE:
                return _EPOCH_DATE + datetime.timedelta(days=int(value))
            case t.TIMESTAMP:
                return _EPOCH + datetime.timedelta(microseconds=int(value))
            case t.TIMESTAMP_NTZ:
                return _EPOCH_NTZ + datetime.timedelta(microseconds=int(value))
            case t.DAY_TIME_INTERVAL:
                return datetime.timedelta(microseconds=int(value))
            case t.BINARY:
                return bytes(value)
            case t.STRING:
                return str(value.toString()) if hasattr(value, "toString") else str(value)
            case t.Decimal():
                return decimal.Decimal(str(value.toString()))
            case t.Atomic():
                return value
            case _:
                raise InvalidQuery(
                    f"a constant of type {t.simple_string(of)} is not supported here",
                    hint="write it with plain columns, or as a pandas UDF",
                )
    except OverflowError:
        raise InvalidQuery(
            f"a constant of type {t.simple_string(of)} lies outside the years 1 to 9999",
            hint="use a date in that range",
        ) from None


def members(node: Node, of: DataType) -> tuple[Literal, ...]:
    """The constants of an ``InSet``, in an order that does not depend on Scala's hashing."""
    values = [internal_value(value, of) for value in items(node.java.hset().toSeq())]
    return tuple(
        Literal(value, of)
        for value in sorted(values, key=lambda value: (value is None, "" if value is None else value))
    )  # type: ignore[arg-type]


def frozen(value: Any) -> Scalar:
    """A value that Arrow gave to Python, with tuples for lists."""
    match value:
        case list() | tuple():
            if value and isinstance(value[0], tuple):  # Arrow hands out maps as lists of pairs.
                return tuple({"key": frozen(key), "value": frozen(entry)} for key, entry in value)
            return tuple(frozen(item) for item in value)
        case dict():
            return {name: frozen(item) for name, item in value.items()}
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC)
        case _:
            return value


def calendar_parts(node: Node) -> tuple[Literal, Literal, Literal] | None:
    """Months, days and microseconds of a constant interval whose length depends on the calendar; None for any other node."""
    if node.kind != "Literal" or node.fields["dataType"] != "interval" or node.fields["value"] is None:
        return None
    months, days, microseconds = interval_parts(node.java.value())
    if not months and not days:
        return None
    return Literal(months, t.INTEGER), Literal(days, t.INTEGER), Literal(microseconds, t.LONG)


def _calendar_interval(node: Node) -> Literal:
    value = node.java.value()
    if value is None:
        return Literal(None, t.DAY_TIME_INTERVAL)
    months, days, microseconds = interval_parts(value)
    if months or (days and abs(microseconds) >= _US_PER_DAY):
        raise InvalidQuery(
            f"the interval {value.toString()} has months, or days and more than 24 hours, whose length depends on the calendar",
            hint="write it in days or in hours",
        )
    return Literal(datetime.timedelta(days=days, microseconds=microseconds), t.DAY_TIME_INTERVAL)
