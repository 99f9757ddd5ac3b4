"""Frames as the text that COPY reads: one expression per column, evaluated by Polars over a whole batch."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import polars as pl

from tidegate.connectors.postgres.column_types import TargetColumn, is_plain
from tidegate.model import types as t
from tidegate.model.types import DataType, Field

_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TIMESTAMP = "%Y-%m-%d %H:%M:%S%.6f"
_ISO = "%Y-%m-%dT%H:%M:%S%.6f"
_DATE = "%Y-%m-%d"
_MINUTE_US, _HOUR_US = 60_000_000, 3_600_000_000


class CopyText:
    """Built once per writer. ``extra`` columns come last, as they are: numbers that the writer adds to the rows."""

    def __init__(self, schema: Sequence[Field], targets: Sequence[TargetColumn], extra: Sequence[str] = ()) -> None:
        self._columns = [
            _for_copy(pl.col(field.name), field.type, target).alias(field.name)
            for field, target in zip(schema, targets, strict=True)
        ] + [pl.col(name) for name in extra]

    def encode(self, rows: pl.DataFrame) -> memoryview:
        text = io.BytesIO()
        rows.select(self._columns).write_csv(
            text, include_header=False, separator="\t", null_value="\\N", quote_style="never"
        )
        return text.getbuffer()


def _for_copy(value: pl.Expr, kind: DataType, target: TargetColumn) -> pl.Expr:
    match kind:
        case t.Atomic("boolean" | "tinyint" | "smallint" | "int" | "bigint" | "float" | "double") | t.Decimal():
            return value  # As Polars writes them: PostgreSQL reads inf and NaN, too.
        case t.Array(element) if is_plain(element) and target.type.endswith("[]"):
            return _escaped(_array(value, element))
        case t.Array() | t.Map() | t.Struct():
            return _escaped(_json(value, kind))
        case t.Atomic("string" | "binary"):
            return _escaped(_text(value, kind))
        case _:
            return _text(value, kind)


def _escaped(text: pl.Expr) -> pl.Expr:
    return text.str.replace_many(list(_ESCAPED), list(_ESCAPED.values()))


def _text(value: pl.Expr, kind: DataType) -> pl.Expr:
    """A plain value as PostgreSQL writes it, in a session whose time zone is UTC."""
    match kind:
        case t.Atomic("string"):
            return value
        case t.Atomic("binary"):
            return pl.lit("\\x") + value.bin.encode("hex")
        case t.Atomic("date"):
            return _year(value.dt.strftime(_DATE))
        case t.Atomic("timestamp" | "timestamp_ntz"):
            return _year(value.dt.strftime(_TIMESTAMP))
        case t.Atomic("interval day to second"):
            return _interval(value)
        case _:
            return value.cast(pl.String)


def _year(text: pl.Expr) -> pl.Expr:
    """Years beyond 9999 get a sign that PostgreSQL does not want."""
    return text.str.strip_prefix("+")


def _interval(value: pl.Expr) -> pl.Expr:
    us = value.dt.total_microseconds()
    size = us.abs()
    return pl.concat_str(
        pl.when(us < 0).then(pl.lit("-")).otherwise(pl.lit("")),
        size // _HOUR_US,
        pl.lit(":"),
        (size % _HOUR_US // _MINUTE_US).cast(pl.String).str.zfill(2),
        pl.lit(":"),
        (size % _MINUTE_US // 1_000_000).cast(pl.String).str.zfill(2),
        pl.lit("."),
        (size % 1_000_000).cast(pl.String).str.zfill(6),
    )


def _array(value: pl.Expr, element: DataType) -> pl.Expr:
    item = _text(pl.element(), element)
    if element in (t.STRING, t.BINARY):
        item = item.str.replace_many(["\\", '"'], ["\\\\", '\\"'])
    quoted = pl.lit('"') + item + pl.lit('"')
    items = value.list.eval(quoted.fill_null("NULL")).list.join(",")
    return pl.lit("{") + items + pl.lit("}")


def _json(value: pl.Expr, kind: DataType) -> pl.Expr:
    """JSON of a value; null where the value is."""
    match kind:
        case t.Array(element):
            items = value.list.eval(_json(pl.element(), element).fill_null("null")).list.join(",")
            return pl.lit("[") + items + pl.lit("]")
        case t.Map(key, item):
            name = _json_string(_text(pl.element().struct.field("key"), key))
            entry = name + pl.lit(":") + _json(pl.element().struct.field("value"), item).fill_null("null")
            return pl.lit("{") + value.list.eval(entry).list.join(",") + pl.lit("}")
        case t.Struct(fields):
            parts: list[pl.Expr] = []
            for number, field in enumerate(fields):
                parts.append(pl.lit(f"{',' if number else '{'}{json.dumps(field.name)}:"))
                parts.append(_json(value.struct.field(field.name), field.type).fill_null("null"))
            text = pl.concat_str([*parts, pl.lit("}")]) if fields else pl.lit("{}")
            return pl.when(value.is_not_null()).then(text)
        case t.Atomic("tinyint" | "smallint" | "int" | "bigint" | "boolean") | t.Decimal():
            return value.cast(pl.String)
        case t.Atomic("float" | "double"):
            text = value.cast(pl.String)
            odd = pl.lit('"') + text.str.replace("inf", "Infinity", literal=True) + pl.lit('"')  # As to_json has it.
            return pl.when(value.is_finite()).then(text).otherwise(odd)
        case t.Atomic("binary"):
            return _json_string(value.bin.encode("base64"))
        case t.Atomic("timestamp"):
            return _json_string(value.dt.strftime(_ISO) + "Z")
        case t.Atomic("timestamp_ntz"):
            return _json_string(value.dt.strftime(_ISO))
        case _:
            return _json_string(_text(value, kind))


def _json_string(text: pl.Expr) -> pl.Expr:
    """Quoted and escaped by Polars' own encoder: ``{"v":"…"}`` without its frame."""
    framed = pl.struct(text.alias("v")).struct.json_encode()
    return pl.when(text.is_not_null()).then(framed.str.strip_prefix('{"v":').str.strip_suffix("}"))
