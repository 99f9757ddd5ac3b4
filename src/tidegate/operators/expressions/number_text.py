"""Numbers as text, read and printed as Java does it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.types import Decimal
from tidegate.operators.expressions import decimals
from tidegate.operators.expressions.timestamp_text import BLANKS

_FLOAT = r"^(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?|[+-]?(?i:inf|infinity)|(?i:nan)|[+-]NaN)$"
_DECIMAL = r"^([+-]?)0*(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,9}))?$"
_POWERS = pl.Series([10**exponent for exponent in range(decimals.DIGITS_MAX + 1)], dtype=pl.Int128)


def parse_integer(text: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Null for anything but an optional sign and digits that fit."""
    return text.str.strip_chars(BLANKS).cast(dtype, strict=False)


def parse_float(text: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Java's literals (``1.5e3``, ``1d``, ``Infinity``) and Spark's extra ones (``inf``, ``NaN`` in any case)."""
    trimmed = text.str.strip_chars(BLANKS)
    legal = pl.when(trimmed.str.contains(_FLOAT)).then(trimmed).otherwise(None)
    return legal.str.replace(r"([0-9.])[dDfF]$", "${1}").cast(dtype, strict=False)


@dataclass(frozen=True, slots=True)
class ParsedDecimal:
    value: pl.Expr
    """Rounded HALF_UP to the scale; null where the text is no number or does not fit."""
    is_number: pl.Expr
    whole_digits: pl.Expr
    """Digits left of the point."""


def parse_decimal(text: pl.Expr, to: Decimal) -> ParsedDecimal:
    """Decimal literals of Java's BigDecimal, exponents included."""
    trimmed = text.str.strip_chars(BLANKS)
    groups = trimmed.str.extract_groups(_DECIMAL)
    whole, fraction = groups.struct.field("2").fill_null(""), groups.struct.field("3").fill_null("")
    is_number = trimmed.str.contains(r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?$")
    exponent = groups.struct.field("4").cast(pl.Int64, strict=False).fill_null(0)
    # Digits past the 38th cannot change a result of at most 38 digits that is rounded half up.
    room = (decimals.DIGITS_MAX - whole.str.len_chars().cast(pl.Int64)).clip(lower_bound=0)
    fraction = fraction.str.slice(0, room)
    digits = pl.concat_str(pl.lit("0"), whole, fraction).cast(pl.Int128, strict=False)
    shift = exponent - fraction.str.len_chars().cast(pl.Int64) + to.scale
    up, down = shift.clip(0, decimals.DIGITS_MAX), (-shift).clip(0, decimals.DIGITS_MAX)
    too_large = (digits != 0) & (
        (shift > decimals.DIGITS_MAX) | (digits >= pl.lit(_POWERS).gather(decimals.DIGITS_MAX - up))
    )
    grown = digits * pl.lit(_POWERS).gather(up)
    shrunk = decimals.divide_half_up(digits, pl.lit(_POWERS).gather(down))
    size = (
        pl.when(too_large)
        .then(None)
        .when(shift >= 0)
        .then(grown)
        .when(shift < -decimals.DIGITS_MAX)
        .then(decimals.integer(0))
        .otherwise(shrunk)
    )
    negative = groups.struct.field("1") == "-"
    value = pl.when(negative).then(decimals.integer(0) - size).otherwise(size)
    fitting = decimals.scaled(pl.when(is_number).then(value).otherwise(None), to)
    whole_digits = pl.when(digits == 0).then(0).otherwise(whole.str.len_chars().cast(pl.Int64) + exponent)
    return ParsedDecimal(fitting, is_number, whole_digits)


def print_float(value: pl.Expr) -> pl.Expr:
    """``Double.toString``: plain from 0.001 up to 10,000,000, otherwise ``d.dddE±n``; the shortest digits that read back.

    Java before 19 prints a digit too many for a few numbers; we print what Java 19 and later do.
    """
    size = value.abs()
    text = size.cast(pl.String)
    plain = ((size >= 1e-3) & (size < 1e7)) | (size == 0)
    parts = text.str.extract_groups(r"^(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$")
    whole, fraction = parts.struct.field("1"), parts.struct.field("2").fill_null("0")
    exponent = parts.struct.field("3").cast(pl.Int32, strict=False)
    from_exponent = pl.format("{}.{}E{}", whole, fraction, exponent)
    tail = pl.concat_str(whole.str.slice(1), fraction).str.strip_chars_end("0")
    large = pl.format("{}.{}E{}", whole.str.slice(0, 1), _or_zero(tail), whole.str.len_chars().cast(pl.Int32) - 1)
    significant = fraction.str.strip_chars_start("0")
    zeros = fraction.str.len_chars().cast(pl.Int32) - significant.str.len_chars().cast(pl.Int32) + 1
    small = pl.format("{}.{}E-{}", significant.str.slice(0, 1), _or_zero(significant.str.slice(1)), zeros)
    unsigned = (
        pl.when(plain)
        .then(text)
        .when(size.is_infinite())
        .then(pl.lit("Infinity"))
        .when(size == 5e-324)
        .then(pl.lit("4.9E-324"))
        .when(exponent.is_not_null())
        .then(from_exponent)
        .when(size >= 1)
        .then(large)
        .otherwise(small)
    )
    sign = pl.when((value < 0) | ((value == 0) & (1 / value < 0))).then(pl.lit("-")).otherwise(pl.lit(""))
    printed = pl.when(value.is_nan()).then(pl.lit("NaN")).otherwise(sign + unsigned)
    return pl.when(value.is_not_null()).then(printed).otherwise(None)


def print_decimal(value: pl.Expr, scale: int) -> pl.Expr:
    """``BigDecimal.toString``: with an exponent where more than five zeros would follow the point."""
    plain = value.cast(pl.String)
    if scale <= 6:
        return plain
    size = decimals.unscaled(value).abs().cast(pl.String)
    exponent = size.str.len_chars().cast(pl.Int32) - 1 - scale
    rest = size.str.slice(1)
    mantissa = size.str.slice(0, 1) + pl.when(rest == "").then(pl.lit("")).otherwise("." + rest)
    sign = pl.when(decimals.unscaled(value) < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    scientific = pl.concat_str(sign, mantissa, pl.lit("E"), exponent.cast(pl.String))
    return pl.when(exponent < -6).then(scientific).otherwise(plain)


def _or_zero(digits: pl.Expr) -> pl.Expr:
    return pl.when(digits == "").then(pl.lit("0")).otherwise(digits)
