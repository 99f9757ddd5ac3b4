"""Timestamps as numbers and as text: epochs, ``date_format``, ``to_timestamp`` with a pattern."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tidegate.model import types as t
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import timestamp_text, zones
from tidegate.operators.expressions.bounds import TIMESTAMP_MAX_US
from tidegate.operators.expressions.calendar import OVERFLOW, TEMPORAL, local_time, zoned
from tidegate.operators.expressions.civil import US_PER_SECOND, days_from_civil, is_date
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.decimals import java_quotient
from tidegate.operators.expressions.registry import (
    Supports,
    argument,
    arity,
    constants,
    function,
    optional,
    plain,
    takes,
)
from tidegate.plan.expressions import Call


@function("precisetimestampconversion", supports=takes(t.TIMESTAMP, t.TIMESTAMP_NTZ, t.LONG))
def precise_timestamp_conversion(call: Call, value: pl.Expr) -> Built:
    """Microseconds and back, nothing else."""
    return value.cast(polars_type(call.type))


_INSTANT = arity(1, also=takes(t.TIMESTAMP))


@plain("unix_micros", "unixmicros", supports=_INSTANT)
def unix_micros(value: pl.Expr) -> Built:
    return value.to_physical()


@plain("unix_millis", "unixmillis", supports=_INSTANT)
def unix_millis(value: pl.Expr) -> Built:
    return value.to_physical() // 1_000


@plain("unix_seconds", "unixseconds", supports=_INSTANT)
def unix_seconds(value: pl.Expr) -> Built:
    return value.to_physical() // US_PER_SECOND


@plain("unix_date", "unixdate", supports=takes(t.DATE))
def unix_date(value: pl.Expr) -> Built:
    return value.to_physical()


@plain("date_from_unix_date", "datefromunixdate", supports=takes(t.INTEGER))
def date_from_unix_date(value: pl.Expr) -> Built:
    return value.cast(pl.Date)


def _from_epoch(value: pl.Expr, per_unit_us: int) -> Built:
    limit = TIMESTAMP_MAX_US // per_unit_us
    inside = value.is_between(-limit, limit)
    instant = pl.when(inside).then(value).otherwise(None).cast(pl.Int64) * per_unit_us
    return Checked(instant.cast(zones.INSTANT), (Check(~inside, "ARITHMETIC_OVERFLOW"),))


@function("timestamp_seconds", "secondstotimestamp", supports=takes(*t.INTEGRAL, t.DOUBLE))
def timestamp_seconds(call: Call, value: pl.Expr) -> Built:
    if call.args[0].type != t.DOUBLE:
        return _from_epoch(value, US_PER_SECOND)
    usable = value.is_finite() & (value.abs() < TIMESTAMP_MAX_US / US_PER_SECOND)
    micros = pl.when(usable).then(value * US_PER_SECOND).otherwise(None).cast(pl.Int64, strict=False)
    return micros.cast(zones.INSTANT)


@plain("timestamp_millis", "millistotimestamp", supports=takes(*t.INTEGRAL))
def timestamp_millis(value: pl.Expr) -> Built:
    return _from_epoch(value, 1_000)


@plain("timestamp_micros", "microstotimestamp", supports=takes(*t.INTEGRAL))
def timestamp_micros(value: pl.Expr) -> Built:
    return _from_epoch(value, 1)


@function(
    "from_utc_timestamp",
    "fromutctimestamp",
    supports=arity(
        2,
        also=constants(
            1, also=takes(t.TIMESTAMP, arguments=(0,), also=lambda call: zones.reason_against(str(argument(call, 1))))
        ),
    ),
)
def from_utc_timestamp(call: Call, value: pl.Expr, _zone: pl.Expr) -> Built:
    return zones.to_local(value, str(argument(call, 1))).dt.replace_time_zone("UTC")


@function(
    "to_utc_timestamp",
    "toutctimestamp",
    supports=arity(
        2,
        also=constants(
            1, also=takes(t.TIMESTAMP, arguments=(0,), also=lambda call: zones.reason_against(str(argument(call, 1))))
        ),
    ),
)
def to_utc_timestamp(call: Call, value: pl.Expr, _zone: pl.Expr) -> Built:
    return zones.to_instant(value.dt.replace_time_zone(None), str(argument(call, 1)))


# -- text ---------------------------------------------------------------------------------------------------------------

_DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"


def _pattern(*, parsing: bool = False) -> Supports:
    def supports(call: Call) -> str | None:
        return timestamp_text.reason_against(str(optional(call, 1, _DEFAULT_PATTERN)), parsing=parsing)

    return arity(1, 2, also=constants(1, also=supports))


def _both(first: Supports, second: Supports) -> Supports:
    return lambda call: first(call) or second(call)


@function("date_format", "dateformatclass", supports=_both(takes(*TEMPORAL, arguments=(0,), also=zoned), _pattern()))
def date_format(call: Call, value: pl.Expr, *_: pl.Expr) -> Built:
    local = local_time(call, value)
    if call.args[0].type == t.DATE:
        local = local.cast(zones.LOCAL)
    return local.dt.to_string(timestamp_text.printer(str(optional(call, 1, _DEFAULT_PATTERN))))


@function("from_unixtime", "fromunixtime", supports=_both(takes(t.LONG, arguments=(0,), also=zoned), _pattern()))
def from_unixtime(call: Call, value: pl.Expr, *_: pl.Expr) -> Built:
    limit = TIMESTAMP_MAX_US // US_PER_SECOND
    inside = value.is_between(-limit, limit)
    instant = (pl.when(inside).then(value).otherwise(None) * US_PER_SECOND).cast(zones.INSTANT)
    printed = zones.to_local(instant, call.zone).dt.to_string(
        timestamp_text.printer(str(optional(call, 1, _DEFAULT_PATTERN)))
    )
    return Checked(printed, (Check(~inside, OVERFLOW, always=True),))


def _reading(call: Call) -> str | None:
    if call.args[0].type != t.STRING:
        return None
    return _pattern(parsing=True)(call)


@function(
    "unix_timestamp",
    "to_unix_timestamp",
    "tounixtimestamp",
    "unixtimestamp",
    supports=_both(takes(t.STRING, *TEMPORAL, arguments=(0,), also=zoned), _reading),
)
def unix_timestamp(call: Call, value: pl.Expr, *_: pl.Expr) -> Built:
    match call.args[0].type:
        case t.TIMESTAMP:
            return _whole_seconds(value)
        case t.DATE | t.TIMESTAMP_NTZ:
            return _whole_seconds(zones.to_instant(value.cast(zones.LOCAL), call.zone))
        case _:
            return _read(call, value, _whole_seconds)


def _whole_seconds(instant: pl.Expr) -> pl.Expr:
    """Toward zero, unlike ``unix_seconds``."""
    return java_quotient(instant.to_physical(), pl.lit(US_PER_SECOND, dtype=pl.Int64))


@function(
    "gettimestamp", "to_timestamp_by_pattern", supports=_both(takes(t.STRING, arguments=(0,), also=zoned), _reading)
)
def get_timestamp(call: Call, value: pl.Expr, *_: pl.Expr) -> Built:
    """``to_timestamp(text, pattern)``."""
    return _read(call, value, lambda instant: instant)


def _read(call: Call, text: pl.Expr, finish: Callable[[pl.Expr], pl.Expr]) -> Checked:
    local = timestamp_text.parse_by_pattern(text, str(optional(call, 1, _DEFAULT_PATTERN)))
    instant = local if call.type == t.TIMESTAMP_NTZ else zones.to_instant(local, call.zone)
    return Checked(finish(instant), (Check(text.is_not_null() & local.is_null(), "CANNOT_PARSE_TIMESTAMP"),))


@plain("make_date", "makedate", supports=arity(3, also=takes(t.INTEGER)))
def make_date(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> Built:
    parts = [part.cast(pl.Int64) for part in (year, month, day)]
    valid = is_date(*parts)
    date = pl.when(valid).then(days_from_civil(*parts)).otherwise(None).cast(pl.Int32).cast(pl.Date)
    return Checked(date, (Check(~valid, "DATETIME_FIELD_OUT_OF_BOUNDS"),))
