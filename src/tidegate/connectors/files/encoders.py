"""Rows into one file, so that Spark reads the same values and types back: what every format has in common, and Parquet."""

from __future__ import annotations

from typing import IO, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.operators.arrow_columns import arrow_column
from tidegate.operators.columns import arrow_schema

ROW_GROUP_ROWS = 65_536
ROW_GROUP_BYTES = 32 * 1024 * 1024
"""A row group is written when either is reached: memory stays bounded however long a checkpoint takes."""


class Encoder(Protocol):
    """Rows into an open file. Nothing may be relied on before ``close`` has returned; then the file has all of them."""

    def write(self, rows: pl.DataFrame) -> None: ...

    @property
    def size_bytes(self) -> int:
        """About how large the file is by now; what waits in memory counts as it is there."""
        ...

    def close(self) -> None:
        """Ends the format. The file stays open: it belongs to whoever opened it."""
        ...


class ParquetEncoder:
    def __init__(self, file: IO[bytes], schema: t.Schema, compression: str) -> None:
        self._kinds = tuple(field.type for field in schema)
        # Every column may hold nulls, as in the files Spark writes.
        self._schema = pa.schema([field.with_nullable(True) for field in arrow_schema(schema)])
        self._file = file
        self._writer = pq.ParquetWriter(self._file, self._schema, compression=compression)
        self._waiting: list[pl.DataFrame] = []
        self._rows = self._bytes = 0

    def write(self, rows: pl.DataFrame) -> None:
        self._waiting.append(rows)
        self._rows += rows.height
        self._bytes += int(rows.estimated_size())
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    @property
    def size_bytes(self) -> int:
        return self._file.tell() + self._bytes

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pl.concat(self._waiting)
        arrays = [arrow_column(column, kind) for column, kind in zip(rows.iter_columns(), self._kinds, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._waiting, self._rows, self._bytes = [], 0, 0


def refuse_unwritable(format: str, schema: t.Schema) -> None:
    """Types that a file of this format cannot hold, found before the query starts."""
    if format == "text" and [field.type for field in schema] != [t.STRING]:
        columns = ", ".join(f"{field.name} {t.simple_string(field.type)}" for field in schema)
        raise InvalidQuery(
            f"the text sink writes one column of strings, but the result has {columns}",
            hint="select one string (concat_ws, to_json), or write csv, json or parquet",
        )
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
