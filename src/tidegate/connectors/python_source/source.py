"""Slot side of a user's streaming data source: his read() runs here, its rows are counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec
import polars as pl
from pyspark.sql.datasource import DataSourceStreamReader

from tidegate.connectors.python_source.rows import RowIterator
from tidegate.connectors.python_source.splits import PartitionPosition, PartitionSplit
from tidegate.connectors.rows import RowShape
from tidegate.model.errors import DataError, TidegateError
from tidegate.model.snapshot import Split
from tidegate.model.types import Field, Schema
from tidegate.operators.user_functions import failure
from tidegate.operators.values import decoded
from tidegate.ports.context import ReaderContext
from tidegate.ports.source import SourceConnector, SplitReader

RowsOf: TypeAlias = Callable[[Iterable[Any]], RowIterator]


class PythonSource(SourceConnector):
    def __init__(self, reader: DataSourceStreamReader, name: str, schema: Schema, context: ReaderContext) -> None:
        """``schema``: of the data source; empty: the wanted columns are all it has."""
        self._reader = reader
        self._name = name
        wanted = tuple(Field(column, field.type) for column, field in zip(context.columns, context.schema, strict=True))
        self._schema = schema or wanted
        self._shape = RowShape(context)

    def open(self, split: Split, position: bytes | None) -> PartitionReader:
        described = decoded(split.payload, PartitionSplit, "a partition of a Python data source")
        rows = (
            0 if position is None else decoded(position, PartitionPosition, "a position of a Python data source").rows
        )
        return PartitionReader(self._reader, described, self._rows_of, self._name, rows)

    def _rows_of(self, source: Iterable[Any]) -> RowIterator:
        return RowIterator(iter(source), self._schema, self._shape, self._name)


class PartitionReader(SplitReader):
    """One partition of one range of offsets. Position: rows emitted; restoring plans the partitions again and skips."""

    def __init__(
        self, reader: DataSourceStreamReader, split: PartitionSplit, rows_of: RowsOf, name: str, emitted: int
    ) -> None:
        self._split = split
        self._name = name
        try:
            partitions = reader.partitions(json.loads(split.start), json.loads(split.end))
            if len(partitions) == split.count:
                self._rows = rows_of(reader.read(partitions[split.index]))
        except TidegateError:
            raise
        except Exception as error:
            raise failure(error, f"data source {name}", "in partitions() or read()") from error
        if len(partitions) != split.count:
            raise DataError(
                f"partitions({split.start}, {split.end}) of data source {name} gave {split.count} partitions on the driver"
                f" and {len(partitions)} in the slot",
                hint="partitions() must give the same partitions again for the same offsets",
            )
        self._rows.skip(emitted)

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        return self._rows.take(rows_max)

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(PartitionPosition(rows=self._rows.taken))

    @property
    def finished(self) -> bool:
        return self._rows.ended

    def describe(self) -> str:
        return f"{self._name} {self._split.start} to {self._split.end}, partition {self._split.index}, row {self._rows.taken}"

    def close(self) -> None:
        self._rows.close()
