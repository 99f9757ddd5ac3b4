"""String functions. Positions count from 1 and in characters, as in Spark; Polars counts bytes in places."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Array
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import argument, arity, constants, function, optional, plain, takes
from tidegate.plan.expressions import Call, Literal

_TEXT = takes(t.STRING)
_TEXT_FIRST = takes(t.STRING, arguments=(0,))
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


@function("substring", "substr", supports=arity(2, 3, also=_TEXT_FIRST))
def substring(call: Call, text: pl.Expr, start: pl.Expr, count: pl.Expr | None = None) -> Built:
    """Position 0 means 1; a negative one counts from the end, and what lies before the beginning is cut off."""
    match call.args[1]:
        case Literal(value=int(position)):
            offset = pl.lit(position - 1 if position > 0 else position, dtype=pl.Int64)
        case _:
            position = start.cast(pl.Int64)
            offset = pl.when(position > 0).then(position - 1).otherwise(position)
    return text.str.slice(offset) if count is None else _slice(text, offset, count)


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


@function("concat", supports=takes(t.STRING, Array))
def concat(call: Call, *parts: pl.Expr) -> Built:
    """Null if any part is null."""
    if isinstance(call.type, Array):
        return pl.concat_list(parts)
    return pl.concat_str(parts) if parts else pl.lit("")


@function("concat_ws", "concatws", supports=arity(1, _MANY, also=constants(0, also=takes(t.STRING))), null_skips=False)
def concat_ws(call: Call, _separator: pl.Expr, *parts: pl.Expr) -> Built:
    """Skips nulls."""
    if not parts:
        return pl.lit("")
    return pl.concat_str(parts, separator=str(argument(call, 0)), ignore_nulls=True)


@plain("contains", supports=_TEXT)
def contains(text: pl.Expr, part: pl.Expr) -> Built:
    return text.str.contains(part, literal=True)


@plain("startswith", supports=_TEXT)
def starts_with(text: pl.Expr, part: pl.Expr) -> Built:
    return text.str.starts_with(part)


@plain("endswith", supports=_TEXT)
def ends_with(text: pl.Expr, part: pl.Expr) -> Built:
    return text.str.ends_with(part)


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


@function("instr", "stringinstr", supports=constants(1, also=_TEXT))
def instr(call: Call, text: pl.Expr, _part: pl.Expr) -> Built:
    return _position(text, str(argument(call, 1)))


@function("locate", "stringlocate", "position", supports=constants(0, 2, also=_TEXT_FIRST))
def locate(call: Call, _part: pl.Expr, text: pl.Expr, _start: pl.Expr | None = None) -> Built:
    first = optional(call, 2, 1)
    assert isinstance(first, int)
    if first < 1:
        return pl.when(text.is_not_null()).then(pl.lit(0, dtype=pl.Int32)).otherwise(None)
    part = str(argument(call, 0))
    if not part:
        return _position(text, part)
    found = _position(text.str.slice(first - 1), part)
    beyond = text.str.len_chars() < first - 1
    zero = pl.lit(0, dtype=pl.Int32)
    return pl.when(beyond | (found == 0)).then(pl.when(text.is_not_null()).then(zero)).otherwise(found + (first - 1))


def _position(text: pl.Expr, part: str) -> pl.Expr:
    """1-based character position of ``part``, 0 if it is not there."""
    if not part:
        return pl.when(text.is_not_null()).then(pl.lit(1, dtype=pl.Int32)).otherwise(None)
    before = text.str.splitn(part, 2).struct.field("field_0").str.len_chars().cast(pl.Int32)
    return pl.when(text.str.contains(part, literal=True)).then(before + 1).otherwise(before * 0)


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


@function("split_part", supports=arity(3, also=constants(1, 2, also=takes(t.STRING, arguments=(0, 1)))))
def split_part(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """Counts from 1, or from the end; parts that are not there are empty."""
    separator, part = str(argument(call, 1)), argument(call, 2)
    assert isinstance(part, int)
    nothing = text.str.slice(0, 0)
    if part == 0:
        return Checked(nothing, (Check(text.is_not_null(), "INVALID_INDEX_OF_ZERO", always=True),))
    if not separator:
        return text if part in (1, -1) else nothing
    index = part - 1 if part > 0 else part
    found = text.str.split(separator).list.get(index, null_on_oob=True)
    return pl.coalesce(found, nothing)


def _index_supported(call: Call) -> str | None:
    separator = str(argument(call, 1))
    if any(separator.startswith(separator[cut:]) for cut in range(1, len(separator))):
        return f"{call.function} is not supported with {separator!r}, which may overlap itself"
    return None


@function(
    "substring_index",
    supports=arity(3, also=constants(1, 2, also=takes(t.STRING, arguments=(0, 1), also=_index_supported))),
)
def substring_index(call: Call, text: pl.Expr, *_: pl.Expr) -> Built:
    """What stands before the n-th separator, or behind the n-th from the end; all of it when there are fewer."""
    separator, count = str(argument(call, 1)), argument(call, 2)
    assert isinstance(count, int)
    if not separator or count == 0:
        return text.str.slice(0, 0)
    parts = text.str.split(separator)
    kept = parts.list.head(count) if count > 0 else parts.list.tail(-count)
    return kept.list.join(separator)


@plain("space", "stringspace", supports=takes(t.INTEGER))
def space(count: pl.Expr) -> Built:
    return repeat(pl.lit(" "), count)
