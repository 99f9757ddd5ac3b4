"""Values written as text, understood as Spark's CSV and JSON readers do with their default formats; what cannot be is null."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

import polars as pl

from tidegate.model import types as t
from tidegate.operators.columns import polars_type

_DECIMAL_DIGITS_MAX = 38
_OFFSET = re.compile(r"[T ].*[+-]\d\d(?::\d\d)?$")


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
    """Which form is tried first follows from the first value; which forms are understood does not."""
    text = text.str.strip_chars()
    parsers: list[Parse] = [partial(_without_offset, zone=zone), _with_offset]
    first = text.drop_nulls().head(1)
    if len(first) and _OFFSET.search(first[0]):
        parsers.reverse()
    nothing = pl.repeat(None, len(text), dtype=pl.Datetime("us", "UTC"), eager=True)
    return _first_that_fits(text, nothing, parsers)


def _without_offset(text: pl.Series, zone: str) -> pl.Series:
    """Times in ``zone``, or in UTC when they end in ``Z``. Polars parses times ten times faster without a zone, so it is cut off."""
    wall = _wall_times(text.str.strip_suffix("Z"))
    instants = wall.dt.replace_time_zone("UTC")
    if zone == "UTC":
        return instants
    local = wall.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").dt.convert_time_zone("UTC")
    return instants.zip_with(text.str.ends_with("Z").fill_null(True), local)


def _with_offset(text: pl.Series) -> pl.Series:
    normal = text.str.replace(" ", "T", literal=True).str.replace(r"\s*(?:Z|UTC|GMT)$", "+00:00")
    # Java's +02 and +02:00 are the same offset; a date alone has none.
    normal = normal.str.replace(r"(T.*[+-]\d\d)$", "${1}:00")
    return normal.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", time_unit="us", strict=False)


def _wall_times(text: pl.Series) -> pl.Series:
    nothing = pl.repeat(None, len(text), dtype=pl.Datetime("us"), eager=True)
    common: list[Parse] = [partial(_padded_time, form=form) for form in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S")]
    forms = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M")
    others: list[Parse] = [partial(_formatted_time, form=form) for form in forms]
    return _first_that_fits(text, nothing, (*common, *others, lambda rest: _days(rest).cast(pl.Datetime("us"))))


def _padded_time(text: pl.Series, form: str) -> pl.Series:
    """19 characters, then perhaps a fraction. Polars is fast only without one, so the fraction is read as a number."""
    whole = text.str.slice(0, 19).str.to_datetime(form, time_unit="us", strict=False)
    if text.str.len_bytes().max() == 19:
        return whole
    fraction = text.str.slice(19)
    micros = fraction.str.slice(1).str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64, strict=False)
    fits = fraction.str.contains(r"^\.\d{1,9}$") & whole.is_not_null()
    return (whole.to_physical() + micros).cast(pl.Datetime("us")).set(~fits.fill_null(False), None)


def _formatted_time(text: pl.Series, form: str) -> pl.Series:
    return text.str.to_datetime(form, time_unit="us", strict=False)


def _dates(text: pl.Series) -> pl.Series:
    """Days; a time of day after them is left out."""
    whole = _days(text.str.strip_chars())
    return _first_that_fits(text, whole, (lambda rest: _days(rest.str.extract(r"^\s*(\d+-\d+-\d+)[T ]")),))


def _days(text: pl.Series) -> pl.Series:
    """A month or a year means its first day."""
    forms: tuple[Parse, ...] = (
        lambda rest: rest.str.to_date("%Y-%m-%d", strict=False),
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
