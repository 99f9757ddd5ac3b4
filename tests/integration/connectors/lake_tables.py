"""What the tests of table sinks share: tables of each format, writers and committers of their sinks, rows that count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from tests.nodes import ByNode

from tidegate.connectors.legacy import Sink
from tidegate.model import types as t
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable
from tidegate.model.types import Field, Schema
from tidegate.operators.columns import conform
from tidegate.ports.sink import SinkCommitter, SinkWriter

NUMBERS: Schema = (Field("k", t.STRING), Field("n", t.LONG))


class SinkTable(Protocol):
    """A table that may not exist yet, seen with the eyes of another library."""

    format: str
    root: Path
    """Where its files lie."""

    @property
    def options(self) -> dict[str, str]: ...

    def rows(self) -> list[dict[str, Any]]: ...

    def versions(self) -> int:
        """How often it was changed since it was made."""
        ...

    def append(self, rows: pa.Table) -> None:
        """By somebody else."""
        ...


@dataclass(frozen=True, slots=True)
class DeltaSinkTable:
    root: Path
    format: str = "delta"

    @property
    def options(self) -> dict[str, str]:
        return {"path": str(self.root)}

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.root))

    def rows(self) -> list[dict[str, Any]]:
        return self.table.to_pyarrow_table().to_pylist()

    def versions(self) -> int:
        return self.table.version()

    def append(self, rows: pa.Table) -> None:
        write_deltalake(str(self.root), rows, mode="append")


@dataclass(frozen=True, slots=True)
class IcebergSinkTable:
    directory: Path
    name: str = "db.t"
    format: str = "iceberg"

    @property
    def root(self) -> Path:
        return self.directory / "warehouse" / self.name.replace(".", "/")

    @property
    def catalog_properties(self) -> dict[str, str]:
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.directory}/catalog.db",
            "warehouse": f"file://{self.directory}/warehouse",
        }

    @property
    def options(self) -> dict[str, str]:
        return {"path": self.name} | {f"catalog.{key}": value for key, value in self.catalog_properties.items()}

    @property
    def catalog(self) -> Catalog:
        return load_catalog("default", **self.catalog_properties)

    @property
    def table(self) -> Table:
        return self.catalog.load_table(self.name)

    def rows(self) -> list[dict[str, Any]]:
        return self.table.scan().to_arrow().to_pylist()

    def versions(self) -> int:
        return len(self.table.snapshots())

    def append(self, rows: pa.Table) -> None:
        self.table.append(rows)


def table_sink(
    table: SinkTable,
    schema: Schema = NUMBERS,
    *,
    pipeline: str = "p1",
    name: str = "sink-0",
    partition_by: tuple[str, ...] = (),
    mode: OutputMode = OutputMode.APPEND,
    **options: Any,
) -> Sink:
    given = {key.replace("__", "."): str(value) for key, value in options.items()}
    return Sink(
        id=OperatorId(name),
        format=table.format,
        options={"tidegate.pipeline": pipeline} | table.options | given,
        columns=tuple((field.name, field.name) for field in schema),
        schema=schema,
        partition_by=partition_by,
        mode=mode,
    )


def writer(sink: Sink, attempt: int = 1, subtask: int = 0) -> SinkWriter:
    return ByNode().sink(sink).writer(sink, Attempt(attempt), SlotIndex(subtask))


def committer(sink: Sink) -> SinkCommitter:
    return ByNode().committer(sink)


def numbers(*values: int) -> pl.DataFrame:
    return conform(pl.DataFrame({"k": [f"k{n % 3}" for n in values], "n": list(values)}), NUMBERS)


def prepared(to: SinkWriter, checkpoint: int, subtask: int = 0) -> tuple[Committable, ...]:
    return tuple(
        Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(subtask), number=number, payload=payload)
        for number, payload in enumerate(to.prepare(CheckpointId(checkpoint)))
    )


def wrote(to: SinkWriter, checkpoint: int, rows: pl.DataFrame, subtask: int = 0) -> tuple[Committable, ...]:
    to.write(rows)
    return prepared(to, checkpoint, subtask)


def visible(table: SinkTable) -> list[int]:
    return sorted(row["n"] for row in table.rows())


def data_files(table: SinkTable) -> list[Path]:
    return sorted(table.root.rglob("part-*.parquet"))


def notes(table: SinkTable) -> list[str]:
    return sorted(path.name for path in _files(table.root / "_tidegate"))


def _files(root: Path) -> Iterable[Path]:
    return (path for path in root.rglob("*") if path.is_file())
