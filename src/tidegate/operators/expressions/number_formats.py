"""Numbers and other values printed by a format: ``format_number`` and ``format_string``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.model import types as t
from tidegate.model.types import DataType, Decimal
from tidegate.operators.expressions import decimals, mathematics, number_text
from tidegate.operators.expressions.compiled import Built
from tidegate.operators.expressions.registry import argument, arity, constants, function, takes
from tidegate.plan.expressions import Call

_MANY = 10_000
_SPEC = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
_INTEGERS = (*t.INTEGRAL,)
_WHOLE_FROM = 2.0**53
"""Doubles from here on have no decimal places."""
_SHOWN = (t.STRING, t.BOOLEAN, *t.INTEGRAL, *t.FRACTIONAL)


def grouped(digits: pl.Expr) -> pl.Expr:
    """``1234567`` → ``1,234,567``."""
    return digits.str.reverse().str.replace_all(r"(\d{3})", "${1},").str.strip_chars_end(",").str.reverse()


def fixed(value: pl.Expr, places: int) -> pl.Expr:
    """Doubles with so many decimal places, rounded half to even by their exact value; without sign.

    Java knows the shortest digits that tell a double apart and fills up with zeros, where C would print its exact value.
    """

    def run(numbers: pl.Series) -> pl.Series:
        return pl.Series(np.char.mod(f"%.{places}f", numbers.fill_null(0.0).fill_nan(0.0).abs().to_numpy()))

    size = value.abs()
    parts = size.cast(pl.String).str.extract_groups(r"^(\d+)(?:\.(\d+))?(?:e\+?(\d+))?$")
    fraction = parts.struct.field("2").fill_null("").str.strip_chars_end("0")
    exponent = parts.struct.field("3").cast(pl.Int64, strict=False).fill_null(0)
    missing = (exponent - fraction.str.len_chars().cast(pl.Int64)).clip(lower_bound=0)
    zeros = pl.lit("0" * 310).str.slice(0, missing)
    large = pl.concat_str(parts.struct.field("1"), fraction, zeros, pl.lit("." + "0" * places if places else ""))
    usual = value.map_batches(run, return_dtype=pl.String, is_elementwise=True)
    if not places:
        return pl.when(size.is_finite() & (size >= _WHOLE_FROM)).then(large).otherwise(usual)
    filling = pl.lit("0" * places).str.slice(fraction.str.len_chars())
    short = pl.concat_str(parts.struct.field("1"), pl.lit("."), fraction, filling)
    is_short = (size < _WHOLE_FROM) & parts.struct.field("3").is_null() & (fraction.str.len_chars() <= places)
    return (
        pl.when(size.is_finite() & (size >= _WHOLE_FROM))
        .then(large)
        .when(is_short & parts.struct.field("1").is_not_null())
        .then(short)
        .otherwise(usual)
    )


# -- format_number ------------------------------------------------------------------------------------------------------


def _places(call: Call) -> str | None:
    return None if isinstance(argument(call, 1), int) else f"{call.function} with a pattern is not supported"


@function(
    "format_number",
    "formatnumber",
    supports=arity(2, also=constants(1, also=takes(*t.INTEGRAL, *t.FRACTIONAL, Decimal, arguments=(0,), also=_places))),
)
def format_number(call: Call, value: pl.Expr, _places: pl.Expr) -> Built:
    """``1,234.50``; null for a negative number of places."""
    places = argument(call, 1)
    assert isinstance(places, int)
    if places < 0:
        return pl.lit(None, dtype=pl.String)
    zeros = "." + "0" * places if places else ""
    match call.args[0].type:
        case t.FLOAT | t.DOUBLE:
            return _format_double(value.cast(pl.Float64), places)
        case Decimal() as of:
            return _format_decimal(value, of, places)
        case _:
            digits = value.cast(pl.String).str.strip_prefix("-")
            sign = pl.when(value < 0).then(pl.lit("-")).otherwise(pl.lit(""))
            return pl.concat_str(sign, grouped(digits), pl.lit(zeros))


def _signed(negative: pl.Expr, text: pl.Expr) -> pl.Expr:
    return pl.when(negative).then("-" + text).otherwise(text)


def _format_double(value: pl.Expr, places: int) -> pl.Expr:
    text = fixed(value, places)
    whole, fraction = text.str.slice(0, text.str.len_chars() - (places + 1 if places else 0)), text.str.tail(places + 1)
    shown = pl.concat_str(grouped(whole), fraction) if places else grouped(text)
    shown = pl.when(value.is_infinite()).then(pl.lit("∞")).otherwise(shown)
    negative = (value < 0) | ((value == 0) & (1 / value < 0))
    return pl.when(value.is_nan()).then(pl.lit("NaN")).when(value.is_not_null()).then(_signed(negative, shown))


def _format_decimal(value: pl.Expr, of: Decimal, places: int) -> pl.Expr:
    unscaled = decimals.unscaled(value)
    if places < of.scale:
        unscaled = mathematics.nearest(unscaled, 10 ** (of.scale - places), even=True)
    kept = min(places, of.scale)
    digits = unscaled.abs().cast(pl.String).str.zfill(kept + 1)
    whole = digits.str.slice(0, digits.str.len_chars() - kept)
    fraction = pl.concat_str(digits.str.slice(digits.str.len_chars() - kept), pl.lit("0" * (places - kept)))
    shown = pl.concat_str(grouped(whole), pl.lit("."), fraction) if places else grouped(whole)
    return _signed(decimals.unscaled(value) < 0, shown)


# -- format_string ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    """Text as it is, or a directive for one of the arguments."""

    text: str
    argument: int | None = None
    flags: str = ""
    width: int = 0
    precision: int | None = None
    kind: str = ""


def _pieces(pattern: str) -> list[_Piece] | str:
    """The parts of a Java format, or why it is not supported."""
    result: list[_Piece] = []
    at, ordinary = 0, 0
    while at < len(pattern):
        percent = pattern.find("%", at)
        if percent < 0:
            result.append(_Piece(pattern[at:]))
            break
        result.append(_Piece(pattern[at:percent]))
        found = _SPEC.match(pattern, percent)
        if found is None:
            return f"the format {pattern!r} is not supported"
        index, flags, width, precision, kind = found.groups()
        at = found.end()
        if kind in "%n":
            result.append(_Piece("%" if kind == "%" else "\n"))
            continue
        if kind not in "sdxXfcb" or set(flags) - set("-0,+"):
            return f"the directive {found[0]!r} of a format is not supported"
        ordinary += index is None
        chosen = int(index) if index else ordinary
        places = None if precision is None else int(precision)
        result.append(_Piece("", chosen, flags, int(width or 0), places, kind))
    return result


def _format_known(call: Call) -> str | None:
    pieces = _pieces(str(argument(call, 0)))
    if isinstance(pieces, str):
        return pieces
    for piece in pieces:
        if piece.argument is None:
            continue
        if piece.argument >= len(call.args):
            return f"{call.function} has no argument {piece.argument}"
        of = call.args[piece.argument].type
        kinds: dict[str, tuple[DataType, ...]] = {"d": _INTEGERS, "x": _INTEGERS, "X": _INTEGERS, "f": (t.DOUBLE, t.FLOAT),
                                                  "s": _SHOWN, "b": (t.BOOLEAN,), "c": ()}  # fmt: skip
        if of not in kinds[piece.kind] or (piece.kind in "xX" and of not in (t.INTEGER, t.LONG)):
            return f"{call.function} with %{piece.kind} for {t.simple_string(of)} is not supported"
        if piece.kind == "s" and (piece.precision is not None or set(piece.flags) - {"-"}):
            return f"{call.function} with such a %s is not supported"
    return None


@function(
    "format_string",
    "printf",
    "formatstring",
    supports=arity(1, _MANY, also=constants(0, also=_format_known)),
    null_skips=False,
)
def format_string(call: Call, _format: pl.Expr, *args: pl.Expr) -> Built:
    """Java's ``String.format`` for strings, numbers and booleans; nulls print as ``null``."""
    pieces = _pieces(str(argument(call, 0)))
    assert not isinstance(pieces, str)
    parts = [
        pl.lit(piece.text)
        if piece.argument is None
        else _directive(piece, args[piece.argument - 1], call.args[piece.argument].type)
        for piece in pieces
    ]
    return pl.concat_str(parts) if parts else pl.lit("")


def _directive(piece: _Piece, value: pl.Expr, of: DataType) -> pl.Expr:
    match piece.kind:
        case "s" | "b":
            text = number_text.print_float(value) if of in t.FRACTIONAL else _plain_text(value, of)
            return _padded(piece, text.fill_null("null" if piece.kind == "s" else "false"))
        case "x" | "X":
            unsigned = value.reinterpret(signed=False)
            text = _hex(unsigned)
            text = text.str.to_uppercase() if piece.kind == "X" else text
            return _filled(piece, pl.lit(""), text, value)
        case "f":
            places = 6 if piece.precision is None else piece.precision
            rounded = mathematics.round_half_up_double(value.cast(pl.Float64), places)
            text = fixed(rounded, places)
            whole = text.str.slice(0, text.str.len_chars() - (places + 1 if places else 0))
            shown = (
                pl.concat_str(grouped(whole), text.str.tail(places + 1) if places else pl.lit(""))
                if "," in piece.flags
                else text
            )
            negative = (value < 0) | ((value == 0) & (1 / value < 0))
            special = (
                pl.when(value.is_nan())
                .then(pl.lit("NaN"))
                .when(value.is_infinite())
                .then(_signed(value < 0, pl.lit("Infinity")))
            )
            usual = _filled(piece, _sign(piece, negative), shown, value)
            return pl.when(value.is_finite() | value.is_null()).then(usual).otherwise(_padded(piece, special))
        case _:
            digits = value.cast(pl.String).str.strip_prefix("-")
            return _filled(piece, _sign(piece, value < 0), grouped(digits) if "," in piece.flags else digits, value)


def _hex(unsigned: pl.Expr) -> pl.Expr:
    def run(numbers: pl.Series) -> pl.Series:
        return pl.Series(np.char.mod("%x", numbers.fill_null(0).to_numpy().astype(object)).astype(str))

    return unsigned.map_batches(run, return_dtype=pl.String, is_elementwise=True)


def _plain_text(value: pl.Expr, of: DataType) -> pl.Expr:
    if of == t.BOOLEAN:
        return pl.when(value).then(pl.lit("true")).when(~value).then(pl.lit("false"))
    return value.cast(pl.String)


def _sign(piece: _Piece, negative: pl.Expr) -> pl.Expr:
    return pl.when(negative).then(pl.lit("-")).otherwise(pl.lit("+" if "+" in piece.flags else ""))


def _filled(piece: _Piece, sign: pl.Expr, digits: pl.Expr, value: pl.Expr) -> pl.Expr:
    """Zeros go between the sign and the digits; null is padded with blanks."""
    if "0" in piece.flags and piece.width:
        room = pl.lit(piece.width, dtype=pl.Int64) - sign.str.len_chars().cast(pl.Int64)
        zeros = pl.lit("0" * piece.width).str.slice(
            0, (room - digits.str.len_chars().cast(pl.Int64)).clip(lower_bound=0)
        )
        digits = pl.concat_str(zeros, digits)
    nothing = "NULL" if piece.kind == "X" else "null"[: piece.precision]
    shown = pl.when(value.is_not_null()).then(pl.concat_str(sign, digits)).otherwise(pl.lit(nothing))
    return _padded(piece, shown)


def _padded(piece: _Piece, text: pl.Expr) -> pl.Expr:
    """Java counts a character outside of the first plane as two."""
    if not piece.width:
        return text
    size = text.str.len_chars().cast(pl.Int64) + text.str.count_matches(r"[\x{10000}-\x{10FFFF}]").cast(pl.Int64)
    blanks = pl.lit(" " * piece.width).str.slice(0, (piece.width - size).clip(lower_bound=0))
    return pl.concat_str(text, blanks) if "-" in piece.flags else pl.concat_str(blanks, text)
