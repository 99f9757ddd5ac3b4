"""Slot side of the Delta sink."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Sequence
from typing import cast

import msgspec
import polars as pl
import pyarrow as pa

from tidegate.connectors.delta.config import DeltaConfig
from tidegate.connectors.delta.files import DeltaFile, DeltaFilesToCommit
from tidegate.connectors.delta.statistics import statistics_of
from tidegate.connectors.delta.table import open_table, partition_columns, storage_of
from tidegate.connectors.files.partitions import NULL_NAME, escaped
from tidegate.connectors.lake.notes import FileNames, SinkName, StagingNotes
from tidegate.connectors.lake.writer import DataFileLayout, TableWriter, WrittenFile
from tidegate.model import types as t
from tidegate.operators.columns import arrow_type
from tidegate.ports.context import WriterContext


def delta_writer(config: DeltaConfig, schema: t.Schema, context: WriterContext) -> TableWriter:
    keys = partition_columns(open_table(config))
    stored = tuple(field for field in schema if field.name not in keys)
    # Every column may hold nulls, as in the files Spark writes.
    arrow = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in stored])
    layout = DataFileLayout(stored, arrow, {"compression": config.codec}, config.rows_max)
    name = SinkName.of(context)
    storage = storage_of(config)
    return TableWriter(
        layout,
        DeltaDivision(schema, keys),
        storage,
        StagingNotes(storage, "", name),
        FileNames(name, context.attempt, context.subtask, config.extension),
        whole=config.whole,
    )


class DeltaDivision:
    """By the table's partition columns, whose values stand in the log and not in the files."""

    def __init__(self, schema: t.Schema, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self._stored = tuple(field for field in schema if field.name not in keys)
        self._texts = [_text(field) for field in schema if field.name in keys]

    def divided(self, rows: pl.DataFrame) -> Iterable[tuple[Hashable, pl.DataFrame]]:
        if not self._keys:
            yield (), rows
            return
        keys = list(self._keys)
        parts = rows.partition_by(keys, maintain_order=True, include_key=True)
        firsts = pl.concat([part.select(keys).head(1) for part in parts])
        for values, part in zip(firsts.select(self._texts).select(keys).iter_rows(), parts, strict=True):
            yield values, part.drop(keys)

    def location(self, partition: Hashable, name: str) -> str:
        """Under ``column=value/``: the values stand in the log, but some readers go by the directories."""
        pairs = self._values(partition).items()
        return "/".join((*(f"{escaped(key)}={escaped(value) if value else NULL_NAME}" for key, value in pairs), name))

    def document(self, files: Sequence[WrittenFile]) -> bytes:
        now_ms = int(time.time() * 1000)
        found = tuple(
            DeltaFile(
                path=file.location,
                note=file.note,
                size_bytes=file.size_bytes,
                modified_ms=now_ms,
                rows=file.rows,
                partition=self._values(file.partition),
                statistics=statistics_of(file.metadata, self._stored, file.not_numbers),
            )
            for file in files
        )
        return msgspec.msgpack.encode(DeltaFilesToCommit(files=found))

    def _values(self, partition: Hashable) -> dict[str, str | None]:
        return dict(zip(self._keys, cast("tuple[str | None, ...]", partition), strict=True))


def _text(field: t.Field) -> pl.Expr:
    """A partition value as Delta's log writes it. An empty string is a null there."""
    column = pl.col(field.name)
    match field.type:
        case t.Atomic("string"):
            return pl.when(column != "").then(column).alias(field.name)
        case t.Atomic("timestamp"):
            return column.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
        case t.Atomic("timestamp_ntz"):
            return column.dt.strftime("%Y-%m-%d %H:%M:%S%.6f")
        case _:
            return column.cast(pl.String)
