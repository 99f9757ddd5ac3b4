"""Bytes and characters written as text: hex, base64, URLs, character sets."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.model import types as t
from tidegate.operators.expressions import utf8
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import argument, arity, constants, function, plain, takes
from tidegate.plan.expressions import Call

_TEXT = takes(t.STRING)
_CHARACTERS = pl.Series([chr(code) for code in range(256)], dtype=pl.String)
INVALID = "CONVERSION_INVALID_INPUT"
MALFORMED = "MALFORMED_CHARACTER_CODING"
UNMAPPABLE = {"US-ASCII": r"^[\x00-\x7F]*$", "ISO-8859-1": r"^[\x00-\u{FF}]*$"}
_CODECS = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16-be",
    "UTF-32": "utf-32-be",
}
_SAFE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-*_"
"""What a URL may hold as it is; a blank becomes a plus."""
_HEX = "0123456789ABCDEFabcdef"


@plain("chr", "char", supports=arity(1, also=takes(t.LONG)))
def character(code: pl.Expr) -> Built:
    """Only the low 8 bits count; nothing below zero."""
    known = pl.lit(_CHARACTERS).gather((code & 255).fill_null(0).cast(pl.UInt32))
    return pl.when(code < 0).then(pl.lit("")).when(code.is_not_null()).then(known)


@plain("unhex", supports=arity(1, also=_TEXT))
def unhex(text: pl.Expr) -> Built:
    """An odd first digit stands for itself."""
    even = pl.when(text.str.len_bytes() % 2 == 1).then("0" + text).otherwise(text)
    legal = even.str.contains(r"^[0-9a-fA-F]*$")
    raw = pl.when(legal).then(even).str.to_lowercase().str.decode("hex", strict=False)
    return Checked(raw, (Check(~legal, INVALID),))


@function("unbase64", supports=arity(1, also=_TEXT))
def unbase64(call: Call, text: pl.Expr) -> Built:
    """As mail programs read it: other characters are passed over, padding may be missing. ``to_binary`` is stricter."""
    legal = text.str.contains(r"^\s*(?:[A-Za-z0-9+/]\s*)*(?:=\s*){0,2}$")
    letters = text.str.replace_all(r"[^A-Za-z0-9+/=]", "")
    body = letters.str.replace(r"=.*$", "")
    rest = body.str.len_bytes() % 4
    # Filled up with zero bits, decoded, and cut to the bytes that were there: the last letter may carry bits to spare.
    filling = pl.when(rest == 2).then(pl.lit("AA")).when(rest == 3).then(pl.lit("A")).otherwise(pl.lit(""))
    broken = (rest == 1) | letters.str.contains(r"=[A-Za-z0-9+/]")
    raw = pl.when(~broken).then(body + filling).str.decode("base64", strict=False)
    value = raw.bin.slice(0, body.str.len_bytes().cast(pl.Int64) * 3 // 4)
    strict = (Check(~legal, INVALID, always=True),) if call.ansi else ()
    return Checked(value, (*strict, Check(broken, INVALID, always=True)))


# -- URLs ---------------------------------------------------------------------------------------------------------------


@plain("url_encode", supports=arity(1, also=_TEXT))
def url_encode(text: pl.Expr) -> Built:
    """Every byte as ``%XX``, then those that may stay as themselves again."""
    escaped = text.str.encode("hex").str.to_uppercase().str.replace_all("(..)", "%${1}")
    plain_ones = {f"%{ord(one):02X}": one for one in _SAFE} | {"%20": "+"}
    return escaped.str.replace_many(list(plain_ones), list(plain_ones.values()))


def _escapes() -> dict[str, str]:
    """``%41`` written byte by byte in hex (``%25%34%31``), and the byte it stands for (``%41``)."""
    pairs = ((high, low) for high in _HEX for low in _HEX)
    known = {f"%25%{ord(h):02X}%{ord(n):02X}": f"%{h}{n}".upper() for h, n in pairs}
    return known | {"%2B": "%20"}


@function("url_decode", supports=arity(1, 2, also=takes(t.STRING, arguments=(0,))))
def url_decode(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """The second argument says whether a broken escape is an error or null."""
    strict = len(call.args) < 2 or bool(argument(call, 1))
    legal = text.str.contains(r"^(?:[^%]|%[0-9A-Fa-f]{2})*$")
    bytewise = text.str.encode("hex").str.to_uppercase().str.replace_all("(..)", "%${1}")
    table = _escapes()
    decoded = bytewise.str.replace_many(list(table), list(table.values())).str.replace_all("%", "", literal=True)
    raw = pl.when(legal).then(decoded).str.to_lowercase().str.decode("hex", strict=False)
    value = utf8.text_of(raw)
    broken = utf8.malformed(raw, value, "UNSUPPORTED_TEXT_ENCODING", always=True)
    if strict:
        return Checked(value, (Check(~legal, "CANNOT_DECODE_URL", always=True), broken))
    return Checked(value, (broken,))


# -- character sets -----------------------------------------------------------------------------------------------------


def _charset(call: Call) -> str:
    return str(argument(call, 1)).upper()


def _known_charset(call: Call) -> str | None:
    if _charset(call) not in _CODECS:
        return f"{call.function} with the character set {argument(call, 1)!r} is not supported"
    if any(argument(call, index) for index in (2, 3) if index < len(call.args)):
        return f"{call.function} with the rules of older versions is not supported"
    return None


@function(
    "encode", supports=arity(2, 4, also=constants(1, 2, 3, also=takes(t.STRING, arguments=(0, 1), also=_known_charset)))
)
def encode(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    charset = _charset(call)
    if charset == "UTF-8":
        return text.cast(pl.Binary)
    raw = text.map_batches(lambda column: _encoded(column, charset), return_dtype=pl.Binary, is_elementwise=True)
    value = pl.when(text.is_not_null()).then(raw)
    if charset not in UNMAPPABLE:
        return value
    return Checked(value, (Check(~text.str.contains(UNMAPPABLE[charset]), MALFORMED, always=True),))


def _encoded(column: pl.Series, charset: str) -> pl.Series:
    """All texts in one go; code points know how many bytes they take."""
    texts = column.fill_null("")
    joined = "".join(texts)
    points = np.frombuffer(joined.encode("utf-32-le"), np.uint32)
    match charset:
        case "US-ASCII" | "ISO-8859-1":
            widths = np.ones(len(points), np.int64)
        case "UTF-32":
            widths = np.full(len(points), 4, np.int64)
        case _:
            widths = np.where(points >= 0x10000, 4, 2)
    counts = texts.str.len_chars().to_numpy().astype(np.int64)
    ends = np.concatenate(([0], np.cumsum(widths)))[np.concatenate(([0], np.cumsum(counts)))]
    raw = joined.encode(_CODECS[charset], errors="replace")
    array = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(counts), [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(raw)]
    )
    result = pl.from_arrow(array)
    assert isinstance(result, pl.Series)
    if charset != "UTF-16":
        return result
    mark = pl.when(pl.col("x").bin.size() > 0).then(pl.lit(b"\xfe\xff") + pl.col("x")).otherwise(pl.col("x"))
    return result.to_frame("x").select(mark).to_series()


def _decodable(call: Call) -> str | None:
    if (reason := _known_charset(call)) is not None:
        return reason
    known = ("UTF-8", "US-ASCII", "ISO-8859-1")
    return None if _charset(call) in known else f"decode from {_charset(call)} is not supported"


@function(
    "decode", supports=arity(2, 4, also=constants(1, 2, 3, also=takes(t.BINARY, arguments=(0,), also=_decodable)))
)
def decode(call: Call, raw: pl.Expr, *_: pl.Expr) -> Built:
    charset = _charset(call)
    if charset == "ISO-8859-1":
        # A byte is a code point: as hex, each pair becomes its character.
        pairs = {f"%{code:02x}": chr(code) for code in range(256)}
        escaped = raw.bin.encode("hex").str.replace_all("(..)", "%${1}")
        return escaped.str.replace_many(list(pairs), list(pairs.values()))
    text = utf8.text_of(raw)
    if charset == "US-ASCII":
        text = pl.when(text.str.contains(UNMAPPABLE[charset])).then(text)
    return Checked(text, (utf8.malformed(raw, text, MALFORMED, always=True),))


# -- UTF-8 --------------------------------------------------------------------------------------------------------------


@plain("is_valid_utf8", "isvalid", supports=arity(1, also=_TEXT))
def is_valid_utf8(text: pl.Expr) -> Built:
    """Strings of a stream are always valid: what is not is refused where bytes become text."""
    return pl.when(text.is_not_null()).then(pl.lit(True))


@plain("make_valid_utf8", "makevalid", "validate_utf8", "validateutf8string", "try_validate_utf8", "tryvalidateutf8string",
       supports=arity(1, also=_TEXT))  # fmt: skip
def valid_utf8(text: pl.Expr) -> Built:
    return text
