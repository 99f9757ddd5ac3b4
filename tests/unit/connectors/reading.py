"""Helpers: scans over directories, and readers driven to their end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from tests.nodes import ByNode

from tidegate.connectors.legacy import Scan
from tidegate.model.config import QueryConfig
from tidegate.model.ids import OperatorId
from tidegate.model.snapshot import Split
from tidegate.model.types import Field, Schema
from tidegate.ports.source import SourceConnector, SplitReader

BOUNDED = QueryConfig(bounded=True)
READS_MAX = 100_000


def scan_of(
    form: str,
    schema: Schema,
    columns: tuple[str, ...] | None = None,
    payload: bytes = b"",
    **options: Any,
) -> Scan:
    """Reads ``columns`` (all by default) under plan names ``<name>#<position>``."""
    wanted = tuple(field.name for field in schema) if columns is None else columns
    kinds = {field.name: field.type for field in schema}
    return Scan(
        id=OperatorId("source-0"),
        format=form,
        options={name: str(value) for name, value in options.items()},
        schema=tuple(Field(f"{name}#{n}", kinds[name]) for n, name in enumerate(wanted)),
        columns=wanted,
        payload=payload,
        source_schema=schema,
    )


def file_scan(
    form: str, path: Path | str, schema: Schema, columns: tuple[str, ...] | None = None, **options: Any
) -> Scan:
    return scan_of(form, schema, columns, path=path, **options)


def drain(reader: SplitReader, rows_max: int = 1_000, now_ms: int = 0) -> list[tuple[Any, ...]]:
    """All rows of a split that ends."""
    rows: list[tuple[Any, ...]] = []
    for _ in range(READS_MAX):
        if reader.finished:
            reader.close()
            return rows
        frame = reader.read(rows_max, now_ms)
        assert frame is None or frame.height <= rows_max
        if frame is not None:
            rows += frame.rows() if frame.width else [()] * frame.height
    raise AssertionError(f"no end after {READS_MAX} reads: {reader.describe()}")


def read_all(scan: Scan, rows_max: int = 1_000, config: QueryConfig = BOUNDED) -> list[tuple[Any, ...]]:
    """Every row of every split, in order of discovery."""
    connectors = ByNode()
    splits = connectors.enumerator(scan, config).discover(0)
    source = connectors.source(scan)
    return [row for split in splits for row in drain(source.open(split, None), rows_max)]


def positions(source: SourceConnector, split: Split, rows_max: int) -> list[tuple[bytes | None, int]]:
    """Every position a snapshot could have seen, with the rows emitted before it."""
    reader = source.open(split, None)
    seen: list[tuple[bytes | None, int]] = [(None, 0), (reader.position, 0)]
    emitted = 0
    for _ in range(READS_MAX):
        if reader.finished:
            break
        frame = reader.read(rows_max, 0)
        emitted += 0 if frame is None else frame.height
        seen.append((reader.position, emitted))
    reader.close()
    return seen


def written(
    path: Path, data: bytes | str | pl.DataFrame, write: Callable[[pl.DataFrame, Path], None] | None = None
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    match data:
        case bytes():
            path.write_bytes(data)
        case str():
            path.write_text(data)
        case _:
            (write or (lambda frame, to: frame.write_parquet(to)))(data, path)
    return path
