"""Decimal arithmetic on unscaled 128-bit integers, with Spark's result types, HALF_UP rounding and overflow.

The result type stands on the node, so each operation knows whether its intermediate values fit 128 bits. Where they may
not (38-digit operands), the same arithmetic runs on Python's integers: exact, slower, and rare.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tidegate.model.types import Decimal
from tidegate.operators.expressions.compiled import Built, Check, Checked

DIGITS_MAX = 38
OUT_OF_RANGE = "NUMERIC_VALUE_OUT_OF_RANGE"
_DIVISION_SCALE = DIGITS_MAX + 1
"""Spark divides to 39 decimal places before it rounds to the result's scale."""


def unscaled(value: pl.Expr) -> pl.Expr:
    return value.to_physical()


def integer(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int128)


def scaled(value: pl.Expr, to: Decimal) -> pl.Expr:
    """Unscaled integers as decimals; those that do not fit become null, never wrong."""
    limit = 10**to.precision
    fits = (value > -limit) & (value < limit)
    return pl.when(fits).then(value).otherwise(None).reinterpret(dtype=pl.Decimal(to.precision, to.scale))


def divide_half_up(value: pl.Expr, divisor: pl.Expr) -> pl.Expr:
    """Nearest integer of ``value / divisor``, ties away from zero. Null where the divisor is 0."""
    size = divisor.abs()
    quotient = (value.abs() + size // 2) // size
    return pl.when((value < 0) == (divisor < 0)).then(quotient).otherwise(integer(0) - quotient)


def rescale(value: pl.Expr, scale: int, to_scale: int) -> pl.Expr:
    if to_scale >= scale:
        return value * 10 ** (to_scale - scale) if to_scale > scale else value
    return divide_half_up(value, integer(10 ** (scale - to_scale)))


def fitted(value: pl.Expr, digits: int, scale: int, to: Decimal, *inputs: pl.Expr) -> Built:
    """Unscaled ``value`` of at most ``digits`` digits rounded to ``to``; an error where it does not fit.

    Spark chooses result types so that most operations always fit: those pay no check.
    """
    rounds = to.scale < scale
    result = rescale(value, scale, to.scale)
    if digits - scale + to.scale + rounds <= to.precision:
        return result.reinterpret(dtype=pl.Decimal(to.precision, to.scale))
    return _checked(scaled(result, to), inputs)


def _checked(result: pl.Expr, inputs: tuple[pl.Expr, ...]) -> Checked:
    present = inputs[0].is_not_null()
    for one in inputs[1:]:
        present = present & one.is_not_null()
    return Checked(result, (Check(present & result.is_null(), OUT_OF_RANGE),))


def add(left: pl.Expr, right: pl.Expr, a: Decimal, b: Decimal, to: Decimal, *, sign: int = 1) -> Built:
    scale = max(a.scale, b.scale)
    digits = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    if digits <= DIGITS_MAX:
        x, y = rescale(unscaled(left), a.scale, scale), rescale(unscaled(right), b.scale, scale)
        return fitted(x + y if sign > 0 else x - y, digits, scale, to, left, right)
    up, across = 10 ** (scale - a.scale), sign * 10 ** (scale - b.scale)
    return _wide(lambda x, y: x * up + y * across, scale, left, right, to)


def multiply(left: pl.Expr, right: pl.Expr, a: Decimal, b: Decimal, to: Decimal) -> Built:
    scale = a.scale + b.scale
    if a.precision + b.precision <= DIGITS_MAX:
        return fitted(unscaled(left) * unscaled(right), a.precision + b.precision, scale, to, left, right)
    return _wide(lambda x, y: x * y, scale, left, right, to)


def divide(left: pl.Expr, right: pl.Expr, a: Decimal, b: Decimal, to: Decimal) -> Checked:
    """Null where the divisor is 0: the caller checks that."""
    shift = to.scale - a.scale + b.scale
    # A divisor this short keeps every quotient further from a tie than the 39th decimal place: one rounding is enough.
    if shift >= 0 and a.precision + shift <= DIGITS_MAX - 1 and b.precision + to.scale <= DIGITS_MAX:
        rounded = divide_half_up(unscaled(left) * 10**shift, unscaled(right))
        if a.precision + shift <= to.precision:
            return Checked(rounded.reinterpret(dtype=pl.Decimal(to.precision, to.scale)), ())
        return _checked_division(scaled(rounded, to), left, right)
    widen = 10 ** (_DIVISION_SCALE - a.scale + b.scale)
    wide = _wide(lambda x, y: _half_up(x * widen, y) if y else None, _DIVISION_SCALE, left, right, to)
    return _checked_division(wide.value, left, right)


def _checked_division(result: pl.Expr, left: pl.Expr, right: pl.Expr) -> Checked:
    overflow = left.is_not_null() & (unscaled(right) != 0) & result.is_null()
    return Checked(result, (Check(overflow, OUT_OF_RANGE),))


def remainder(left: pl.Expr, right: pl.Expr, a: Decimal, b: Decimal, to: Decimal, *, positive: bool = False) -> Checked:
    """Java's remainder (sign of the dividend), or Spark's ``pmod``. Null where the divisor is 0."""
    scale = max(a.scale, b.scale)
    up, across = 10 ** (scale - a.scale), 10 ** (scale - b.scale)

    def on_integers(x: int, y: int) -> int | None:
        if y == 0:
            return None
        x, y = x * up, y * across
        rest = _truncated_remainder(x, y)
        return _truncated_remainder(rest + y, y) if positive and rest < 0 else rest

    if max(a.precision - a.scale, b.precision - b.scale) + scale + 1 > DIGITS_MAX:
        return _checked_division(_wide(on_integers, scale, left, right, to).value, left, right)
    x, y = rescale(unscaled(left), a.scale, scale), rescale(unscaled(right), b.scale, scale)
    rest = java_remainder(x, y)
    if positive:
        rest = pl.when(rest < 0).then(java_remainder(rest + y, y)).otherwise(rest)
    return _checked_division(scaled(rescale(rest, scale, to.scale), to), left, right)


def quotient(left: pl.Expr, right: pl.Expr, a: Decimal, b: Decimal) -> pl.Expr | None:
    """Truncated ``left div right`` as Int128, or None where 128 bits may not be enough."""
    scale = max(a.scale, b.scale)
    if max(a.precision - a.scale, b.precision - b.scale) + scale + 1 > DIGITS_MAX:
        return None
    return java_quotient(rescale(unscaled(left), a.scale, scale), rescale(unscaled(right), b.scale, scale))


def java_quotient(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Integer division that truncates toward zero, as Java's does; Polars' rounds down. Null where the divisor is 0."""
    down = left // right
    return pl.when((left % right != 0) & ((left < 0) != (right < 0))).then(down + 1).otherwise(down)


def java_remainder(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Remainder with the sign of the dividend; Polars' has the sign of the divisor."""
    modulo = left % right
    return pl.when((modulo != 0) & ((modulo < 0) != (left < 0))).then(modulo - right).otherwise(modulo)


def _half_up(value: int, divisor: int) -> int:
    size = (abs(value) + abs(divisor) // 2) // abs(divisor)
    return size if (value < 0) == (divisor < 0) else -size


def _truncated_remainder(value: int, divisor: int) -> int:
    rest = abs(value) % abs(divisor)
    return -rest if value < 0 else rest


def _wide(
    operation: Callable[[int, int], int | None], scale: int, left: pl.Expr, right: pl.Expr, to: Decimal
) -> Checked:
    """``operation`` on unscaled Python integers, rounded from ``scale`` to ``to``; null where it does not fit."""
    dtype = pl.Decimal(to.precision, to.scale)
    limit, up, down = 10**to.precision, 10 ** max(0, to.scale - scale), 10 ** max(0, scale - to.scale)

    def fit(x: int | None, y: int | None) -> int | None:
        exact = None if x is None or y is None else operation(x, y)
        if exact is None:
            return None
        rounded = _half_up(exact * up, down)
        return rounded if -limit < rounded < limit else None

    def run(pairs: pl.Series) -> pl.Series:
        xs, ys = pairs.struct.field("left").to_list(), pairs.struct.field("right").to_list()
        values = [fit(x, y) for x, y in zip(xs, ys, strict=True)]
        return pl.Series(values, dtype=pl.Int128).to_frame("v").select(pl.col("v").reinterpret(dtype=dtype)).to_series()

    pairs = pl.struct(left=unscaled(left), right=unscaled(right))
    return _checked(pairs.map_batches(run, return_dtype=dtype, is_elementwise=True), (left, right))
