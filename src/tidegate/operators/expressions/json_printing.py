"""``to_json``: columns written as JSON, all rows at once."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Array, DataType, Decimal, Map, Struct, simple_string
from tidegate.operators.expressions import number_text, timestamp_text, zones
from tidegate.operators.expressions.compiled import Built
from tidegate.operators.expressions.json_text import quoted
from tidegate.operators.expressions.registry import arity, function, takes
from tidegate.plan.expressions import Call

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CONTROLS = {chr(code): f"\\u{code:04X}" for code in range(32)} | _ESCAPES


def _printable(of: DataType) -> str | None:
    match of:
        case Struct(fields):
            return next((why for field in fields if (why := _printable(field.type)) is not None), None)
        case Array(element):
            return _printable(element)
        case Map(key, value):
            return "maps with keys other than strings" if key != t.STRING else _printable(value)
        case t.BINARY | t.DAY_TIME_INTERVAL | t.YEAR_MONTH_INTERVAL:
            return simple_string(of)
        case _:
            return None


def _supported(call: Call) -> str | None:
    reason = _printable(call.args[0].type)
    return None if reason is None else f"to_json is not supported for {reason}"


@function("to_json", "structstojson", supports=arity(1, also=takes(Struct, Array, Map, also=_supported)))
def to_json(call: Call, value: pl.Expr) -> Built:
    """Fields that are null are left out; elements and values of maps that are null stand as ``null``."""
    return text_of(value, call.args[0].type, call.zone)


def text_of(value: pl.Expr, of: DataType, zone: str) -> pl.Expr:
    """The value as JSON, null where it is null."""
    match of:
        case t.STRING:
            return _quoted(value)
        case t.BOOLEAN:
            return pl.when(value).then(pl.lit("true")).when(~value).then(pl.lit("false"))
        case t.FLOAT | t.DOUBLE:
            text = number_text.print_float(value)
            return pl.when(value.is_finite()).then(text).otherwise('"' + text + '"')
        case t.DATE:
            return '"' + timestamp_text.print_date(value) + '"'
        case t.TIMESTAMP:
            return '"' + _instant(value, zone) + '"'
        case t.TIMESTAMP_NTZ:
            return '"' + value.dt.to_string("%Y-%m-%dT%H:%M:%S%.3f") + '"'
        case Struct(fields):
            parts = [
                pl.lit(f"{quoted(field.name)}:") + text_of(value.struct.field(field.name), field.type, zone)
                for field in fields
            ]
            inner = pl.concat_str(parts, separator=",", ignore_nulls=True)
            return pl.when(value.is_not_null()).then("{" + inner + "}")
        case Array(element):
            items = value.list.eval(text_of(pl.element(), element, zone).fill_null("null"))
            return pl.when(value.is_not_null()).then("[" + items.list.join(",") + "]")
        case Map(_, inner):
            entry = pl.element().struct
            shown = text_of(entry.field("value"), inner, zone).fill_null("null")
            members = value.list.eval(_quoted(entry.field("key")) + ":" + shown)
            return pl.when(value.is_not_null()).then("{" + members.list.join(",") + "}")
        case Decimal(_, scale):
            return number_text.print_decimal(value, scale)
        case _:
            return value.cast(pl.String)


def _quoted(text: pl.Expr) -> pl.Expr:
    return '"' + text.str.replace_many(list(_CONTROLS), list(_CONTROLS.values())) + '"'


def _instant(value: pl.Expr, zone: str) -> pl.Expr:
    """``2024-07-04T12:34:56.789Z``, with the offset that the zone has then."""
    local = zones.to_local(value, zone)
    seconds = (local - value.dt.replace_time_zone(None)).to_physical() // 1_000_000
    size = seconds.abs()
    sign = pl.when(seconds < 0).then(pl.lit("-")).otherwise(pl.lit("+"))
    hours, minutes, rest = (p.cast(pl.String).str.zfill(2) for p in (size // 3600, size // 60 % 60, size % 60))
    ending = pl.when(size % 60 == 0).then(pl.lit("")).otherwise(":" + rest)
    offset = pl.when(seconds == 0).then(pl.lit("Z")).otherwise(pl.concat_str(sign, hours, pl.lit(":"), minutes, ending))
    return local.dt.to_string("%Y-%m-%dT%H:%M:%S%.3f") + offset
