"""Data files on their way into the table: the document of a committable, and the entry of the table's manifest made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from tidegate.connectors.lake.writer import WrittenFile
from tidegate.operators.values import decoded


class IcebergFile(msgspec.Struct, frozen=True, kw_only=True):
    """A data file, complete and durable, with all that a manifest wants to know about it. Maps are by field id."""

    location: str
    note: str
    size_bytes: int
    rows: int
    spec_id: int
    partition: tuple[bytes | None, ...]
    """In the order of the spec, in Iceberg's binary form of single values."""
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: list[int]


class IcebergFilesToCommit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="iceberg/1"):
    """What one subtask prepared for one checkpoint."""

    files: tuple[IcebergFile, ...]


def decode(payload: bytes) -> IcebergFilesToCommit:
    return decoded(payload, IcebergFilesToCommit, "a committable of the iceberg sink")


def described(file: WrittenFile, partition: tuple[bytes | None, ...], table: Table, stored: Schema) -> IcebergFile:
    """With the statistics that the table's properties (``write.metadata.metrics.*``) ask for, from the file's footer."""
    found: dict[str, Any] = data_file_statistics_from_parquet_metadata(
        parquet_metadata=file.metadata,
        stats_columns=compute_statistics_plan(stored, table.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(stored),
    ).to_serialized_dict()
    return IcebergFile(
        location=file.location,
        note=file.note,
        size_bytes=file.size_bytes,
        rows=file.rows,
        spec_id=table.spec().spec_id,
        partition=partition,
        column_sizes=found["column_sizes"],
        value_counts=found["value_counts"],
        null_value_counts=found["null_value_counts"],
        nan_value_counts=found["nan_value_counts"],
        lower_bounds=found["lower_bounds"],
        upper_bounds=found["upper_bounds"],
        split_offsets=found["split_offsets"],
    )


def entry(file: IcebergFile, spec: PartitionSpec, schema: Schema) -> DataFile:
    """As it stands in a manifest of partition spec ``spec``."""
    values = [
        None if value is None else from_bytes(kind, value)
        for kind, value in zip(partition_types(spec, schema), file.partition, strict=True)
    ]
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.location,
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        file_size_in_bytes=file.size_bytes,
        record_count=file.rows,
        column_sizes=file.column_sizes,
        value_counts=file.value_counts,
        null_value_counts=file.null_value_counts,
        nan_value_counts=file.nan_value_counts,
        lower_bounds=file.lower_bounds,
        upper_bounds=file.upper_bounds,
        split_offsets=file.split_offsets,
        sort_order_id=None,
        spec_id=file.spec_id,
        equality_ids=None,
        key_metadata=None,
    )


def partition_bytes(values: Sequence[Any], spec: PartitionSpec, schema: Schema) -> tuple[bytes | None, ...]:
    return tuple(
        None if value is None else to_bytes(kind, value)
        for kind, value in zip(partition_types(spec, schema), values, strict=True)
    )


def partition_types(spec: PartitionSpec, schema: Schema) -> list[PrimitiveType]:
    return [field.field_type for field in spec.partition_type(schema).fields]  # pyright: ignore[reportReturnType]
