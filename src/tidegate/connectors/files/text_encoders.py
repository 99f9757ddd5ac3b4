"""Rows into lines: JSON, CSV and plain text."""

from __future__ import annotations

import bz2
import gzip
from typing import IO, Protocol, cast

import polars as pl

from tidegate.connectors.files.text_options import DEFAULT_EMPTY_VALUE, TextOptions
from tidegate.model import types as t


class Format(Protocol):
    """Rows → one column of lines without their ends; and what stands before the first row of a file."""

    @property
    def line(self) -> pl.Expr: ...

    @property
    def head(self) -> bytes: ...


class LinesEncoder:
    """Writes one file of lines."""

    def __init__(self, file: IO[bytes], form: Format, options: TextOptions) -> None:
        self._line = form.line.alias("line")
        self._end = options.line_separator
        self._raw = file
        self._file = compressing(self._raw, options.compression)
        self._file.write(form.head)

    def write(self, rows: pl.DataFrame) -> None:
        lines = rows.select(self._line).to_series()
        self._file.write((lines.str.join(self._end)[0] + self._end).encode())

    @property
    def size_bytes(self) -> int:
        return self._raw.tell()

    def close(self) -> None:
        if self._file is not self._raw:
            self._file.close()


class TextLines:
    """Spark's rule: the one column as it is; a null is an empty line."""

    def __init__(self, schema: t.Schema) -> None:
        (self._column,) = (field.name for field in schema)
        self.head = b""

    @property
    def line(self) -> pl.Expr:
        return pl.col(self._column).fill_null("")


class JsonLines:
    """One object per line. NaN and infinities are strings, as in Spark; so are decimals with more digits than a double holds."""

    def __init__(self, schema: t.Schema, options: TextOptions) -> None:
        self._fields = schema
        self._options = options
        self.head = b""

    @property
    def line(self) -> pl.Expr:
        return self._object([(field, pl.col(field.name)) for field in self._fields])

    def _object(self, members: list[tuple[t.Field, pl.Expr]]) -> pl.Expr:
        texts = [self._member(value, field) for field, value in members]
        inside = pl.concat_str(texts, separator=",", ignore_nulls=True)
        return pl.lit("{") + inside + pl.lit("}")

    def _member(self, value: pl.Expr, field: t.Field) -> pl.Expr:
        """``"name":value``, or null where it is left out."""
        match field.type:
            case t.Struct(fields):
                inner = self._object([(one, value.struct.field(one.name)) for one in fields])
                text = pl.lit(_key(field.name)) + pl.when(value.is_not_null()).then(inner).otherwise(pl.lit("null"))
            case t.Atomic("float" | "double"):
                odd = pl.lit(f'{_key(field.name)}"') + odd_float(value) + pl.lit('"')
                text = pl.when(value.is_finite() | value.is_null()).then(_encoded(value, field.name)).otherwise(odd)
            case _:
                text = _encoded(self._plain(value, field.type), field.name)
        return pl.when(value.is_not_null()).then(text) if self._options.ignore_null_fields else text

    def _plain(self, value: pl.Expr, kind: t.DataType) -> pl.Expr:
        """A value that Polars writes into JSON as Spark does."""
        match kind:
            case t.Atomic("date"):
                return self._options.date(value)
            case t.Atomic("timestamp"):
                return self._options.instant(value)
            case t.Atomic("timestamp_ntz"):
                return self._options.wall_time(value)
            case t.Atomic("binary"):
                return value.bin.encode("base64")
            case t.Decimal(precision) if precision <= 15:
                return value.cast(pl.Float64)  # Exact for so few digits, and a number rather than a string.
            case t.Array(element):
                return value.list.eval(self._plain(pl.element(), element))
            case t.Struct(fields):
                parts = [self._plain(value.struct.field(field.name), field.type).alias(field.name) for field in fields]
                return pl.when(value.is_not_null()).then(pl.struct(parts))
            case _:
                return value


class CsvLines:
    """As Spark writes CSV: quotes only where needed, ``\\`` before quotes, empty strings as ``""``, nulls as nothing."""

    def __init__(self, schema: t.Schema, options: TextOptions) -> None:
        self._fields = schema
        self._options = options
        names = pl.DataFrame({"": [field.name for field in schema]})
        titles = names.select(self._quoted(pl.col(""))).to_series() if options.header else []
        self.head = (options.separator.join(titles) + options.line_separator).encode() if options.header else b""

    @property
    def line(self) -> pl.Expr:
        return pl.concat_str([self._field(field) for field in self._fields], separator=self._options.separator)

    def _field(self, field: t.Field) -> pl.Expr:
        text = self._text(pl.col(field.name), field.type)
        # Printed dates and times may hold anything, the separator included.
        if field.type == t.STRING or self._options.quote_all or self._options.patterns:
            text = self._quoted(text)
        null = self._options.null_value
        return text.fill_null(f"{self._options.quote}{null}{self._options.quote}" if self._options.quote_all else null)

    def _text(self, column: pl.Expr, kind: t.DataType) -> pl.Expr:
        match kind:
            case t.Atomic("string"):
                return column
            case t.Atomic("date"):
                return self._options.date(column)
            case t.Atomic("timestamp"):
                return self._options.instant(column)
            case t.Atomic("timestamp_ntz"):
                return self._options.wall_time(column)
            case t.Atomic("float" | "double"):
                return pl.when(column.is_finite()).then(column.cast(pl.String)).otherwise(odd_float(column))
            case t.Atomic("binary"):
                return column.bin.encode("base64")
            case _:
                return column.cast(pl.String)

    def _quoted(self, column: pl.Expr) -> pl.Expr:
        options = self._options
        body = column
        for special in dict.fromkeys((options.escape, options.quote)):
            body = body.str.replace_all(special, options.escape + special, literal=True)
        within = pl.lit(options.quote) + body + pl.lit(options.quote)
        empty = options.empty_value
        if options.quote_all:
            empty = empty if empty == DEFAULT_EMPTY_VALUE else options.quote + empty + options.quote
            return pl.when(column == "").then(pl.lit(empty)).otherwise(within)
        specials = [options.separator, options.line_separator, "\n", "\r"]
        specials += [options.quote] if options.escape_quotes else []
        needed = column.str.contains_any(specials) | column.str.contains(r"^\s|\s$")
        return pl.when(column == "").then(pl.lit(empty)).when(needed).then(within).otherwise(column)


def compressing(file: IO[bytes], compression: str) -> IO[bytes]:
    match compression:
        case "gzip":
            return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0))
        case "bzip2":
            return cast(IO[bytes], bz2.BZ2File(file, "wb"))
        case _:
            return file


def odd_float(value: pl.Expr) -> pl.Expr:
    """The names of what is not finite; null for null."""
    return (
        pl.when(value.is_nan())
        .then(pl.lit("NaN"))
        .when(value.is_infinite() & (value > 0))
        .then(pl.lit("Infinity"))
        .when(value.is_infinite())
        .then(pl.lit("-Infinity"))
    )


def _encoded(value: pl.Expr, name: str) -> pl.Expr:
    whole = pl.struct(value.alias(name)).struct.json_encode()
    return whole.str.strip_prefix("{").str.strip_suffix("}")


def _key(name: str) -> str:
    empty = pl.DataFrame({name: [None]}).select(_encoded(pl.col(name), name)).item()
    return str(empty).removesuffix("null")
