"""Mathematical functions. Rounding works on the decimal digits that Java prints, as Spark's does."""

from __future__ import annotations

import math

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Decimal
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import decimals
from tidegate.operators.expressions.arithmetic import exact_division
from tidegate.operators.expressions.bounds import type_bounds
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import arity, constants, function, optional, plain, takes
from tidegate.plan.expressions import Call

_DOUBLE = arity(1, also=takes(t.DOUBLE))
_EXACT_DOUBLE = 2.0**52
"""Doubles from here on are integers."""


@plain("sqrt", supports=_DOUBLE)
def sqrt(x: pl.Expr) -> Built:
    return x.sqrt()


@plain("cbrt", supports=_DOUBLE)
def cbrt(x: pl.Expr) -> Built:
    return x.cbrt()


@plain("exp", supports=_DOUBLE)
def exp(x: pl.Expr) -> Built:
    return x.exp()


def _positive(x: pl.Expr) -> pl.Expr:
    """Spark's logarithms are null at and below zero, NaN for NaN."""
    return pl.when(x <= 0.0).then(None).otherwise(x)


@plain("ln", supports=_DOUBLE)
def ln(x: pl.Expr) -> Built:
    return _positive(x).log()


@plain("log10", supports=_DOUBLE)
def log10(x: pl.Expr) -> Built:
    return _positive(x).log10()


@plain("log2", supports=_DOUBLE)
def log2(x: pl.Expr) -> Built:
    return exact_division(_positive(x).log(), math.log(2.0))


@plain("log1p", supports=_DOUBLE)
def log1p(x: pl.Expr) -> Built:
    return pl.when(x <= -1.0).then(None).otherwise(x.log1p())


@plain("log", "logarithm", supports=arity(1, 2, also=takes(t.DOUBLE)))
def log(first: pl.Expr, second: pl.Expr | None = None) -> Built:
    """``log(x)`` or ``log(base, x)``."""
    return _positive(first).log() if second is None else _positive(second).log() / _positive(first).log()


@plain("pow", "power", supports=arity(2, also=takes(t.DOUBLE)))
def power(x: pl.Expr, y: pl.Expr) -> Built:
    """Java's: 1 to the power of NaN is NaN, unlike C's."""
    nan = pl.lit(float("nan"))
    strange = (y.is_nan() & x.is_not_null()) | (x.abs().eq(1.0) & y.is_infinite())
    return pl.when(strange).then(nan).otherwise(x.pow(y))


@function("signum", "sign", supports=arity(1, also=takes(t.DOUBLE, t.DAY_TIME_INTERVAL, t.YEAR_MONTH_INTERVAL)))
def signum(call: Call, x: pl.Expr) -> Built:
    if call.args[0].type != t.DOUBLE:
        return x.to_physical().sign().cast(pl.Float64)
    return pl.when(x.is_nan() | (x == 0.0)).then(x).otherwise(x.sign())


@plain("degrees", "todegrees", supports=_DOUBLE)
def degrees(x: pl.Expr) -> Built:
    return x * (180.0 / math.pi)


@plain("radians", "toradians", supports=_DOUBLE)
def radians(x: pl.Expr) -> Built:
    return x * (math.pi / 180.0)


@plain("sin", supports=_DOUBLE)
def sin(x: pl.Expr) -> Built:
    return x.sin()


@plain("cos", supports=_DOUBLE)
def cos(x: pl.Expr) -> Built:
    return x.cos()


@plain("tan", supports=_DOUBLE)
def tan(x: pl.Expr) -> Built:
    return x.tan()


@plain("atan", supports=_DOUBLE)
def atan(x: pl.Expr) -> Built:
    return x.arctan()


@plain("asin", supports=_DOUBLE)
def asin(x: pl.Expr) -> Built:
    return x.arcsin()


@plain("acos", supports=_DOUBLE)
def acos(x: pl.Expr) -> Built:
    return x.arccos()


# -- floor, ceil, round -------------------------------------------------------------------------------------------------

_ROUNDABLE = takes(t.DOUBLE, t.LONG, Decimal)


def _scaled_decimal(call: Call) -> str | None:
    if len(call.args) == 1:
        return _ROUNDABLE(call)
    return constants(1, also=takes(Decimal, arguments=(0,)))(call)


@function("floor", "roundfloor", supports=arity(1, 2, also=_scaled_decimal))
def floor(call: Call, x: pl.Expr, *_: pl.Expr) -> Built:
    return _whole(call, x, up=False)


@function("ceil", "ceiling", "roundceil", supports=arity(1, 2, also=_scaled_decimal))
def ceil(call: Call, x: pl.Expr, *_: pl.Expr) -> Built:
    return _whole(call, x, up=True)


def _whole(call: Call, x: pl.Expr, *, up: bool) -> Built:
    """Doubles become longs; NaN becomes 0, as a Java cast makes it."""
    match call.args[0].type:
        case Decimal(precision, scale):
            assert isinstance(call.type, Decimal)
            digits = optional(call, 1, 0)
            assert isinstance(digits, int)
            if digits >= scale:
                return decimals.fitted(decimals.unscaled(x), precision, scale, call.type, x)
            unit = decimals.integer(10 ** (scale - digits))
            below = decimals.unscaled(x) // unit
            exact = decimals.unscaled(x) % unit == 0
            value = pl.when(exact).then(below).otherwise(below + 1) if up else below
            if digits < 0:
                value, digits = value * 10**-digits, 0
            return decimals.fitted(value, precision - scale + digits + 1, digits, call.type, x)
        case t.DOUBLE:
            low, high = (float(bound) for bound in type_bounds(t.LONG))
            whole = (x.ceil() if up else x.floor()).fill_nan(0.0)
            overflow = (whole < low) | (whole > high)
            return Checked(whole.cast(pl.Int64, wrap_numerical=True), (Check(overflow, "ARITHMETIC_OVERFLOW"),))
        case _:
            return x


def _round_supported(call: Call) -> str | None:
    scale = optional(call, 1, 0)
    if not isinstance(scale, int) or abs(scale) > 22:
        return f"{call.function} to {scale} digits is not supported"
    return None


@function(
    "round",
    supports=arity(
        1, 2, also=constants(1, also=takes(*t.INTEGRAL, *t.FRACTIONAL, Decimal, arguments=(0,), also=_round_supported))
    ),
)
def round_half_up(call: Call, x: pl.Expr, *_: pl.Expr) -> Built:
    return _rounded(call, x, even=False)


@function(
    "bround",
    supports=arity(
        1, 2, also=constants(1, also=takes(*t.INTEGRAL, *t.FRACTIONAL, Decimal, arguments=(0,), also=_round_supported))
    ),
)
def round_half_even(call: Call, x: pl.Expr, *_: pl.Expr) -> Built:
    return _rounded(call, x, even=True)


def _rounded(call: Call, x: pl.Expr, *, even: bool) -> Built:
    scale = optional(call, 1, 0)
    assert isinstance(scale, int)
    match call.args[0].type:
        case Decimal() as of:
            assert isinstance(call.type, Decimal)
            if scale >= of.scale:
                return decimals.fitted(decimals.unscaled(x), of.precision, of.scale, call.type, x)
            # Digits left of the point go too when the scale is negative: round, then fill up with zeros.
            value = nearest(decimals.unscaled(x), 10 ** (of.scale - scale), even=even)
            if scale < 0:
                value = value * 10**-scale
            return decimals.fitted(value, of.precision + 1, max(scale, 0), call.type, x)
        case t.FLOAT | t.DOUBLE:
            return _round_fractional(call, x, scale, even=even)
        case of if scale < 0:
            # Integers only change left of the point.
            wide = nearest(x.cast(pl.Int128), 10**-scale, even=even) * 10**-scale
            low, high = type_bounds(of)
            value = wide.cast(polars_type(call.type), strict=False)
            return Checked(value, (Check(~wide.is_between(low, high), "ARITHMETIC_OVERFLOW"),))
        case _:
            return x


def nearest(value: pl.Expr, divisor: int, *, even: bool) -> pl.Expr:
    half_up = decimals.divide_half_up(value, decimals.integer(divisor))
    if not even:
        return half_up
    tie = value.abs() % divisor * 2 == divisor
    odd = half_up % 2 != 0
    toward_zero = pl.when(value < 0).then(half_up + 1).otherwise(half_up - 1)
    return pl.when(tie & odd).then(toward_zero).otherwise(half_up)


def _round_fractional(call: Call, x: pl.Expr, scale: int, *, even: bool) -> pl.Expr:
    return _round_double(x.cast(pl.Float64), scale, even=even).cast(polars_type(call.type))


def round_half_up_double(x: pl.Expr, scale: int) -> pl.Expr:
    return _round_double(x, scale, even=False)


def _round_double(x: pl.Expr, scale: int, *, even: bool) -> pl.Expr:
    """Spark rounds the shortest decimal that prints the double: ``round(1.005, 2)`` is 1.01, though 1.005 is stored as less.

    That decimal is a tie exactly if the tie, divided out and rounded to a double, is the number itself.
    """
    size = x.abs()
    power = 10.0 ** abs(scale)
    steps = size * power if scale >= 0 else exact_division(size, power)
    down = steps.floor()
    tie = exact_division(down + 0.5, power) if scale >= 0 else (down + 0.5) * power
    up = (size > tie) | ((size == tie) & (down % 2 == 1)) if even else size >= tie
    rounded = down + up.cast(pl.Float64)
    value = exact_division(rounded, power) if scale >= 0 else rounded * power
    signed = pl.when(x < 0).then(value * -1.0).otherwise(value)
    # Nothing to round: not a number, or no digits as far right as the scale.
    settled = ~x.is_finite() | (steps >= _EXACT_DOUBLE)
    return pl.when(settled).then(x).otherwise(pl.when(signed == 0).then(pl.lit(0.0)).otherwise(signed))
