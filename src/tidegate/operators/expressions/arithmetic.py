"""``+ - * / % div pmod`` and bit operations, with Java's integer rules and Spark's ANSI errors."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.model import types as t
from tidegate.model.types import DataType, Decimal
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import decimals
from tidegate.operators.expressions.bounds import bounds, exact, type_bounds
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.decimals import java_quotient, java_remainder
from tidegate.operators.expressions.registry import Supports, arity, function, plain, takes
from tidegate.plan.expressions import Call, Expression, Literal

OVERFLOW = "ARITHMETIC_OVERFLOW"
NUMERIC = (*t.INTEGRAL, *t.FRACTIONAL, Decimal)


def _operands(*extra: DataType | type, count: int = 2) -> Supports:
    return arity(count, also=takes(*NUMERIC, *extra))


def _decimal_types(call: Call) -> tuple[Decimal, Decimal]:
    left, right = (arg.type for arg in call.args)
    assert isinstance(left, Decimal)
    assert isinstance(right, Decimal)
    return left, right


@function("add", "try_add", "+", supports=_operands(t.DAY_TIME_INTERVAL, t.YEAR_MONTH_INTERVAL))
def add(call: Call, left: pl.Expr, right: pl.Expr) -> Built:
    if isinstance(call.type, Decimal):
        return decimals.add(left, right, *_decimal_types(call), call.type)
    return left + right if call.type in t.FRACTIONAL else _checked_integral("add", call, left, right)


@function("subtract", "try_subtract", "-", supports=_operands(t.DAY_TIME_INTERVAL, t.YEAR_MONTH_INTERVAL))
def subtract(call: Call, left: pl.Expr, right: pl.Expr) -> Built:
    if isinstance(call.type, Decimal):
        return decimals.add(left, right, *_decimal_types(call), call.type, sign=-1)
    return left - right if call.type in t.FRACTIONAL else _checked_integral("subtract", call, left, right)


@function("multiply", "try_multiply", "*", supports=_operands())
def multiply(call: Call, left: pl.Expr, right: pl.Expr) -> Built:
    if isinstance(call.type, Decimal):
        return decimals.multiply(left, right, *_decimal_types(call), call.type)
    return left * right if call.type in t.FRACTIONAL else _checked_integral("multiply", call, left, right)


def _checked_integral(operation: str, call: Call, left: pl.Expr, right: pl.Expr) -> Built:
    """Wrapping arithmetic, and a check unless the bounds of the operands make overflow impossible."""
    whole, (a, b) = type_bounds(call.type), (bounds(arg) for arg in call.args)
    interval = call.type == t.DAY_TIME_INTERVAL
    x, y = (left.to_physical(), right.to_physical()) if interval else (left, right)
    value = {"add": lambda: x + y, "subtract": lambda: x - y, "multiply": lambda: x * y}[operation]()
    result = value.cast(polars_type(call.type)) if interval else value
    if exact(operation, a, b).within(whole):
        return result
    if (single := _overflow_beside_constant(operation, call.args, x, y)) is not None:
        overflow = single
    elif call.type in (t.LONG, t.DAY_TIME_INTERVAL):
        match operation:
            case "add":
                overflow = ((x ^ value) & (y ^ value)) < 0
            case "subtract":
                overflow = ((x ^ y) & (x ^ value)) < 0
            case _:
                overflow = x.cast(pl.Int128) * y.cast(pl.Int128) != value.cast(pl.Int128)
    else:
        wide_x, wide_y = x.cast(pl.Int64), y.cast(pl.Int64)
        wide = {"add": wide_x + wide_y, "subtract": wide_x - wide_y, "multiply": wide_x * wide_y}[operation]
        overflow = wide != value.cast(pl.Int64)
    error = f"BINARY_{OVERFLOW}" if call.type in (t.BYTE, t.SHORT) else OVERFLOW
    return Checked(result, (Check(overflow, error),))


def _overflow_beside_constant(operation: str, args: tuple[Expression, ...], x: pl.Expr, y: pl.Expr) -> pl.Expr | None:
    """With one constant operand overflow is one comparison of the other."""
    low, high = type_bounds(args[0].type)
    match operation, args:
        case "add", (_, Literal(value=int(k))):
            return x > high - k if k > 0 else x < low - k
        case "add", (Literal(value=int(k)), _):
            return y > high - k if k > 0 else y < low - k
        case "subtract", (_, Literal(value=int(k))):
            return x < low + k if k > 0 else x > high + k
        case ("multiply", (_, Literal(value=int(k)))) | ("multiply", (Literal(value=int(k)), _)) if k not in (0, -1):
            other = x if isinstance(args[1], Literal) else y
            least, most = sorted((-(-low // k) if k > 0 else low // k, high // k if k > 0 else -(-high // k)))
            return ~other.is_between(least, most)
        case _:
            return None


@function("divide", "try_divide", "/", supports=arity(2, also=takes(t.DOUBLE, Decimal)), right_first=True)
def divide(call: Call, left: pl.Expr, right: pl.Expr) -> Built:
    zero = (_zero(call, right) & left.is_not_null(), "DIVIDE_BY_ZERO")
    if isinstance(call.type, Decimal):
        checked = decimals.divide(left, right, *_decimal_types(call), call.type)
        return Checked(checked.value, (Check(*zero), *checked.checks))
    divisor = call.args[1]
    if isinstance(divisor, Literal) and isinstance(divisor.value, float):
        quotient = exact_division(left, divisor.value)
        return quotient if divisor.value != 0 else Checked(quotient, (Check(*zero),))
    return Checked(left / right, (Check(*zero),))


def exact_division(value: pl.Expr, by: float) -> pl.Expr:
    """Polars divides by a constant by multiplying with its inverse, which may be off by one bit: give it a column instead.

    A choice between two equal constants is folded into one again; a sum with a column is not. Null rows stay null.
    """
    return value / (value.is_null().cast(pl.Float64) + by)


def _zero(call: Call, divisor: pl.Expr) -> pl.Expr:
    return decimals.unscaled(divisor) == 0 if isinstance(call.args[1].type, Decimal) else divisor == 0


def _div_supported(call: Call) -> str | None:
    left, right = (arg.type for arg in call.args)
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        if max(left.precision - left.scale, right.precision - right.scale) + max(left.scale, right.scale) + 1 > 38:
            return "div of decimals that need more than 38 digits together is not supported"
        return None
    return None if left in t.INTEGRAL and right in t.INTEGRAL else "div is not supported for these types"


@function("div", "integraldivide", supports=arity(2, also=_div_supported), right_first=True)
def integral_divide(call: Call, left: pl.Expr, right: pl.Expr) -> Built:
    zero = Check(_zero(call, right) & left.is_not_null(), "DIVIDE_BY_ZERO")
    if isinstance(call.args[0].type, Decimal):
        wide = decimals.quotient(left, right, *_decimal_types(call))
        assert wide is not None
        low, high = type_bounds(t.LONG)
        value = wide.cast(pl.Int64, strict=False)
        return Checked(value, (zero, Check(~wide.is_between(low, high), OVERFLOW)))
    value = java_quotient(left, right).cast(pl.Int64)
    overflow = (left == type_bounds(call.args[0].type).low) & (right == -1)
    return Checked(value, (zero, Check(overflow, OVERFLOW)) if call.args[0].type == t.LONG else (zero,))


@function("remainder", "mod", "try_mod", "%", supports=_operands(), right_first=True)
def remainder(call: Call, left: pl.Expr, right: pl.Expr) -> Built:
    return _modulo(call, left, right, positive=False)


@function("pmod", supports=_operands(), right_first=True)
def pmod(call: Call, left: pl.Expr, right: pl.Expr) -> Built:
    return _modulo(call, left, right, positive=True)


def _modulo(call: Call, left: pl.Expr, right: pl.Expr, *, positive: bool) -> Built:
    divisor = call.args[1]
    if (
        isinstance(divisor, Literal)
        and isinstance(divisor.value, int)
        and divisor.value > 0
        and call.type in t.INTEGRAL
    ):
        # The case of every time window: a positive constant divisor never fails, and Polars' modulo is pmod itself.
        modulo = left % right
        if positive or bounds(call.args[0]).low >= 0:
            return modulo
        return pl.when((left < 0) & (modulo != 0)).then(modulo - right).otherwise(modulo)
    zero = Check(_zero(call, right) & left.is_not_null(), "REMAINDER_BY_ZERO")
    if isinstance(call.type, Decimal):
        checked = decimals.remainder(left, right, *_decimal_types(call), call.type, positive=positive)
        return Checked(checked.value, (zero, *checked.checks))
    rest = _float_remainder if call.type in t.FRACTIONAL else java_remainder
    value = rest(left, right)
    if positive:
        # Java adds bytes and shorts as ints: no wrap-around there.
        wide = (lambda x: x.cast(pl.Int32)) if call.type in (t.BYTE, t.SHORT) else (lambda x: x)
        again = rest(wide(value) + wide(right), wide(right))
        value = pl.when(value < 0).then(again).otherwise(value).cast(polars_type(call.type))
    return Checked(value, (zero,))


def _float_remainder(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """C's ``fmod`` is Java's ``%``; Polars computes ``a - b * floor(a / b)``, which is neither exact nor of that sign."""

    def run(pairs: pl.Series) -> pl.Series:
        x, y = pairs.struct.field("x"), pairs.struct.field("y")
        with np.errstate(invalid="ignore"):
            return pl.Series(np.fmod(x.to_numpy(), y.to_numpy()), dtype=x.dtype)

    value = pl.struct(x=left, y=right).map_batches(run, is_elementwise=True)
    return pl.when(left.is_not_null() & right.is_not_null()).then(value).otherwise(None)


@function("negative", "unaryminus", supports=_operands(t.DAY_TIME_INTERVAL, t.YEAR_MONTH_INTERVAL, count=1))
def negative(call: Call, child: pl.Expr) -> Built:
    match call.type:
        case Decimal(precision, scale):
            return (decimals.integer(0) - decimals.unscaled(child)).reinterpret(dtype=pl.Decimal(precision, scale))
        case t.FLOAT | t.DOUBLE:
            return child * -1.0
        case t.DAY_TIME_INTERVAL:
            return Checked(-child, (Check(child.to_physical() == type_bounds(call.type).low, OVERFLOW),))
        case _:
            return Checked(-child, (Check(child == type_bounds(call.type).low, OVERFLOW),))


@function("abs", supports=_operands(t.DAY_TIME_INTERVAL, t.YEAR_MONTH_INTERVAL, count=1))
def absolute(call: Call, child: pl.Expr) -> Built:
    if isinstance(call.type, Decimal):
        return decimals.unscaled(child).abs().reinterpret(dtype=polars_type(call.type))
    if call.type in t.FRACTIONAL:
        return child.abs()
    if call.type == t.DAY_TIME_INTERVAL:
        child = child.to_physical()
    minimum = type_bounds(call.type).low
    return Checked(child.abs().cast(polars_type(call.type)), (Check(child == minimum, OVERFLOW),))


@plain(
    "positive",
    "unarypositive",
    "knownnullable",
    "knownnotnull",
    "knownfloatingpointnormalized",
    "promote_precision",
    "promoteprecision",
)
def unchanged(child: pl.Expr) -> Built:
    return child


@function("check_overflow", "checkoverflow", supports=takes(Decimal))
def check_overflow(call: Call, child: pl.Expr) -> Built:
    of = call.args[0].type
    assert isinstance(of, Decimal)
    assert isinstance(call.type, Decimal)
    return decimals.fitted(decimals.unscaled(child), of.precision, of.scale, call.type, child)


@plain("unscaledvalue", supports=takes(Decimal))
def unscaled_value(child: pl.Expr) -> Built:
    return decimals.unscaled(child).cast(pl.Int64, strict=False)


@function("makedecimal", supports=takes(t.LONG))
def make_decimal(call: Call, child: pl.Expr) -> Built:
    assert isinstance(call.type, Decimal)
    value = decimals.scaled(child.cast(pl.Int128), call.type)
    return Checked(value, (Check(value.is_null() & child.is_not_null(), decimals.OUT_OF_RANGE),))


# -- bits ---------------------------------------------------------------------------------------------------------------


@plain("bitwiseand", "&", supports=takes(*t.INTEGRAL))
def bitwise_and(left: pl.Expr, right: pl.Expr) -> Built:
    return left & right


@plain("bitwiseor", "|", supports=takes(*t.INTEGRAL))
def bitwise_or(left: pl.Expr, right: pl.Expr) -> Built:
    return left | right


@plain("bitwisexor", "^", supports=takes(*t.INTEGRAL))
def bitwise_xor(left: pl.Expr, right: pl.Expr) -> Built:
    return left ^ right


@plain("bitwisenot", "~", supports=takes(*t.INTEGRAL))
def bitwise_not(child: pl.Expr) -> Built:
    return ~child


@function("shiftleft", "<<", supports=takes(t.INTEGER, t.LONG))
def shift_left(call: Call, value: pl.Expr, bits: pl.Expr) -> Built:
    return _shift(call, value, bits, np.left_shift)


@function("shiftright", ">>", supports=takes(t.INTEGER, t.LONG))
def shift_right(call: Call, value: pl.Expr, bits: pl.Expr) -> Built:
    return _shift(call, value, bits, np.right_shift)


def _shift(call: Call, value: pl.Expr, bits: pl.Expr, operation: np.ufunc) -> Built:
    """Java takes only the low 5 or 6 bits of the distance."""
    mask = 31 if call.type == t.INTEGER else 63
    dtype = polars_type(call.type)

    def run(pairs: pl.Series) -> pl.Series:
        x = pairs.struct.field("x").fill_null(0).to_numpy()
        distance = pairs.struct.field("y").fill_null(0).to_numpy().astype(x.dtype) & mask
        return pl.Series(operation(x, distance), dtype=dtype)

    shifted = pl.struct(x=value, y=bits).map_batches(run, return_dtype=dtype, is_elementwise=True)
    return pl.when(value.is_not_null() & bits.is_not_null()).then(shifted).otherwise(None)
