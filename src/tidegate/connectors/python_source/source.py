"""Slot side of a user's streaming data source: his read() runs here, its rows are counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec
import polars as pl
from pyspark.sql.datasource import DataSourceStreamReader, SimpleDataSourceStreamReader

from tidegate.connectors.python_source.enumerator import stream_reader
from tidegate.connectors.python_source.payload import unpack
from tidegate.connectors.python_source.rows import RowIterator
from tidegate.connectors.python_source.splits import (
    PartitionPosition,
    PartitionSplit,
    SequentialPosition,
    SequentialSplit,
    decode_split,
    offset_text,
)
from tidegate.connectors.rows import RowShape
from tidegate.model.errors import DataError, TidegateError
from tidegate.model.snapshot import Split
from tidegate.model.types import Field
from tidegate.operators.ports import SplitReader
from tidegate.operators.user_functions import failure
from tidegate.plan.relational import Scan

RowsOf: TypeAlias = Callable[[Iterable[Any]], RowIterator]

POLL_MS = 50
"""A simple reader that had nothing new is asked again after this long."""


class PythonSource:
    """Exactly once as long as the source gives the same rows for the same offsets."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._shape = RowShape(scan)
        datasource, schema = unpack(scan.payload, scan.source_schema)
        self._reader = stream_reader(datasource, schema)

    def open(self, split: Split, position: bytes | None) -> SplitReader:
        match decode_split(split.payload):
            case PartitionSplit() as partition:
                assert isinstance(self._reader, DataSourceStreamReader)
                rows = 0 if position is None else msgspec.msgpack.decode(position, type=PartitionPosition).rows
                return PartitionReader(self._reader, partition, self._rows_of, self._scan.format, rows)
            case SequentialSplit(start=start, once=once):
                assert isinstance(self._reader, SimpleDataSourceStreamReader)
                at = SequentialPosition(start=start, end=None, rows=0)
                if position is not None:
                    at = msgspec.msgpack.decode(position, type=SequentialPosition)
                return SequentialReader(self._reader, at, once, self._rows_of, self._scan.format)

    def _rows_of(self, source: Iterable[Any]) -> RowIterator:
        named = zip(self._scan.columns, self._scan.schema, strict=True)
        schema = self._scan.source_schema or tuple(Field(name, field.type) for name, field in named)
        return RowIterator(iter(source), schema, self._shape, self._scan.format)


class PartitionReader:
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


class SequentialReader:
    """Reads a SimpleDataSourceStreamReader range after range. Position: the range and the rows of it that are out."""

    def __init__(
        self, reader: SimpleDataSourceStreamReader, at: SequentialPosition, once: bool, rows_of: RowsOf, name: str
    ) -> None:
        self._reader = reader
        self._once = once
        self._rows_of = rows_of
        self._name = name
        self._start = at.start
        self._end = at.end
        self._rows: RowIterator | None = None
        self._finished = at.finished
        self._poll_at_ms: int | None = None
        if at.end is not None and not at.finished:
            # The range was begun before the restart: the same rows again, by Spark's own recovery method.
            try:
                self._rows = rows_of(reader.readBetweenOffsets(json.loads(at.start), json.loads(at.end)))
            except Exception as error:
                raise failure(error, f"data source {name}", "in readBetweenOffsets()") from error
            self._rows.skip(at.rows)

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        if self._finished or (self._poll_at_ms is not None and now_ms < self._poll_at_ms):
            return None
        if self._rows is None:
            self._begin()
        assert self._rows is not None
        rows = self._rows.take(rows_max)
        if rows is None:
            self._end_range(now_ms)
        return rows

    @property
    def position(self) -> bytes:
        taken = 0 if self._rows is None else self._rows.taken
        end = None if self._rows is None else self._end
        return msgspec.msgpack.encode(
            SequentialPosition(start=self._start, end=end, rows=taken, finished=self._finished)
        )

    @property
    def finished(self) -> bool:
        return self._finished

    def describe(self) -> str:
        return f"{self._name} from {self._start}, row {0 if self._rows is None else self._rows.taken}"

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()

    def _begin(self) -> None:
        try:
            rows, end = self._reader.read(json.loads(self._start))
        except Exception as error:
            raise failure(error, f"data source {self._name}", f"in read({self._start})") from error
        self._end = offset_text(end, "read")
        self._rows = self._rows_of(rows)

    def _end_range(self, now_ms: int) -> None:
        """The range is out. A source that gave rows without moving its offset would give them again for ever."""
        assert self._rows is not None and self._end is not None
        if self._rows.taken and self._end == self._start:
            raise DataError(
                f"read({self._start}) of data source {self._name} gave rows but did not move the offset",
                hint="return the offset after the last row as second value of read()",
            )
        self._poll_at_ms = None if self._rows.taken else now_ms + POLL_MS
        self._start, self._end, self._rows = self._end, None, None
        self._finished = self._once
