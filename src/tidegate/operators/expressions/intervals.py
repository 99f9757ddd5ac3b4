"""Intervals: months and microseconds. Their arithmetic, their fields, and dates moved by them."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Decimal
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import decimals, zones
from tidegate.operators.expressions.bounds import TIMESTAMP_MAX_US, type_bounds
from tidegate.operators.expressions.calendar import zoned
from tidegate.operators.expressions.civil import US_PER_DAY, US_PER_SECOND, plus_months
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.decimals import java_quotient, java_remainder
from tidegate.operators.expressions.moments import days_later, months_later
from tidegate.operators.expressions.registry import argument, arity, constants, function, plain, takes
from tidegate.operators.expressions.staged import staged
from tidegate.plan.expressions import Call

OVERFLOW = "INTERVAL_ARITHMETIC_OVERFLOW"
_NUMBERS = (*t.INTEGRAL, *t.FRACTIONAL, Decimal)
_SPANS = (t.DAY_TIME_INTERVAL, t.YEAR_MONTH_INTERVAL)
_US_PER_HOUR = 3_600 * US_PER_SECOND
_SECONDS = Decimal(18, 6)


def _whole(value: pl.Expr) -> pl.Expr:
    return value.to_physical().cast(pl.Int128)


def _interval(call: Call, wide: pl.Expr, error: str = OVERFLOW) -> Checked:
    """Months or microseconds as an interval; an error where they do not fit."""
    months = call.type == t.YEAR_MONTH_INTERVAL
    low, high = type_bounds(t.INTEGER if months else t.LONG)
    fits = wide.is_between(low, high)
    inside = pl.when(fits).then(wide).otherwise(None)
    value = inside.cast(pl.Int32) if months else inside.cast(pl.Int64).cast(pl.Duration("us"))
    return Checked(value, (Check(~fits, error),))


def _scaled(call: Call) -> str | None:
    return takes(*_SPANS, arguments=(0,), also=takes(*_NUMBERS, arguments=(1,)))(call)


@function(
    "multiplydtinterval",
    "multiplyyminterval",
    "multiply_dt_interval",
    "multiply_ym_interval",
    supports=arity(2, also=_scaled),
)
def multiply_interval(call: Call, span: pl.Expr, number: pl.Expr) -> Built:
    """Rounded half up to whole months or microseconds."""
    match call.args[1].type:
        case t.FLOAT | t.DOUBLE:
            product = span.to_physical().cast(pl.Float64) * number.cast(pl.Float64)
            return _from_double(call, product)
        case Decimal(_, scale):
            product = _whole(span) * decimals.unscaled(number)
            return _interval(call, decimals.divide_half_up(product, decimals.integer(10**scale)))
        case _:
            return _interval(call, _whole(span) * number.cast(pl.Int128))


@function(
    "dividedtinterval", "divideyminterval", "divide_dt_interval", "divide_ym_interval", supports=arity(2, also=_scaled)
)
def divide_interval(call: Call, span: pl.Expr, number: pl.Expr) -> Built:
    zero = Check((number.to_physical() == 0) & span.is_not_null(), "INTERVAL_DIVIDED_BY_ZERO")
    match call.args[1].type:
        case t.FLOAT | t.DOUBLE:
            divided = _from_double(call, span.to_physical().cast(pl.Float64) / number.cast(pl.Float64))
        case Decimal(_, scale):
            divided = _interval(call, decimals.divide_half_up(_whole(span) * 10**scale, decimals.unscaled(number)))
        case _:
            divided = _interval(call, decimals.divide_half_up(_whole(span), number.cast(pl.Int128)))
    return Checked(divided.value, (zero, *divided.checks))


def _from_double(call: Call, value: pl.Expr) -> Checked:
    """Spark rounds the double half up; what is no number or too large is an error."""
    low, high = type_bounds(t.INTEGER if call.type == t.YEAR_MONTH_INTERVAL else t.LONG)
    size = (value.abs() + 0.5).floor()
    exact = pl.when(value.abs() >= 2.0**52).then(value.abs()).otherwise(size)
    rounded = pl.when(value < 0).then(-exact).otherwise(exact)
    fits = rounded.is_finite() & (rounded >= float(low)) & (rounded < float(high))
    checked = _interval(call, pl.when(fits).then(rounded).cast(pl.Int128))
    return Checked(checked.value, (Check(~fits, OVERFLOW),))


# -- fields -------------------------------------------------------------------------------------------------------------

_SPAN = arity(1, also=takes(t.DAY_TIME_INTERVAL))
_YEARS = arity(1, also=takes(t.YEAR_MONTH_INTERVAL))


def _int(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int64)


@plain("extractansiintervaldays", supports=_SPAN)
def interval_days(span: pl.Expr) -> Built:
    return java_quotient(span.to_physical(), _int(US_PER_DAY)).cast(pl.Int32)


@plain("extractansiintervalhours", supports=_SPAN)
def interval_hours(span: pl.Expr) -> Built:
    return java_quotient(java_remainder(span.to_physical(), _int(US_PER_DAY)), _int(_US_PER_HOUR)).cast(pl.Int8)


@plain("extractansiintervalminutes", supports=_SPAN)
def interval_minutes(span: pl.Expr) -> Built:
    rest = java_remainder(span.to_physical(), _int(_US_PER_HOUR))
    return java_quotient(rest, _int(60 * US_PER_SECOND)).cast(pl.Int8)


@function("extractansiintervalseconds", supports=_SPAN)
def interval_seconds(call: Call, span: pl.Expr) -> Built:
    rest = java_remainder(span.to_physical(), _int(60 * US_PER_SECOND))
    return rest.cast(pl.Int128).reinterpret(dtype=polars_type(call.type))


@plain("extractansiintervalyears", supports=_YEARS)
def interval_years(span: pl.Expr) -> Built:
    return java_quotient(span, pl.lit(12, dtype=pl.Int32))


@plain("extractansiintervalmonths", supports=_YEARS)
def interval_months(span: pl.Expr) -> Built:
    return java_remainder(span, pl.lit(12, dtype=pl.Int32)).cast(pl.Int8)


# -- made from parts ----------------------------------------------------------------------------------------------------


@function("make_ym_interval", "makeyminterval", supports=arity(0, 2, also=takes(t.INTEGER)))
def make_ym_interval(call: Call, *parts: pl.Expr) -> Built:
    years, months = (*(part.cast(pl.Int128) for part in parts), *[pl.lit(0, dtype=pl.Int128)] * (2 - len(parts)))
    return _interval(call, years * 12 + months)


def _seconds(call: Call) -> str | None:
    return takes(t.INTEGER, arguments=(0, 1, 2), also=takes(_SECONDS, arguments=(3,)))(call)


@function("make_dt_interval", "makedtinterval", supports=arity(4, also=_seconds))
def make_dt_interval(call: Call, days: pl.Expr, hours: pl.Expr, minutes: pl.Expr, seconds: pl.Expr) -> Built:
    wide = [part.cast(pl.Int128) for part in (days, hours, minutes)]
    total = wide[0] * US_PER_DAY + wide[1] * _US_PER_HOUR + wide[2] * (60 * US_PER_SECOND)
    return _interval(call, total + decimals.unscaled(seconds))


# -- dates and timestamps moved -----------------------------------------------------------------------------------------


@function(
    "dateaddyminterval",
    "date_add_ym_interval",
    supports=arity(2, also=takes(t.DATE, arguments=(0,), also=takes(t.YEAR_MONTH_INTERVAL, arguments=(1,)))),
)
def date_add_months(_call: Call, date: pl.Expr, months: pl.Expr) -> Built:
    days, inside = plus_months(date, months)
    value = pl.when(inside).then(days).otherwise(None).cast(pl.Int32).cast(pl.Date)
    return Checked(value, (Check(~inside, "DATETIME_OVERFLOW", always=True),))


_MOMENT = takes(t.TIMESTAMP, t.TIMESTAMP_NTZ, arguments=(0,), also=zoned)


@function("timestampaddyminterval", "timestamp_add_ym_interval", supports=arity(2, also=_MOMENT))
def timestamp_add_months(call: Call, value: pl.Expr, months: pl.Expr) -> Built:
    return months_later(call, value, months)


@function("timestampaddcalendarinterval", supports=arity(4, also=constants(1, 2, 3, also=_MOMENT)))
def timestamp_add_calendar_interval(
    call: Call, value: pl.Expr, months: pl.Expr, days: pl.Expr, _micros: pl.Expr
) -> Built:
    """Months first, then days, both by the local calendar; then the time."""
    moved = months_later(call, value, months).value if argument(call, 1) else value
    moved = days_later(call, moved, days).value if argument(call, 2) else moved
    shift = argument(call, 3)
    assert isinstance(shift, int)

    def later(one: pl.Expr) -> pl.Expr:
        wide = one.to_physical().cast(pl.Int128) + shift
        return pl.when(wide.is_between(-TIMESTAMP_MAX_US, TIMESTAMP_MAX_US)).then(wide).cast(pl.Int64).cast(dtype)

    dtype = polars_type(call.type)
    result = staged(later, dtype, moved)
    return Checked(result, (Check(value.is_not_null() & result.is_null(), "DATETIME_OVERFLOW", always=True),))


def print_day_time(span: pl.Expr) -> pl.Expr:
    """``INTERVAL '1 02:03:04.5' DAY TO SECOND``."""
    size = span.to_physical()
    days, rest = java_quotient(size, _int(US_PER_DAY)).abs(), java_remainder(size, _int(US_PER_DAY)).abs()
    clock = rest.cast(zones.LOCAL).dt.to_string("%H:%M:%S%.6f").str.strip_chars_end("0").str.strip_chars_end(".")
    sign = pl.when(size < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    return pl.concat_str(
        pl.lit("INTERVAL '"), sign, days.cast(pl.String), pl.lit(" "), clock, pl.lit("' DAY TO SECOND")
    )
