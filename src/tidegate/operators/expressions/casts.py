"""CAST among plain types, with ANSI's rules. ``try_cast`` is the same with nulls for errors."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Array, DataType, Decimal, Struct, simple_string
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import decimals, intervals, nested_casts, number_text, timestamp_text, utf8, zones
from tidegate.operators.expressions.arithmetic import exact_division
from tidegate.operators.expressions.bounds import TIMESTAMP_MAX_US, bounds, type_bounds
from tidegate.operators.expressions.civil import US_PER_SECOND
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.timestamp_text import BLANKS
from tidegate.plan.expressions import Cast

INVALID = "CAST_INVALID_INPUT"
OVERFLOW = "CAST_OVERFLOW"
_DIGITS: dict[DataType, int] = {t.BYTE: 3, t.SHORT: 5, t.INTEGER: 10, t.LONG: 19}
_TRUE, _FALSE = ["t", "true", "y", "yes", "1"], ["f", "false", "n", "no", "0"]


def reason_against(cast: Cast) -> str | None:
    """Why this cast is not supported, or None."""
    of, to = cast.child.type, cast.type
    refusal = f"cast from {simple_string(of)} to {simple_string(to)} is not supported"
    if (
        of in (t.TIMESTAMP, t.STRING, t.DATE, t.TIMESTAMP_NTZ)
        and (reason := zones.reason_against(cast.zone)) is not None
    ):
        return reason
    return None if possible(of, to) else refusal


def possible(of: DataType, to: DataType) -> bool:
    if of == to or of == t.NULL or (polars_type(of) == polars_type(to) and t.YEAR_MONTH_INTERVAL not in (of, to)):
        return True
    number = (*t.INTEGRAL, *t.FRACTIONAL)
    match of, to:
        case (Array() | Struct() | t.Map(), _) | (_, Array() | Struct() | t.Map()):
            return nested_casts.possible(of, to)
        case t.DAY_TIME_INTERVAL, t.STRING:
            return True
        case (
            (t.DAY_TIME_INTERVAL | t.YEAR_MONTH_INTERVAL, _)
            | (_, t.DAY_TIME_INTERVAL | t.YEAR_MONTH_INTERVAL)
            | (_, t.NULL)
        ):
            return False
        case _, t.STRING:
            return True
        case t.STRING, _:
            return True
        case (t.BINARY, _) | (_, t.BINARY):
            return False
        case t.TIMESTAMP, _:
            return to in (t.DATE, t.TIMESTAMP_NTZ, *number) or isinstance(to, Decimal)
        case _, t.TIMESTAMP:
            return of in (t.DATE, t.TIMESTAMP_NTZ, *number) or isinstance(of, Decimal)
        case ((t.DATE | t.TIMESTAMP_NTZ), _):
            return to in (t.DATE, t.TIMESTAMP_NTZ)
        case _, (t.DATE | t.TIMESTAMP_NTZ):
            return False
        case _:
            return True


def build(cast: Cast, child: pl.Expr) -> Built:
    of, to = cast.child.type, cast.type
    dtype = polars_type(to)
    if polars_type(of) == dtype:
        return child
    if of == t.NULL:
        return child.cast(dtype)
    if isinstance(of, Array | Struct | t.Map):
        return nested_casts.build(cast, child)
    match to:
        case t.STRING:
            return _to_text(cast, child)
        case t.BINARY:
            return child.cast(pl.Binary)
        case t.BOOLEAN:
            return _to_boolean(of, child)
        case t.DATE | t.TIMESTAMP | t.TIMESTAMP_NTZ:
            return _to_temporal(cast, child)
        case Decimal():
            return _to_decimal(of, to, child)
        case t.FLOAT | t.DOUBLE:
            return _to_fractional(of, dtype, child)
        case _:
            return _to_integral(cast, child)


def _parsed(value: pl.Expr, text: pl.Expr, error: str = INVALID) -> Checked:
    return Checked(value, (Check(text.is_not_null() & value.is_null(), error),))


def _to_text(cast: Cast, child: pl.Expr) -> Built:
    match cast.child.type:
        case t.BOOLEAN:
            return pl.when(child).then(pl.lit("true")).when(~child).then(pl.lit("false")).otherwise(None)
        case t.FLOAT | t.DOUBLE:
            return number_text.print_float(child)
        case t.DATE:
            return timestamp_text.print_date(child)
        case t.TIMESTAMP:
            return timestamp_text.print_timestamp(zones.to_local(child, cast.zone))
        case t.TIMESTAMP_NTZ:
            return timestamp_text.print_timestamp(child)
        case t.DAY_TIME_INTERVAL:
            return intervals.print_day_time(child)
        case t.BINARY:
            text = utf8.text_of(child)
            return Checked(text, (utf8.malformed(child, text, INVALID, always=True),))
        case _:
            return child.cast(pl.String)


def _to_boolean(of: DataType, child: pl.Expr) -> Built:
    if of != t.STRING:
        return decimals.unscaled(child) != 0 if isinstance(of, Decimal) else child != 0
    word = child.str.strip_chars(BLANKS).str.to_lowercase()
    value = pl.when(word.is_in(_TRUE)).then(True).when(word.is_in(_FALSE)).then(False).otherwise(None)
    return _parsed(value, child)


def _to_integral(cast: Cast, child: pl.Expr) -> Built:
    of, dtype = cast.child.type, polars_type(cast.type)
    low, high = type_bounds(cast.type)
    match of:
        case t.BOOLEAN:
            return child.cast(dtype)
        case t.STRING:
            return _parsed(number_text.parse_integer(child, dtype), child)
        case t.FLOAT | t.DOUBLE:
            # As Java compares: the type's bounds become doubles, so 2^63 itself passes and saturates.
            fits = (child.floor() <= float(high)) & (child.ceil() >= float(low)) & child.is_not_nan()
            return Checked(child.cast(dtype, wrap_numerical=True), (Check(~fits, OVERFLOW),))
        case Decimal(_, scale):
            whole = decimals.java_quotient(decimals.unscaled(child), decimals.integer(10**scale))
            return Checked(whole.cast(dtype, strict=False), (Check(~whole.is_between(low, high), OVERFLOW),))
        case t.TIMESTAMP:
            seconds = child.to_physical() // US_PER_SECOND
            fits = seconds.is_between(low, high)
            return Checked(seconds.cast(dtype, strict=False), (Check(~fits, OVERFLOW),))
        case _:
            value = child.cast(dtype, wrap_numerical=True)
            if bounds(cast.child).within(type_bounds(cast.type)):
                return value
            return Checked(value, (Check(~child.is_between(low, high), OVERFLOW),))


def _to_fractional(of: DataType, dtype: pl.DataType, child: pl.Expr) -> Built:
    match of:
        case t.STRING:
            return _parsed(number_text.parse_float(child, dtype), child)
        case t.TIMESTAMP:
            return exact_division(child.to_physical().cast(pl.Float64), float(US_PER_SECOND)).cast(dtype)
        case Decimal(precision, scale) if precision > 15 or scale > 22:
            # Dividing would round twice; reading the digits rounds once.
            return child.cast(pl.String).cast(dtype)
        case Decimal(_, scale):
            return exact_division(decimals.unscaled(child).cast(pl.Float64), 10.0**scale).cast(dtype)
        case _:
            return child.cast(dtype)


def _to_decimal(of: DataType, to: Decimal, child: pl.Expr) -> Built:
    match of:
        case Decimal(precision, scale):
            return _decimal_to_decimal(precision, scale, to, child)
        case t.STRING:
            parsed = number_text.parse_decimal(child, to)
            value = parsed.value
            checks = (
                Check(child.is_not_null() & ~parsed.is_number, INVALID),
                Check(parsed.is_number & (parsed.whole_digits > decimals.DIGITS_MAX), "NUMERIC_OUT_OF_SUPPORTED_RANGE"),
                Check(parsed.is_number & value.is_null(), decimals.OUT_OF_RANGE),
            )
            return Checked(value, checks)
        case t.TIMESTAMP:
            micros = child.to_physical().cast(pl.Int128)
            return decimals.fitted(micros, 19, 6, to, child)
        case t.FLOAT | t.DOUBLE:
            # Infinity and NaN are null even in ANSI mode.
            value = number_text.parse_decimal(child.cast(pl.String), to).value
            return Checked(value, (Check(child.is_finite() & value.is_null(), decimals.OUT_OF_RANGE),))
        case _:
            wide = child.cast(pl.Int128)
            whole = to.precision - to.scale
            dtype = pl.Decimal(to.precision, to.scale)
            if of == t.BOOLEAN or _DIGITS[of] <= whole:
                return (wide * 10**to.scale).reinterpret(dtype=dtype)
            fits = (wide > -(10**whole)) & (wide < 10**whole)
            value = (pl.when(fits).then(wide).otherwise(None) * 10**to.scale).reinterpret(dtype=dtype)
            return Checked(value, (Check(~fits, decimals.OUT_OF_RANGE),))


def _decimal_to_decimal(precision: int, scale: int, to: Decimal, child: pl.Expr) -> Built:
    value = decimals.unscaled(child)
    growth = max(0, to.scale - scale)
    if precision + growth <= decimals.DIGITS_MAX:
        return (
            decimals.fitted(value, precision + growth, scale, to, child)
            if growth == 0
            else decimals.fitted(value * 10**growth, precision + growth, to.scale, to, child)
        )
    # Too many digits to scale up blindly: what would not fit is set aside first.
    limit = 10 ** (to.precision - growth)
    inside = pl.when((value > -limit) & (value < limit)).then(value).otherwise(None)
    result = (inside * 10**growth).reinterpret(dtype=pl.Decimal(to.precision, to.scale))
    return Checked(result, (Check(child.is_not_null() & result.is_null(), decimals.OUT_OF_RANGE),))


def _to_temporal(cast: Cast, child: pl.Expr) -> Built:
    match cast.child.type, cast.type:
        case t.STRING, t.DATE:
            return _parsed(timestamp_text.parse_date(child), child)
        case t.STRING, to:
            zone = cast.zone if to == t.TIMESTAMP else None
            parsed = timestamp_text.parse_timestamp(child, zone)
            foreign = Check(parsed.foreign_zone, "UNSUPPORTED_TIME_ZONE", always=True)
            checks = _parsed(parsed.value, child).checks
            return Checked(parsed.value, checks if zone is None else (foreign, *checks))
        case t.TIMESTAMP, t.DATE:
            return zones.to_local(child, cast.zone).dt.date()
        case t.TIMESTAMP, t.TIMESTAMP_NTZ:
            return zones.to_local(child, cast.zone)
        case ((t.DATE | t.TIMESTAMP_NTZ), t.TIMESTAMP):
            return zones.to_instant(child.cast(zones.LOCAL), cast.zone)
        case ((t.DATE | t.TIMESTAMP_NTZ), _):
            return child.dt.date() if cast.type == t.DATE else child.cast(zones.LOCAL)
        case ((t.FLOAT | t.DOUBLE), _):
            micros = child.cast(pl.Float64) * float(US_PER_SECOND)
            inside = micros.is_finite() & (micros.abs() < TIMESTAMP_MAX_US)
            value = pl.when(inside).then(micros).otherwise(None).cast(pl.Int64, strict=False).cast(zones.INSTANT)
            return Checked(value, (Check(child.is_not_null() & ~inside, INVALID),))
        case Decimal(_, scale), _:
            unscaled = decimals.unscaled(child)
            micros = (
                unscaled * 10 ** (6 - scale)
                if scale <= 6
                else decimals.java_quotient(unscaled, decimals.integer(10 ** (scale - 6)))
            )
            inside = micros.is_between(-TIMESTAMP_MAX_US, TIMESTAMP_MAX_US)
            value = pl.when(inside).then(micros).otherwise(None).cast(pl.Int64).cast(zones.INSTANT)
            return Checked(value, (Check(~inside, OVERFLOW, always=True),))
        case _:
            seconds = child.cast(pl.Int64)
            limit = TIMESTAMP_MAX_US // US_PER_SECOND
            inside = seconds.is_between(-limit, limit)
            value = (pl.when(inside).then(seconds).otherwise(None) * US_PER_SECOND).cast(zones.INSTANT)
            # Spark clamps to the last representable microsecond; our calendar ends a little earlier.
            return Checked(value, (Check(~inside, OVERFLOW, always=True),))
