"""Timestamps put together from parts, moved by calendar units, and their distances in such units."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Decimal
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import decimals, zones
from tidegate.operators.expressions.arithmetic import exact_division
from tidegate.operators.expressions.bounds import TIMESTAMP_MAX_US
from tidegate.operators.expressions.calendar import OVERFLOW, TEMPORAL, local_time, zoned
from tidegate.operators.expressions.civil import (
    US_PER_DAY,
    US_PER_SECOND,
    days_from_civil,
    is_date,
    month_length,
    plus_months,
)
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.decimals import java_quotient
from tidegate.operators.expressions.registry import argument, arity, constants, function, optional, plain, takes
from tidegate.operators.expressions.staged import staged
from tidegate.plan.expressions import Call, Literal

_OUT_OF_BOUNDS = "DATETIME_FIELD_OUT_OF_BOUNDS"
_WEEKDAYS = {"MO": 1, "TU": 2, "WE": 3, "TH": 4, "FR": 5, "SA": 6, "SU": 7}
_DAY_NAMES = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_EXACT_US = {"MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}
_DAYS = {"DAY": 1, "DAYOFYEAR": 1, "WEEK": 7}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _in_zone(call: Call, index: int) -> Callable[[pl.Expr, pl.Expr], pl.Expr]:
    """From a value and the local time it is moved to, the moved value.

    As in Java, a local time that occurs twice keeps the offset it came with.
    """

    def instant(value: pl.Expr, local: pl.Expr) -> pl.Expr:
        if call.type == t.TIMESTAMP_NTZ:
            return local
        if zones.fixed_offset_us(call.zone) is not None or call.args[index].type != t.TIMESTAMP:
            return zones.to_instant(local, call.zone)
        offset = zones.to_local(value, call.zone) - value.dt.replace_time_zone(None)
        same_offset = (local - offset).dt.replace_time_zone("UTC")
        keeps = zones.to_local(same_offset, call.zone) == local
        return pl.when(keeps).then(same_offset).otherwise(zones.to_instant(local, call.zone))

    return instant


def _moved(
    call: Call, value: pl.Expr, by: pl.Expr, local_us: Callable[[pl.Expr, pl.Expr], pl.Expr], index: int
) -> Checked:
    """A value moved by the local calendar; ``local_us`` says where to, null where the calendar ends."""
    of = call.args[index].type

    def local(one: pl.Expr, distance: pl.Expr) -> pl.Expr:
        clock = zones.to_local(one, call.zone) if of == t.TIMESTAMP else one
        target = local_us(clock, distance)
        return (
            pl.when(target.is_between(-TIMESTAMP_MAX_US, TIMESTAMP_MAX_US))
            .then(target)
            .cast(pl.Int64)
            .cast(zones.LOCAL)
        )

    target = staged(local, zones.LOCAL, value, by)
    result = staged(_in_zone(call, index), polars_type(call.type), value, target)
    return Checked(result, (Check(value.is_not_null() & by.is_not_null() & result.is_null(), OVERFLOW, always=True),))


def months_later(call: Call, value: pl.Expr, months: pl.Expr, index: int = 0) -> Checked:
    """A timestamp at the same local time of day, some months later."""

    def local_us(clock: pl.Expr, distance: pl.Expr) -> pl.Expr:
        days, inside = plus_months(clock, pl.when(distance.is_between(-(10**7), 10**7)).then(distance))
        return pl.when(inside).then(days * US_PER_DAY + clock.to_physical() % US_PER_DAY)

    return _moved(call, value, months, local_us, index)


def days_later(call: Call, value: pl.Expr, days: pl.Expr, index: int = 0) -> Checked:
    def local_us(clock: pl.Expr, distance: pl.Expr) -> pl.Expr:
        shift = pl.when(distance.is_between(-(10**8), 10**8)).then(distance).cast(pl.Int128) * US_PER_DAY
        return clock.to_physical().cast(pl.Int128) + shift

    return _moved(call, value, days, local_us, index)


def _unit_known(call: Call) -> str | None:
    unit = str(argument(call, 0))
    known = unit in _EXACT_US or unit in _DAYS or unit in _MONTHS
    return zoned(call) if known else f"{call.function} with the unit {unit} is not supported"


_MOMENTS = takes(t.TIMESTAMP, t.TIMESTAMP_NTZ, arguments=(2,), also=_unit_known)


@function("timestampadd", "timestamp_add", supports=arity(3, also=constants(0, also=_MOMENTS)))
def timestamp_add(call: Call, _unit: pl.Expr, quantity: pl.Expr, value: pl.Expr) -> Built:
    """Days and longer units move the local date, shorter ones the instant."""
    unit = str(argument(call, 0))
    if unit in _MONTHS:
        return months_later(call, value, _times(quantity, _MONTHS[unit]), 2)
    if unit in _DAYS:
        return days_later(call, value, _times(quantity, _DAYS[unit]), 2)
    limit = 2 * TIMESTAMP_MAX_US // _EXACT_US[unit]
    wide = quantity.cast(pl.Int128) * _EXACT_US[unit] + value.to_physical().cast(pl.Int128)
    fits = wide.is_between(-TIMESTAMP_MAX_US, TIMESTAMP_MAX_US) & quantity.is_between(-limit, limit)
    instant = pl.when(fits).then(wide).otherwise(None).cast(pl.Int64).cast(polars_type(call.type))
    return Checked(instant, (Check(~fits, OVERFLOW, always=True),))


def _times(quantity: pl.Expr, per: int) -> pl.Expr:
    """In the smaller unit; what is out of reach anyway stays so instead of wrapping around."""
    return quantity.clip(-(10**12), 10**12) * per


@function(
    "timestampdiff",
    "timestamp_diff",
    supports=arity(3, also=constants(0, also=takes(*TEMPORAL, arguments=(1, 2), also=_unit_known))),
)
def timestamp_difference(call: Call, _unit: pl.Expr, start: pl.Expr, end: pl.Expr) -> Built:
    """Whole units between two local times, toward zero."""
    unit = str(argument(call, 0))
    first, last = local_time(call, start, 1), local_time(call, end, 2)
    if unit not in _MONTHS:
        per = _EXACT_US.get(unit) or _DAYS[unit] * US_PER_DAY
        return java_quotient(last.to_physical() - first.to_physical(), pl.lit(per, dtype=pl.Int64))
    return java_quotient(_whole_months(first, last), pl.lit(_MONTHS[unit], dtype=pl.Int64))


def _month_number(local: pl.Expr) -> pl.Expr:
    return local.dt.year().cast(pl.Int64) * 12 + local.dt.month().cast(pl.Int64)


def _whole_months(first: pl.Expr, last: pl.Expr) -> pl.Expr:
    def within(local: pl.Expr) -> pl.Expr:
        return local.dt.day().cast(pl.Int64) * US_PER_DAY + local.to_physical() % US_PER_DAY

    months = _month_number(last) - _month_number(first)
    unfinished = (months > 0) & (within(last) < within(first))
    overdue = (months < 0) & (within(last) > within(first))
    return months - unfinished.cast(pl.Int64) + overdue.cast(pl.Int64)


@function(
    "months_between",
    "monthsbetween",
    supports=arity(2, 3, also=constants(2, also=takes(t.TIMESTAMP, arguments=(0, 1), also=zoned))),
)
def months_between(call: Call, end: pl.Expr, start: pl.Expr, *_: pl.Expr) -> Built:
    """Months of 31 days, unless both are the same day of their months, or both the last."""
    rounded = bool(optional(call, 2, True))

    def between(instants: tuple[pl.Expr, pl.Expr], locals_: tuple[pl.Expr, pl.Expr]) -> pl.Expr:
        (months_a, day_a, last_a, seconds_a), (months_b, day_b, last_b, seconds_b) = (
            _within_month(call, instant, local) for instant, local in zip(instants, locals_, strict=True)
        )
        whole = (months_a - months_b).cast(pl.Float64)
        seconds = (day_a - day_b) * 86_400 + seconds_a - seconds_b
        exact = whole + exact_division(seconds.cast(pl.Float64), 31.0 * 86_400)
        if rounded:
            exact = exact_division((exact * 1e8 + 0.5).floor(), 1e8)
        return pl.when((day_a == day_b) | (last_a & last_b)).then(whole).otherwise(exact)

    local_end, local_start = (zones.to_local(one, call.zone) for one in (end, start))
    return staged(lambda a, b, c, d: between((a, b), (c, d)), pl.Float64(), end, start, local_end, local_start)


def _within_month(call: Call, instant: pl.Expr, local: pl.Expr) -> tuple[pl.Expr, pl.Expr, pl.Expr, pl.Expr]:
    """Number of the month, day in it, whether it is the last, and seconds since midnight."""
    year, month, day = (getattr(local.dt, name)().cast(pl.Int64) for name in ("year", "month", "day"))
    midnight = zones.to_instant(local.dt.truncate("1d"), call.zone)
    seconds = (instant - midnight).to_physical() // US_PER_SECOND
    return year * 12 + month, day, day == month_length(year, month), seconds


def _weekday(call: Call) -> str | None:
    name = str(argument(call, 1)).strip().upper()
    known = name[:2] in _WEEKDAYS and any(name in (day[:2], day[:3], day) for day in _DAY_NAMES)
    return None if known else f"next_day does not know the weekday {argument(call, 1)!r}"


@function(
    "next_day", "nextday", supports=arity(2, also=constants(1, also=takes(t.DATE, arguments=(0,), also=_weekday)))
)
def next_day(call: Call, date: pl.Expr, _name: pl.Expr) -> Built:
    """The first such weekday after the date."""
    wanted = _WEEKDAYS[str(argument(call, 1)).strip().upper()[:2]]
    ahead = (wanted - date.dt.weekday().cast(pl.Int32) + 6) % 7 + 1
    return (date.to_physical() + ahead).cast(pl.Date)


@plain("dayname", supports=arity(1, also=takes(t.DATE)))
def day_name(date: pl.Expr) -> Built:
    return date.dt.to_string("%a")


@plain("monthname", supports=arity(1, also=takes(t.DATE)))
def month_name(date: pl.Expr) -> Built:
    return date.dt.to_string("%b")


@function(
    "secondwithfraction",
    "second_with_fraction",
    supports=arity(1, also=takes(t.TIMESTAMP, t.TIMESTAMP_NTZ, also=zoned)),
)
def second_with_fraction(call: Call, value: pl.Expr) -> Built:
    """``extract(SECOND FROM ts)``: a decimal with microseconds."""
    micros = local_time(call, value).to_physical() % (60 * US_PER_SECOND)
    return micros.cast(pl.Int128).reinterpret(dtype=polars_type(call.type))


# -- made from parts ----------------------------------------------------------------------------------------------------


def _parts(call: Call) -> str | None:
    if len(call.args) == 7 and (reason := constants(6)(call)) is not None:
        return reason
    zone = str(argument(call, 6)) if len(call.args) == 7 else call.zone
    seconds = call.args[5].type
    if not isinstance(seconds, Decimal) or seconds.scale != 6:
        return f"{call.function} is not supported for {t.simple_string(seconds)} seconds"
    return takes(t.INTEGER, arguments=(0, 1, 2, 3, 4))(call) or zones.reason_against(zone)


@function("make_timestamp", "maketimestamp", "make_timestamp_ltz", "make_timestamp_ntz", "try_make_timestamp", "try_make_timestamp_ltz",
          "try_make_timestamp_ntz", supports=arity(6, 7, also=_parts))  # fmt: skip
def make_timestamp(call: Call, *parts: pl.Expr) -> Built:
    """A minute may end with 60 whole seconds; they begin the next."""
    year, month, day, hour, minute = (part.cast(pl.Int64) for part in parts[:5])
    seconds_us = decimals.unscaled(parts[5]).cast(pl.Int64, strict=False)
    legal = is_date(year, month, day) & hour.is_between(0, 23) & minute.is_between(0, 59)
    whole = seconds_us // US_PER_SECOND
    legal = legal & whole.is_between(0, 59) | (legal & (seconds_us == 60 * US_PER_SECOND))
    of_day_us = (hour * 60 + minute) * 60 * US_PER_SECOND + seconds_us
    local_us = days_from_civil(year, month, day) * US_PER_DAY + of_day_us
    local = pl.when(legal).then(local_us).otherwise(None).cast(zones.LOCAL)
    zone = str(argument(call, 6)) if len(call.args) == 7 else call.zone
    value = local if call.type == t.TIMESTAMP_NTZ else zones.to_instant(local, zone)
    fraction = Check(legal_but_for_fraction(seconds_us), "INVALID_FRACTION_OF_SECOND")
    return Checked(value, (fraction, Check(~legal, _OUT_OF_BOUNDS)))


def legal_but_for_fraction(seconds_us: pl.Expr) -> pl.Expr:
    return (seconds_us > 60 * US_PER_SECOND) & (seconds_us < 61 * US_PER_SECOND)


def _two_zones(call: Call) -> str | None:
    return zones.reason_against(str(argument(call, 0))) or zones.reason_against(str(argument(call, 1)))


@function("convert_timezone", "converttimezone",
          supports=arity(3, also=constants(0, 1, also=takes(t.TIMESTAMP_NTZ, arguments=(2,), also=_two_zones))))  # fmt: skip
def convert_timezone(call: Call, _source: pl.Expr, _target: pl.Expr, local: pl.Expr) -> Built:
    """What the clocks of one zone show when those of another show this."""
    return zones.to_local(zones.to_instant(local, str(argument(call, 0))), str(argument(call, 1)))


def _bucket_known(call: Call) -> str | None:
    width = call.args[0]
    if not isinstance(width, Literal) or not isinstance(width.value, datetime.timedelta) or width.value.days:
        return "time_bucket is supported for constant widths of less than a day"
    return constants(2, also=takes(t.TIMESTAMP, t.TIMESTAMP_NTZ, arguments=(1, 2)))(call)


@function("time_bucket", "timebucket", supports=arity(3, also=constants(0, also=_bucket_known)))
def time_bucket(call: Call, width: pl.Expr, value: pl.Expr, origin: pl.Expr) -> Built:
    """When the bucket begins that the timestamp falls into; buckets are counted from the origin."""
    since = value.to_physical() - origin.to_physical()
    return (origin.to_physical() + since // width.to_physical() * width.to_physical()).cast(polars_type(call.type))
