"""Single bits, and integers written in other bases."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.model import types as t
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import characters
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import argument, arity, constants, function, plain, takes
from tidegate.plan.expressions import Call

_WIDTH = {t.BYTE: 8, t.SHORT: 16, t.INTEGER: 32, t.LONG: 64}
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BASES = range(2, 37)


@plain("bit_count", "bitwisecount", supports=arity(1, also=takes(*t.INTEGRAL, t.BOOLEAN)))
def bit_count(value: pl.Expr) -> Built:
    """Of the number as 64 bits, so -1 has 64 whatever its type."""
    return value.cast(pl.Int64).bitwise_count_ones().cast(pl.Int32)


@function("getbit", "bit_get", "bitwiseget", supports=arity(2, also=takes(*t.INTEGRAL)))
def get_bit(call: Call, value: pl.Expr, position: pl.Expr) -> Built:
    outside = ~position.is_between(0, _WIDTH[call.args[0].type] - 1)  # type: ignore[index]
    bit = _shifted(value.cast(pl.Int64), pl.when(outside).then(0).otherwise(position), np.right_shift) & 1
    check = Check(outside & value.is_not_null(), "INVALID_PARAMETER_VALUE", always=True)
    return Checked(bit.cast(pl.Int8), (check,))


def _shifted(value: pl.Expr, distance: pl.Expr, operation: np.ufunc) -> pl.Expr:
    def run(pairs: pl.Series) -> pl.Series:
        x = pairs.struct.field("x").fill_null(0).to_numpy()
        return pl.Series(operation(x, pairs.struct.field("y").fill_null(0).to_numpy().astype(x.dtype)))

    moved = pl.struct(x=value, y=distance).map_batches(run, return_dtype=pl.Int64, is_elementwise=True)
    return pl.when(value.is_not_null() & distance.is_not_null()).then(moved)


@function("shiftrightunsigned", ">>>", supports=arity(2, also=takes(t.INTEGER, t.LONG)))
def shift_right_unsigned(call: Call, value: pl.Expr, distance: pl.Expr) -> Built:
    """Zeros come in from the left; Java takes only the low 5 or 6 bits of the distance."""
    dtype, mask = polars_type(call.type), 31 if call.type == t.INTEGER else 63
    unsigned, signed = (np.uint32, np.int32) if call.type == t.INTEGER else (np.uint64, np.int64)

    def run(pairs: pl.Series) -> pl.Series:
        x = pairs.struct.field("x").fill_null(0).to_numpy().astype(signed).view(unsigned)
        bits = (pairs.struct.field("y").fill_null(0).to_numpy() & mask).astype(unsigned)
        return pl.Series((x >> bits).view(signed), dtype=dtype)

    moved = pl.struct(x=value, y=distance).map_batches(run, return_dtype=dtype, is_elementwise=True)
    return pl.when(value.is_not_null() & distance.is_not_null()).then(moved)


@plain("bin", supports=arity(1, also=takes(t.LONG)))
def binary_digits(value: pl.Expr) -> Built:
    """Two's complement, without leading zeros."""

    def run(numbers: pl.Series) -> pl.Series:
        raw = np.ascontiguousarray(numbers.fill_null(0).to_numpy().astype(">i8")).view(np.uint8).reshape(-1, 8)
        digits = np.unpackbits(raw, axis=1) + np.uint8(ord("0"))
        return pl.Series(digits.view("S64").ravel().astype("U64"), dtype=pl.String)

    digits = value.map_batches(run, return_dtype=pl.String, is_elementwise=True).str.strip_chars_start("0")
    return pl.when(value == 0).then(pl.lit("0")).when(value.is_not_null()).then(digits)


def _conv_supported(call: Call) -> str | None:
    source, target = argument(call, 1), argument(call, 2)
    if not isinstance(source, int) or not isinstance(target, int):
        return "conv takes two bases"
    return None if source in _BASES and abs(target) in _BASES else "conv between these bases is not supported"


@function("conv", supports=arity(3, also=constants(1, 2, also=takes(t.STRING, arguments=(0,), also=_conv_supported))))
def conv(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """The digits up to the first that the base does not have; more than 64 bits are an error."""
    source, target = argument(call, 1), argument(call, 2)
    assert isinstance(source, int)
    assert isinstance(target, int)
    trimmed = text.str.strip_chars(" ")

    def run(column: pl.Series) -> pl.Series:
        return _converted(column, source, target)

    fields = {"text": pl.String(), "overflow": pl.Boolean()}
    both = trimmed.map_batches(run, return_dtype=pl.Struct(fields), is_elementwise=True)
    value = pl.when(trimmed.str.len_bytes() > 0).then(both.struct.field("text"))
    return Checked(value, (Check(both.struct.field("overflow"), "ARITHMETIC_OVERFLOW"),))


def _converted(column: pl.Series, source: int, target: int) -> pl.Series:
    """As unsigned 64-bit numbers; a minus sign makes the two's complement, or the sign if the target base is negative."""
    matrix = characters.matrix(column)
    negative = matrix[:, 0] == ord("-") if matrix.shape[1] else np.zeros(len(column), bool)
    values = np.zeros(len(column), np.uint64)
    overflow = np.zeros(len(column), bool)
    reading = np.ones(len(column), bool)
    digits = _digit_values(matrix)
    limit = np.uint64((2**64 - 1) // source)
    for place in range(matrix.shape[1]):
        digit = digits[:, place]
        sign = negative & (place == 0)
        reading &= sign | ((digit >= 0) & (digit < source))
        rows = reading & ~sign
        with np.errstate(over="ignore"):
            grown = values * np.uint64(source) + digit.clip(0).astype(np.uint64)
        overflow |= rows & ((values > limit) | ((values == limit) & (grown < digit.clip(0).astype(np.uint64))))
        values = np.where(rows, grown, values)
    return pl.DataFrame({"text": _written(values, negative, target), "overflow": overflow}).to_struct()


def _digit_values(matrix: characters.Codes) -> characters.Codes:
    """0…35 for digits and letters, -1 for anything else."""
    digits = np.where((matrix >= 48) & (matrix <= 57), matrix - 48, -1)
    digits = np.where((matrix >= 65) & (matrix <= 90), matrix - 55, digits)
    return np.where((matrix >= 97) & (matrix <= 122), matrix - 87, digits)


def _written(values: np.ndarray, negative: np.ndarray, target: int) -> pl.Series:
    base = np.uint64(abs(target))
    signed = values.view(np.int64)
    if target < 0:
        # The result carries the sign: of the text, or of the 64 bits.
        minus = negative | (signed < 0)
        values = np.where(~negative & (signed < 0), (-signed).view(np.uint64), values)
    else:
        with np.errstate(over="ignore"):
            values = np.where(negative & (signed >= 0), (-signed).view(np.uint64), values)
        values = np.where(negative & (signed < 0), np.uint64(2**64 - 1), values)
        minus = np.zeros(len(values), bool)
    alphabet = np.frombuffer(_DIGITS.encode(), np.uint8)
    columns = []
    rest = values.copy()
    while True:
        columns.append(alphabet[(rest % base).astype(np.int64)])
        rest = rest // base
        if not rest.any():
            break
    digits = np.ascontiguousarray(np.stack(columns[::-1], axis=1)).view(f"S{len(columns)}").ravel()
    text = pl.Series(digits.astype(f"U{len(columns)}"), dtype=pl.String).str.strip_chars_start("0")
    frame = pl.DataFrame({"text": text, "minus": minus})
    number = pl.when(pl.col("text") == "").then(pl.lit("0")).otherwise(pl.col("text"))
    return frame.select(pl.when("minus").then("-" + number).otherwise(number).alias("text")).to_series()
