"""Dates and timestamps: fields, truncation, distances, intervals, epochs. Timestamps are read in the session's zone."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import timestamp_text, zones
from tidegate.operators.expressions.bounds import TIMESTAMP_MAX_US
from tidegate.operators.expressions.civil import US_PER_DAY, US_PER_SECOND, days_from_civil, is_date
from tidegate.operators.expressions.compiled import Built, Check, Checked
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

OVERFLOW = "DATETIME_OVERFLOW"
_TEMPORAL = (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ)


def _zoned(call: Call) -> str | None:
    return zones.reason_against(call.zone)


_ONE = arity(1, also=takes(*_TEMPORAL, also=_zoned))


def _local(call: Call, value: pl.Expr, index: int = 0) -> pl.Expr:
    return zones.to_local(value, call.zone) if call.args[index].type == t.TIMESTAMP else value


@function("year", supports=_ONE)
def year(call: Call, value: pl.Expr) -> Built:
    return _local(call, value).dt.year().cast(pl.Int32)


@function("quarter", supports=_ONE)
def quarter(call: Call, value: pl.Expr) -> Built:
    return _local(call, value).dt.quarter().cast(pl.Int32)


@function("month", supports=_ONE)
def month(call: Call, value: pl.Expr) -> Built:
    return _local(call, value).dt.month().cast(pl.Int32)


@function("day", "dayofmonth", "day_of_month", supports=_ONE)
def day(call: Call, value: pl.Expr) -> Built:
    return _local(call, value).dt.day().cast(pl.Int32)


@function("dayofyear", "day_of_year", supports=_ONE)
def day_of_year(call: Call, value: pl.Expr) -> Built:
    return _local(call, value).dt.ordinal_day().cast(pl.Int32)


@function("dayofweek", "day_of_week", supports=_ONE)
def day_of_week(call: Call, value: pl.Expr) -> Built:
    """Sunday is 1."""
    return (_local(call, value).dt.weekday().cast(pl.Int32) % 7) + 1


@function("weekday", "week_day", supports=_ONE)
def weekday(call: Call, value: pl.Expr) -> Built:
    """Monday is 0."""
    return _local(call, value).dt.weekday().cast(pl.Int32) - 1


@function("weekofyear", "week_of_year", supports=_ONE)
def week_of_year(call: Call, value: pl.Expr) -> Built:
    return _local(call, value).dt.week().cast(pl.Int32)


@function("yearofweek", "year_of_week", supports=_ONE)
def year_of_week(call: Call, value: pl.Expr) -> Built:
    return _local(call, value).dt.iso_year().cast(pl.Int32)


@function("hour", supports=_ONE)
def hour(call: Call, value: pl.Expr) -> Built:
    return _local(call, value).dt.hour().cast(pl.Int32)


@function("minute", supports=_ONE)
def minute(call: Call, value: pl.Expr) -> Built:
    return _local(call, value).dt.minute().cast(pl.Int32)


@function("second", supports=_ONE)
def second(call: Call, value: pl.Expr) -> Built:
    return _local(call, value).dt.second().cast(pl.Int32)


# -- truncation ---------------------------------------------------------------------------------------------------------

_UNITS = {
    "1y": ("year", "yyyy", "yy"), "1q": ("quarter",), "1mo": ("month", "mon", "mm"), "1w": ("week",), "1d": ("day", "dd"),
    "1h": ("hour",), "1m": ("minute",), "1s": ("second",), "1ms": ("millisecond",), "1us": ("microsecond",),
}  # fmt: skip
_UNIT = {name: unit for unit, names in _UNITS.items() for name in names}
_WITHIN_DAY = ("1h", "1m", "1s", "1ms", "1us")


@function(
    "date_trunc",
    "trunctimestamp",
    supports=arity(2, also=constants(0, also=takes(t.TIMESTAMP, t.TIMESTAMP_NTZ, arguments=(1,), also=_zoned))),
)
def date_trunc(call: Call, _unit: pl.Expr, value: pl.Expr) -> Built:
    """Null for a unit Spark does not know, as in Spark."""
    step = _UNIT.get(str(argument(call, 0)).lower())
    if step is None:
        return pl.lit(None, dtype=polars_type(call.type))
    if call.args[1].type == t.TIMESTAMP_NTZ:
        return value.dt.truncate(step)
    local = zones.to_local(value, call.zone)
    if step in _WITHIN_DAY:
        # The offset stays: in the repeated hour of autumn the second 1:30 belongs to the second 1:00.
        return value - (local - local.dt.truncate(step))
    return zones.to_instant(local.dt.truncate(step), call.zone)


@function("trunc", "truncdate", supports=arity(2, also=constants(1, also=takes(t.DATE, arguments=(0,)))))
def trunc(call: Call, value: pl.Expr, _unit: pl.Expr) -> Built:
    step = _UNIT.get(str(argument(call, 1)).lower())
    if step is None or step in _WITHIN_DAY or step == "1d":
        return pl.lit(None, dtype=pl.Date)
    return value.dt.truncate(step)


@plain("last_day", "lastday", supports=takes(t.DATE))
def last_day(value: pl.Expr) -> Built:
    return value.dt.month_end()


# -- distances and intervals --------------------------------------------------------------------------------------------


@plain("date_add", "dateadd", supports=arity(2, also=takes(t.DATE, arguments=(0,))))
def date_add(date: pl.Expr, days: pl.Expr) -> Built:
    return (date.to_physical() + days.cast(pl.Int32)).cast(pl.Date)


@plain("date_sub", "datesub", supports=arity(2, also=takes(t.DATE, arguments=(0,))))
def date_sub(date: pl.Expr, days: pl.Expr) -> Built:
    return (date.to_physical() - days.cast(pl.Int32)).cast(pl.Date)


@plain("datediff", "date_diff", supports=arity(2, also=takes(t.DATE)))
def datediff(end: pl.Expr, start: pl.Expr) -> Built:
    return end.to_physical() - start.to_physical()


@plain("add_months", "addmonths", supports=arity(2, also=takes(t.DATE, arguments=(0,))))
def add_months(date: pl.Expr, months: pl.Expr) -> Built:
    """A day that the month does not have becomes its last."""
    return date.dt.offset_by(months.cast(pl.String) + "mo")


@plain("subtractdates", "subtract_dates", supports=arity(2, also=takes(t.DATE)))
def subtract_dates(end: pl.Expr, start: pl.Expr) -> Built:
    return end.cast(zones.LOCAL) - start.cast(zones.LOCAL)


@function(
    "subtracttimestamps",
    "subtract_timestamps",
    supports=arity(2, also=takes(t.TIMESTAMP, t.TIMESTAMP_NTZ, also=_zoned)),
)
def subtract_timestamps(call: Call, end: pl.Expr, start: pl.Expr) -> Built:
    """The distance between the local times, as Spark measures it."""
    return _local(call, end) - _local(call, start, 1)


@function(
    "timestampaddinterval",
    "timeadd",
    "timestamp_add_interval",
    "time_add",
    supports=arity(
        2,
        also=takes(
            t.TIMESTAMP, t.TIMESTAMP_NTZ, arguments=(0,), also=takes(t.DAY_TIME_INTERVAL, arguments=(1,), also=_zoned)
        ),
    ),
)
def add_interval(call: Call, value: pl.Expr, interval: pl.Expr) -> Built:
    """Whole days move the local date, the rest moves the instant: a day in autumn may have 25 hours."""
    micros = interval.to_physical()
    moved = value.to_physical() + micros
    check = Check(~moved.is_between(-TIMESTAMP_MAX_US, TIMESTAMP_MAX_US), OVERFLOW)
    plain = value + interval
    if call.args[0].type == t.TIMESTAMP_NTZ or zones.fixed_offset_us(call.zone) is not None:
        return Checked(plain, (check,))
    days = pl.when(micros < 0).then(-((-micros) // US_PER_DAY)).otherwise(micros // US_PER_DAY)
    whole = (days * US_PER_DAY).cast(pl.Duration("us"))
    by_days = zones.to_instant(zones.to_local(value, call.zone) + whole, call.zone) + (interval - whole)
    return Checked(pl.when(days == 0).then(plain).otherwise(by_days), (check,))


# -- epochs -------------------------------------------------------------------------------------------------------------


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


@function("date_format", "dateformatclass", supports=_both(takes(*_TEMPORAL, arguments=(0,), also=_zoned), _pattern()))
def date_format(call: Call, value: pl.Expr, *_: pl.Expr) -> Built:
    local = _local(call, value)
    if call.args[0].type == t.DATE:
        local = local.cast(zones.LOCAL)
    return local.dt.to_string(timestamp_text.printer(str(optional(call, 1, _DEFAULT_PATTERN))))


@function("from_unixtime", "fromunixtime", supports=_both(takes(t.LONG, arguments=(0,), also=_zoned), _pattern()))
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
    supports=_both(takes(t.STRING, *_TEMPORAL, arguments=(0,), also=_zoned), _reading),
)
def unix_timestamp(call: Call, value: pl.Expr, *_: pl.Expr) -> Built:
    match call.args[0].type:
        case t.TIMESTAMP:
            return value.to_physical() // US_PER_SECOND
        case t.DATE | t.TIMESTAMP_NTZ:
            return zones.to_instant(value.cast(zones.LOCAL), call.zone).to_physical() // US_PER_SECOND
        case _:
            return _read(call, value, lambda instant: instant.to_physical() // US_PER_SECOND)


@function(
    "gettimestamp", "to_timestamp_by_pattern", supports=_both(takes(t.STRING, arguments=(0,), also=_zoned), _reading)
)
def get_timestamp(call: Call, value: pl.Expr, *_: pl.Expr) -> Built:
    """``to_timestamp(text, pattern)``."""
    return _read(call, value, lambda instant: instant)


def _read(call: Call, text: pl.Expr, finish) -> Checked:
    local = timestamp_text.parse_by_pattern(text, str(optional(call, 1, _DEFAULT_PATTERN)))
    instant = local if call.type == t.TIMESTAMP_NTZ else zones.to_instant(local, call.zone)
    return Checked(finish(instant), (Check(text.is_not_null() & local.is_null(), "CANNOT_PARSE_TIMESTAMP"),))


@plain("make_date", "makedate", supports=arity(3, also=takes(t.INTEGER)))
def make_date(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> Built:
    parts = [part.cast(pl.Int64) for part in (year, month, day)]
    valid = is_date(*parts)
    date = pl.when(valid).then(days_from_civil(*parts)).otherwise(None).cast(pl.Int32).cast(pl.Date)
    return Checked(date, (Check(~valid, "DATETIME_FIELD_OUT_OF_BOUNDS"),))
