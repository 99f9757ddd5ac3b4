"""Values written as text, understood as Spark's CSV and JSON readers do with their default formats; what cannot be is null."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.operators.columns import polars_type

_DECIMAL_DIGITS_MAX = 38


def json_type(kind: t.DataType) -> pl.DataType:
    """What a JSON value is first read as: numbers at their widest, everything that is spelled out as text."""
    match kind:
        case t.Atomic("tinyint" | "smallint" | "int" | "bigint"):
            return pl.Int64()
        case t.Atomic("float" | "double"):
            return pl.Float64()
        case t.Atomic("boolean"):
            return pl.Boolean()
        case t.Array(element):
            return pl.List(json_type(element))
        case t.Struct(fields):
            return pl.Struct({field.name: json_type(field.type) for field in fields})
        case _:
            return pl.String()


def from_json(value: pl.Expr, kind: t.DataType, zone: str) -> pl.Expr:
    """``value`` has ``json_type(kind)``; the result has the type of ``kind``."""
    match kind:
        case t.Atomic("tinyint" | "smallint" | "int" | "float"):
            return value.cast(polars_type(kind), strict=False)
        case t.Atomic("bigint" | "double" | "boolean" | "string"):
            return value
        case t.Atomic("binary"):
            return value.str.decode("base64", strict=False)
        case t.Atomic("timestamp"):
            # Spark takes a whole number for seconds since 1970.
            seconds = value.cast(pl.Int64, strict=False) * 1_000_000
            return pl.coalesce(from_text(value, kind, zone), seconds.cast(pl.Datetime("us", "UTC")))
        case t.Array(element):
            return value.list.eval(from_json(pl.element(), element, zone))
        case t.Struct(fields):
            parts = [from_json(value.struct.field(f.name), f.type, zone).alias(f.name) for f in fields]
            return pl.when(value.is_not_null()).then(pl.struct(parts))
        case _:
            return from_text(value, kind, zone)


def from_text(value: pl.Expr, kind: t.DataType, zone: str) -> pl.Expr:
    """A text column as ``kind``. Null where the text is not such a value."""
    match kind:
        case t.Atomic("string"):
            return value
        case t.Atomic("binary"):
            return value.cast(pl.Binary)
        case t.Atomic("boolean"):
            lower = value.str.to_lowercase()
            return pl.when(lower == "true").then(True).when(lower == "false").then(False)
        case t.Decimal(precision, scale):
            # Half up, as Spark rounds: the digits beyond the scale have to be kept for the rounding.
            wide = value.cast(pl.Decimal(_DECIMAL_DIGITS_MAX, min(scale + 6, _DECIMAL_DIGITS_MAX)), strict=False)
            rounded = wide.round(scale, mode="half_away_from_zero")
            return rounded.cast(pl.Decimal(precision, scale), strict=False)
        case t.Atomic("date"):
            day = value.str.extract(r"^\s*(\d{4,}-\d{1,2}-\d{1,2})(?:[T ].*)?\s*$")
            whole = value.str.extract(r"^\s*(\d{4}(?:-\d{1,2})?)\s*$")
            return pl.coalesce(_date(day), _date(whole + "-01"), _date(whole + "-01-01"))
        case t.Atomic("timestamp"):
            text = _normal(value)
            with_zone = text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", time_unit="us", strict=False)
            return pl.coalesce(with_zone, _local(text).dt.replace_time_zone(
                zone, ambiguous="earliest", non_existent="null"
            ).dt.convert_time_zone("UTC"))  # fmt: skip
        case t.Atomic("timestamp_ntz"):
            return _local(_normal(value))
        case _:
            return value.cast(polars_type(kind), strict=False)


def _normal(value: pl.Expr) -> pl.Expr:
    """One spelling: ``T`` between date and time, ``Z`` as an offset."""
    text = value.str.strip_chars().str.replace(" ", "T", literal=True)
    return text.str.replace(r"(?:Z|UTC)$", "+00:00").str.replace(r"(T.*[+-]\d\d)$", "${1}:00")


def _local(text: pl.Expr) -> pl.Expr:
    seconds = text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", strict=False)
    minutes = text.str.to_datetime("%Y-%m-%dT%H:%M", time_unit="us", strict=False)
    return pl.coalesce(seconds, minutes, _date(text).cast(pl.Datetime("us")))


def _date(text: pl.Expr) -> pl.Expr:
    return text.str.to_date("%Y-%m-%d", strict=False)
