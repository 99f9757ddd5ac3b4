"""String functions. Positions count from 1 and in characters, as in Spark; Polars counts bytes in places."""

from __future__ import annotations

from functools import reduce

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Array
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions.compiled import Built
from tidegate.operators.expressions.registry import argument, arity, constants, function, optional, plain, takes
from tidegate.plan.expressions import Call, Literal

_TEXT = takes(t.STRING)
_TEXT_FIRST = takes(t.STRING, arguments=(0,))
_BYTES_FIRST = takes(t.STRING, t.BINARY, arguments=(0,))
_MANY = 10_000


@plain("upper", "ucase", supports=_TEXT)
def upper(text: pl.Expr) -> Built:
    return text.str.to_uppercase()


@plain("lower", "lcase", supports=_TEXT)
def lower(text: pl.Expr) -> Built:
    return text.str.to_lowercase()


@function("trim", "stringtrim", "btrim", supports=constants(1, also=_TEXT))
def trim(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """Only blanks, unless other characters are named."""
    return text.str.strip_chars(_trimmed(call)) if _trimmed(call) else text


@function("ltrim", "stringtrimleft", supports=constants(1, also=_TEXT))
def ltrim(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    return text.str.strip_chars_start(_trimmed(call)) if _trimmed(call) else text


@function("rtrim", "stringtrimright", supports=constants(1, also=_TEXT))
def rtrim(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    return text.str.strip_chars_end(_trimmed(call)) if _trimmed(call) else text


def _trimmed(call: Call) -> str:
    return str(optional(call, 1, " "))


@function("length", "char_length", "character_length", "len", supports=takes(t.STRING, t.BINARY))
def length(call: Call, text: pl.Expr) -> Built:
    size = text.str.len_chars() if call.args[0].type == t.STRING else text.bin.size()
    return size.cast(pl.Int32)


@function("octet_length", "octetlength", supports=takes(t.STRING, t.BINARY))
def octet_length(call: Call, text: pl.Expr) -> Built:
    size = text.str.len_bytes() if call.args[0].type == t.STRING else text.bin.size()
    return size.cast(pl.Int32)


@function("bit_length", "bitlength", supports=takes(t.STRING, t.BINARY))
def bit_length(call: Call, text: pl.Expr) -> Built:
    size = text.str.len_bytes() if call.args[0].type == t.STRING else text.bin.size()
    return size.cast(pl.Int32) * 8


@function("substring", "substr", supports=arity(2, 3, also=_BYTES_FIRST))
def substring(call: Call, text: pl.Expr, start: pl.Expr, count: pl.Expr | None = None) -> Built:
    """Position 0 means 1; a negative one counts from the end, and what lies before the beginning is cut off."""
    if call.type == t.BINARY:
        return _bytes(text, start, count)
    match call.args[1]:
        case Literal(value=int(position)):
            offset = pl.lit(position - 1 if position > 0 else position, dtype=pl.Int64)
        case _:
            position = start.cast(pl.Int64)
            offset = pl.when(position > 0).then(position - 1).otherwise(position)
    return text.str.slice(offset) if count is None else _slice(text, offset, count)


def _bytes(raw: pl.Expr, start: pl.Expr, count: pl.Expr | None) -> pl.Expr:
    """The same of bytes; Polars has no slice of bytes that starts before their beginning."""
    size, position = raw.bin.size().cast(pl.Int64), start.cast(pl.Int64)
    begin = pl.when(position > 0).then(position - 1).when(position < 0).then(size + position).otherwise(0)
    end = size if count is None else begin + count.cast(pl.Int64)
    first = begin.clip(lower_bound=0)
    part = raw.bin.slice(first, (end - first).clip(lower_bound=0))
    present = start.is_not_null() if count is None else start.is_not_null() & count.is_not_null()
    return pl.when(present).then(part)


def _slice(text: pl.Expr, offset: pl.Expr, count: pl.Expr) -> pl.Expr:
    """For Polars no length means up to the end; for Spark a null length is null."""
    part = text.str.slice(offset, count.cast(pl.Int64).clip(lower_bound=0))
    return pl.when(count.is_not_null()).then(part).otherwise(None)


@plain("left", supports=_TEXT_FIRST)
def left(text: pl.Expr, count: pl.Expr) -> Built:
    return _slice(text, pl.lit(0, dtype=pl.Int64), count)


@plain("right", supports=_TEXT_FIRST)
def right(text: pl.Expr, count: pl.Expr) -> Built:
    size = count.cast(pl.Int64).clip(lower_bound=0)
    return pl.when(size == 0).then(pl.lit("")).otherwise(text.str.slice(-size, size)) + text.str.slice(0, 0)


@function("concat", supports=takes(t.STRING, t.BINARY, Array))
def concat(call: Call, *parts: pl.Expr) -> Built:
    """Null if any part is null."""
    if isinstance(call.type, Array):
        return pl.concat_list(parts)
    if call.type == t.BINARY:
        return reduce(lambda a, b: a + b, parts)
    return pl.concat_str(parts) if parts else pl.lit("")


@function("concat_ws", "concatws", supports=arity(1, _MANY, also=takes(t.STRING, Array)), null_skips=False)
def concat_ws(call: Call, separator: pl.Expr, *parts: pl.Expr) -> Built:
    """Skips nulls, in arrays too; null only if the separator is."""
    texts = Array(t.STRING)
    constant = call.args[0]
    if isinstance(constant, Literal) and constant.value is not None:
        if not parts:
            return pl.lit("")
        if all(arg.type == t.STRING for arg in call.args):
            return pl.concat_str(parts, separator=str(constant.value), ignore_nulls=True)
    if not parts:
        return pl.when(separator.is_not_null()).then(pl.lit(""))
    lists = [
        part.cast(polars_type(texts)).fill_null(pl.lit([], dtype=polars_type(texts)))
        if isinstance(arg.type, Array)
        else part.reshape((-1, 1)).arr.to_list()
        for arg, part in zip(call.args[1:], parts, strict=True)
    ]
    joined = pl.concat_list(lists).list.join(separator, ignore_nulls=True)
    return pl.when(separator.is_not_null()).then(joined)


@function("replace", "stringreplace", supports=constants(1, 2, also=_TEXT))
def replace(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    search = str(argument(call, 1))
    return text.str.replace_all(search, str(optional(call, 2, "")), literal=True) if search else text


@function("translate", "stringtranslate", supports=constants(1, 2, also=_TEXT))
def translate(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """Character by character; those without a partner vanish, the first of repeated ones counts."""
    matching, replacing = str(argument(call, 1)), str(argument(call, 2))
    table: dict[str, str] = {}
    for index, character in enumerate(matching):
        table.setdefault(character, replacing[index : index + 1])
    return text.str.replace_many(list(table), list(table.values())) if table else text


@function("lpad", "stringlpad", supports=constants(1, 2, also=_TEXT_FIRST))
def lpad(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    return pl.concat_str(_padding(call, text), text).str.slice(0, _width(call))


@function("rpad", "stringrpad", supports=constants(1, 2, also=_TEXT_FIRST))
def rpad(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    return pl.concat_str(text, _padding(call, text)).str.slice(0, _width(call))


def _width(call: Call) -> int:
    width = argument(call, 1)
    assert isinstance(width, int)
    return max(width, 0)


def _padding(call: Call, text: pl.Expr) -> pl.Expr:
    pad, width = str(optional(call, 2, " ")), _width(call)
    longest = (pad * (width // len(pad) + 1))[:width] if pad else ""
    room = (pl.lit(width, dtype=pl.Int64) - text.str.len_chars().cast(pl.Int64)).clip(lower_bound=0)
    return pl.lit(longest).str.slice(0, room)


@function("reverse", supports=takes(t.STRING, Array))
def reverse(call: Call, value: pl.Expr) -> Built:
    """By code points; Polars' own reverse keeps grapheme clusters together."""
    if isinstance(call.type, Array):
        return value.list.reverse()
    turned = value.str.split("").list.reverse().list.join("")
    return pl.when(value.is_not_null()).then(turned).otherwise(None)


@plain("repeat", "stringrepeat", supports=_TEXT_FIRST)
def repeat(text: pl.Expr, times: pl.Expr) -> Built:
    repeated = text.repeat_by(times.clip(lower_bound=0)).list.join("")
    return pl.when(text.is_not_null() & times.is_not_null()).then(repeated).otherwise(None)


@plain("initcap", supports=_TEXT)
def initcap(text: pl.Expr) -> Built:
    """Words are what stands between blanks."""
    word = pl.element()
    capital = word.str.slice(0, 1).str.to_titlecase() + word.str.slice(1).str.to_lowercase()
    return text.str.split(" ").list.eval(capital).list.join(" ")


@plain("ascii", supports=_TEXT)
def ascii_code(text: pl.Expr) -> Built:
    """Code point of the first character, 0 for the empty string: decoded from its UTF-8 bytes."""
    raw = text.cast(pl.Binary)

    def byte(index: int, mask: int = 0x3F) -> pl.Expr:
        return raw.bin.get(index, null_on_oob=True).cast(pl.Int32) & mask

    head = byte(0, 0xFF)
    return (
        pl.when(text.str.len_bytes() == 0)
        .then(pl.lit(0, dtype=pl.Int32))
        .when(head < 0x80)
        .then(head)
        .when(head < 0xE0)
        .then((head & 0x1F) * 64 + byte(1))
        .when(head < 0xF0)
        .then((head & 0x0F) * 4096 + byte(1) * 64 + byte(2))
        .otherwise((head & 0x07) * 262144 + byte(1) * 4096 + byte(2) * 64 + byte(3))
    )


@plain("space", "stringspace", supports=takes(t.INTEGER))
def space(count: pl.Expr) -> Built:
    return repeat(pl.lit(" "), count)
