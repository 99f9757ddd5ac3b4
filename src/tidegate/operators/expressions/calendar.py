"""Dates and timestamps: fields, truncation, distances, intervals, epochs. Timestamps are read in the session's zone."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import zones
from tidegate.operators.expressions.bounds import TIMESTAMP_MAX_US
from tidegate.operators.expressions.civil import US_PER_DAY
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import (
    argument,
    arity,
    constants,
    function,
    plain,
    takes,
)
from tidegate.plan.expressions import Call

OVERFLOW = "DATETIME_OVERFLOW"
TEMPORAL = (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ)


def zoned(call: Call) -> str | None:
    return zones.reason_against(call.zone)


_ONE = arity(1, also=takes(*TEMPORAL, also=zoned))


def local_time(call: Call, value: pl.Expr, index: int = 0) -> pl.Expr:
    return zones.to_local(value, call.zone) if call.args[index].type == t.TIMESTAMP else value


@function("year", supports=_ONE)
def year(call: Call, value: pl.Expr) -> Built:
    return local_time(call, value).dt.year().cast(pl.Int32)


@function("quarter", supports=_ONE)
def quarter(call: Call, value: pl.Expr) -> Built:
    return local_time(call, value).dt.quarter().cast(pl.Int32)


@function("month", supports=_ONE)
def month(call: Call, value: pl.Expr) -> Built:
    return local_time(call, value).dt.month().cast(pl.Int32)


@function("day", "dayofmonth", "day_of_month", supports=_ONE)
def day(call: Call, value: pl.Expr) -> Built:
    return local_time(call, value).dt.day().cast(pl.Int32)


@function("dayofyear", "day_of_year", supports=_ONE)
def day_of_year(call: Call, value: pl.Expr) -> Built:
    return local_time(call, value).dt.ordinal_day().cast(pl.Int32)


@function("dayofweek", "day_of_week", supports=_ONE)
def day_of_week(call: Call, value: pl.Expr) -> Built:
    """Sunday is 1."""
    return (local_time(call, value).dt.weekday().cast(pl.Int32) % 7) + 1


@function("weekday", "week_day", supports=_ONE)
def weekday(call: Call, value: pl.Expr) -> Built:
    """Monday is 0."""
    return local_time(call, value).dt.weekday().cast(pl.Int32) - 1


@function("weekofyear", "week_of_year", supports=_ONE)
def week_of_year(call: Call, value: pl.Expr) -> Built:
    return local_time(call, value).dt.week().cast(pl.Int32)


@function("yearofweek", "year_of_week", supports=_ONE)
def year_of_week(call: Call, value: pl.Expr) -> Built:
    return local_time(call, value).dt.iso_year().cast(pl.Int32)


@function("hour", supports=_ONE)
def hour(call: Call, value: pl.Expr) -> Built:
    return local_time(call, value).dt.hour().cast(pl.Int32)


@function("minute", supports=_ONE)
def minute(call: Call, value: pl.Expr) -> Built:
    return local_time(call, value).dt.minute().cast(pl.Int32)


@function("second", supports=_ONE)
def second(call: Call, value: pl.Expr) -> Built:
    return local_time(call, value).dt.second().cast(pl.Int32)


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
    supports=arity(2, also=constants(0, also=takes(t.TIMESTAMP, t.TIMESTAMP_NTZ, arguments=(1,), also=zoned))),
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
    supports=arity(2, also=takes(t.TIMESTAMP, t.TIMESTAMP_NTZ, also=zoned)),
)
def subtract_timestamps(call: Call, end: pl.Expr, start: pl.Expr) -> Built:
    """The distance between the local times, as Spark measures it."""
    return local_time(call, end) - local_time(call, start, 1)


@function(
    "timestampaddinterval",
    "timeadd",
    "timestamp_add_interval",
    "time_add",
    supports=arity(
        2,
        also=takes(
            t.TIMESTAMP, t.TIMESTAMP_NTZ, arguments=(0,), also=takes(t.DAY_TIME_INTERVAL, arguments=(1,), also=zoned)
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
