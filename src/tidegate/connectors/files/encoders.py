"""Rows into one Parquet, JSON or CSV file, so that Spark reads the same values and types back."""

from __future__ import annotations

import gzip
import itertools
import os
from pathlib import Path
from typing import IO, Protocol, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.connectors.options import Options
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.operators.arrow_columns import arrow_column
from tidegate.operators.columns import arrow_schema

ROW_GROUP_ROWS = 65_536
ROW_GROUP_BYTES = 32 * 1024 * 1024
"""A row group is written when either is reached: memory stays bounded however long a checkpoint takes."""

_TIMESTAMP = "%Y-%m-%dT%H:%M:%S%.6f"


class Encoder(Protocol):
    """Writes one file. Nothing may be relied on before ``close`` has returned; then the file is on the disk."""

    def write(self, rows: pl.DataFrame) -> None: ...

    def close(self) -> None: ...


class ParquetEncoder:
    def __init__(self, path: Path, schema: t.Schema, compression: str) -> None:
        self._path = path
        self._kinds = tuple(field.type for field in schema)
        # Every column may hold nulls, as in the files Spark writes.
        self._schema = pa.schema([field.with_nullable(True) for field in arrow_schema(schema)])
        self._writer = pq.ParquetWriter(path, self._schema, compression=compression)
        self._waiting: list[pl.DataFrame] = []
        self._rows = self._bytes = 0

    def write(self, rows: pl.DataFrame) -> None:
        self._waiting.append(rows)
        self._rows += rows.height
        self._bytes += int(rows.estimated_size())
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()
        _sync(self._path)

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pl.concat(self._waiting)
        arrays = [arrow_column(column, kind) for column, kind in zip(rows.iter_columns(), self._kinds, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._waiting, self._rows, self._bytes = [], 0, 0


class JsonEncoder:
    """One object per line. Timestamps are ISO 8601 in UTC with microseconds; NaN and infinities are strings, as in Spark."""

    def __init__(self, path: Path, schema: t.Schema, compression: str) -> None:
        self._path = path
        self._file = _opened(path, compression)
        self._values = [_for_json(pl.col(field.name), field.type).alias(field.name) for field in schema]
        self._floats = [field.name for field in schema if field.type in t.FRACTIONAL]

    def write(self, rows: pl.DataFrame) -> None:
        for part in self._by_finiteness(rows.select(self._values)):
            self._file.write(part.write_ndjson().encode())

    def close(self) -> None:
        self._file.close()
        _sync(self._path)

    def _by_finiteness(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """JSON has no NaN: rows with the same non-finite columns go together, those columns as text."""
        odd = [name for name in self._floats if not rows[name].drop_nulls().is_finite().all()]
        if not odd:
            return [rows]
        parts: list[pl.DataFrame] = []
        for pattern in itertools.product((True, False), repeat=len(odd)):
            picked = zip(odd, pattern, strict=True)
            part = rows.filter(pl.col(name).is_finite().fill_null(True) == finite for name, finite in picked)
            text = [_float_text(name, "Infinity") for name, finite in zip(odd, pattern, strict=True) if not finite]
            parts.append(part.with_columns(text))
        return [part for part in parts if part.height]


class CsvEncoder:
    """As Spark writes CSV: quotes only where needed, ``\\`` before quotes, empty strings as ``""``, nulls as nothing."""

    def __init__(self, path: Path, schema: t.Schema, options: CsvSinkOptions) -> None:
        self._path = path
        self._options = options
        self._file = _opened(path, options.compression)
        self._line = pl.concat_str([self._field(field) for field in schema], separator=options.separator)
        self._header = options.separator.join(field.name for field in schema) + "\n" if options.header else ""

    def write(self, rows: pl.DataFrame) -> None:
        self._file.write(self._header.encode())
        self._header = ""
        lines = rows.select(self._line.alias("line")).to_series()
        self._file.write("\n".join(lines.to_list()).encode() + b"\n")

    def close(self) -> None:
        self._file.close()
        _sync(self._path)

    def _field(self, field: t.Field) -> pl.Expr:
        column = pl.col(field.name)
        match field.type:
            case t.Atomic("string"):
                text = self._quoted(column)
            case t.Atomic("timestamp"):
                text = column.dt.strftime(_TIMESTAMP) + "Z"
            case t.Atomic("timestamp_ntz"):
                text = column.dt.strftime(_TIMESTAMP)
            case t.Atomic("float" | "double"):
                text = _float_text(field.name, "Inf")
            case t.Atomic("binary"):
                text = column.bin.encode("base64")
            case _:
                text = column.cast(pl.String)
        return text.fill_null(self._options.null_value)

    def _quoted(self, column: pl.Expr) -> pl.Expr:
        quote, escape, separator = self._options.quote, self._options.escape, self._options.separator
        body = column
        for special in dict.fromkeys((escape, quote)):
            body = body.str.replace_all(special, escape + special, literal=True)
        special = column.str.contains_any([separator, quote, "\n", "\r", escape])
        needed = special | (column == "") | (column == self._options.null_value) | column.str.contains(r"^\s|\s$")
        return pl.when(needed).then(pl.lit(quote) + body + pl.lit(quote)).otherwise(column)


class CsvSinkOptions:
    """Options of the CSV sink, with Spark's defaults."""

    def __init__(self, options: Options) -> None:
        self.separator = options.character("sep", options.character("delimiter", ","))
        self.quote = options.character("quote", '"')
        self.escape = options.character("escape", "\\")
        self.null_value = options.text("nullValue", "") or ""
        self.header = options.flag("header")
        self.compression = options.choice("compression", "none", ("none", "uncompressed", "gzip"))
        if not (self.separator and self.quote and self.escape):
            raise InvalidQuery("sep, quote and escape of the csv sink must not be empty", hint="leave them out")


def refuse_unwritable(format: str, schema: t.Schema) -> None:
    """Types that a file of this format cannot hold, found before the query starts."""
    for field in schema:
        reason = _unwritable(format, field.type)
        if reason:
            raise InvalidQuery(
                f"column {field.name!r} is a {t.simple_string(field.type)}: the {format} sink cannot write {reason}",
                hint="convert it in the query (to_json, cast) or write parquet",
            )


def _unwritable(format: str, kind: t.DataType) -> str | None:
    match kind:
        case t.Atomic("interval day to second" | "void"):
            return "intervals" if kind != t.NULL else "columns without a type"
        case t.Map(key, value):
            return "maps" if format != "parquet" else _unwritable(format, key) or _unwritable(format, value)
        case t.Array(element):
            return "arrays" if format == "csv" else _unwritable(format, element)
        case t.Struct(fields):
            found = (_unwritable(format, field.type) for field in fields)
            return "structs" if format == "csv" else next(filter(None, found), None)
        case _:
            return None


def _for_json(value: pl.Expr, kind: t.DataType) -> pl.Expr:
    match kind:
        case t.Atomic("timestamp"):
            return value.dt.strftime(_TIMESTAMP) + "Z"
        case t.Atomic("timestamp_ntz"):
            return value.dt.strftime(_TIMESTAMP)
        case t.Atomic("binary"):
            return value.bin.encode("base64")
        case t.Decimal(precision) if precision <= 15:
            return value.cast(pl.Float64)  # Exact for so few digits, and a number rather than a string.
        case t.Array(element):
            return value.list.eval(_for_json(pl.element(), element))
        case t.Struct(fields):
            parts = [_for_json(value.struct.field(field.name), field.type).alias(field.name) for field in fields]
            return pl.when(value.is_not_null()).then(pl.struct(parts))
        case _:
            return value


def _float_text(name: str, infinity: str) -> pl.Expr:
    value = pl.col(name)
    odd = (
        pl.when(value.is_nan())
        .then(pl.lit("NaN"))
        .when(value > 0)
        .then(pl.lit(infinity))
        .otherwise(pl.lit("-" + infinity))
    )
    return pl.when(value.is_finite()).then(value.cast(pl.String)).when(value.is_not_null()).then(odd).alias(name)


def _opened(path: Path, compression: str) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "wb", compresslevel=6)) if compression == "gzip" else path.open("wb")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
