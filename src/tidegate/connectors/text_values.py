"""Values written as text, understood as Spark's CSV and JSON readers do with their default formats; what cannot be is null."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

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
            return value.map_batches(_dates, return_dtype=pl.Date)
        case t.Atomic("timestamp"):
            return value.map_batches(partial(_instants, zone=zone), return_dtype=pl.Datetime("us", "UTC"))
        case t.Atomic("timestamp_ntz"):
            return value.map_batches(_wall_times, return_dtype=pl.Datetime("us"))
        case _:
            return value.cast(polars_type(kind), strict=False)


Parse: TypeAlias = Callable[[pl.Series], pl.Series]
"""Text → values, null where the text does not have the parser's form."""


def _instants(text: pl.Series, zone: str) -> pl.Series:
    """Polars parses times without zone twenty times faster than with one: so the common ``Z`` is taken off first."""
    text = text.str.strip_chars()
    wall = _wall_times(text.str.strip_suffix("Z"))
    result = wall.dt.replace_time_zone("UTC")
    if zone != "UTC":
        local = wall.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").dt.convert_time_zone("UTC")
        result = result.zip_with(text.str.ends_with("Z").fill_null(True), local)
    return _first_that_fits(text, result, (_with_offset,))


def _with_offset(text: pl.Series) -> pl.Series:
    normal = text.str.replace(" ", "T", literal=True).str.replace(r"\s*(?:Z|UTC|GMT)$", "+00:00")
    # Java's +02 and +02:00 are the same offset; a date alone has none.
    normal = normal.str.replace(r"(T.*[+-]\d\d)$", "${1}:00")
    return normal.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", time_unit="us", strict=False)


def _wall_times(text: pl.Series) -> pl.Series:
    nothing = pl.repeat(None, len(text), dtype=pl.Datetime("us"), eager=True)
    forms = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M")
    times: list[Parse] = [partial(_formatted_time, form=form) for form in forms]
    return _first_that_fits(text, nothing, (*times, lambda rest: _dates(rest).cast(pl.Datetime("us"))))


def _formatted_time(text: pl.Series, form: str) -> pl.Series:
    return text.str.to_datetime(form, time_unit="us", strict=False)


def _dates(text: pl.Series) -> pl.Series:
    """A day; a month or a year mean their first day; a time of day after it is left out."""
    text = text.str.strip_chars()
    forms: tuple[Parse, ...] = (
        lambda rest: rest.str.to_date("%Y-%m-%d", strict=False),
        lambda rest: rest.str.extract(r"^(\d+-\d+-\d+)[T ]").str.to_date("%Y-%m-%d", strict=False),
        lambda rest: (rest + "-01").str.to_date("%Y-%m-%d", strict=False),
        lambda rest: (rest + "-01-01").str.to_date("%Y-%m-%d", strict=False),
    )
    return _first_that_fits(text, pl.repeat(None, len(text), dtype=pl.Date, eager=True), forms)


def _first_that_fits(text: pl.Series, result: pl.Series, parsers: Iterable[Parse]) -> pl.Series:
    """Tries one parser after the other, each only on what the ones before did not understand."""
    for parse in parsers:
        missing = result.is_null() & text.is_not_null()
        if missing.all():
            result = parse(text)
        elif missing.any():
            result = result.scatter(missing.arg_true(), parse(text.filter(missing)))
    return result
