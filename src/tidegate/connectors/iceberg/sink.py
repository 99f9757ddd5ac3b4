"""Slot side of the Iceberg sink."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import cast

import msgspec
import polars as pl
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import VoidTransform

from tidegate.connectors.iceberg.config import IcebergConfig
from tidegate.connectors.iceberg.files import IcebergFilesToCommit, described, partition_bytes
from tidegate.connectors.iceberg.table import IcebergTables, storage_of
from tidegate.connectors.lake.notes import FileNames, SinkName, StagingNotes
from tidegate.connectors.lake.writer import DataFileLayout, TableWriter, WrittenFile
from tidegate.model import types as t
from tidegate.ports.context import WriterContext

_CODECS = {"uncompressed": "none"}
_KEY = "partition key {}"


def iceberg_writer(config: IcebergConfig, schema: t.Schema, context: WriterContext) -> TableWriter:
    table = IcebergTables(config).load()
    stored, layout = _layout(schema, table, config.rows_max)
    name = SinkName.of(context)
    storage = storage_of(table)
    return TableWriter(
        layout,
        IcebergDivision(table, stored),
        storage,
        StagingNotes(storage, table.location(), name),
        FileNames(name, context.attempt, context.subtask, "parquet"),
        whole=config.whole,
    )


class IcebergDivision:
    """By the table's partition spec as it is when the writer begins."""

    def __init__(self, table: Table, stored: Schema) -> None:
        self._table = table
        self._stored = stored
        self._spec = table.spec()
        self._places = table.location_provider()
        schema = table.schema()
        self._sources = [(schema.find_field(field.source_id), field.transform) for field in self._spec.fields]

    def divided(self, rows: pl.DataFrame) -> Iterable[tuple[Hashable, pl.DataFrame]]:
        if not self._sources:
            yield (), rows
            return
        keys = [self._transformed(rows, n) for n in range(len(self._sources))]
        names = [key.name for key in keys]
        for part in rows.with_columns(keys).partition_by(names, maintain_order=True, include_key=True):
            yield part.select(names).row(0), part.drop(names)

    def location(self, partition: Hashable, name: str) -> str:
        return self._places.new_data_location(name, self._key(partition) if self._sources else None)

    def document(self, files: Sequence[WrittenFile]) -> bytes:
        found = tuple(described(file, self._values(file.partition), self._table, self._stored) for file in files)
        return msgspec.msgpack.encode(IcebergFilesToCommit(files=found))

    def _transformed(self, rows: pl.DataFrame, n: int) -> pl.Series:
        source, transform = self._sources[n]
        name = _KEY.format(n)
        if isinstance(transform, VoidTransform):
            return pl.Series(name, [None] * rows.height, dtype=pl.Null)
        array = rows[source.name].rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
        if array.type in (pa.int8(), pa.int16()):
            array = array.cast(pa.int32())
        return pl.Series(name, transform.pyarrow_transform(source.field_type)(array))

    def _key(self, partition: Hashable) -> PartitionKey:
        values = cast("tuple[object, ...]", partition)
        return PartitionKey(
            field_values=[
                PartitionFieldValue(field, value) for field, value in zip(self._spec.fields, values, strict=True)
            ],
            partition_spec=self._spec,
            schema=self._table.schema(),
        )

    def _values(self, partition: Hashable) -> tuple[bytes | None, ...]:
        if not self._sources:
            return ()
        record = self._key(partition).partition
        values = [record[n] for n in range(len(self._sources))]
        return partition_bytes(values, self._spec, self._table.schema())


def _layout(schema: t.Schema, table: Table, rows_max: int) -> tuple[Schema, DataFileLayout]:
    """The table's columns that the result has, in the table's order, with field ids: a column may be renamed later."""
    kinds = {field.name: field for field in schema}
    stored = Schema(*(field for field in table.schema().fields if field.name in kinds))
    properties = table.properties
    codec = properties.get("write.parquet.compression-codec", "zstd").lower()
    level = properties.get("write.parquet.compression-level")
    options = {
        "compression": _CODECS.get(codec, codec),
        "compression_level": None if level is None or level == "null" else int(level),
        "store_decimal_as_integer": True,
    }
    fields = tuple(kinds[field.name] for field in stored.fields)
    return stored, DataFileLayout(fields, schema_to_pyarrow(stored, include_field_ids=True), options, rows_max)
