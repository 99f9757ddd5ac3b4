"""Slot side of a table: rows into Parquet files that lie in the table's own place, rolled by size, one set per partition."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.connectors.lake.notes import FileNames, StagingNotes
from tidegate.connectors.lake.storage import TableStorage, failed
from tidegate.model import types as t
from tidegate.model.ids import CheckpointId
from tidegate.operators.arrow_columns import arrow_column, retyped
from tidegate.ports.sink import SinkWriter

FILE_BYTES_MAX = 256 * 1024 * 1024
"""A file is closed and the next one begun when about this much (in memory) has gone into it."""
OPEN_FILES_MAX = 256
"""Partitions written at once; beyond that the fullest file is closed first."""
ROW_GROUP_ROWS = 131_072
ROW_GROUP_BYTES = 32 * 1024 * 1024
"""A row group is written when either is reached: memory stays bounded however long a checkpoint takes."""


@dataclass(frozen=True, slots=True)
class DataFileLayout:
    """What stands in the data files: columns of the rows by name, each with the plan's type and the type in the file."""

    fields: tuple[t.Field, ...]
    arrow: pa.Schema
    options: dict[str, Any] = field(default_factory=dict)
    """For Arrow's writer: compression and the like."""
    rows_max: int = 0
    """Of one file; 0: no limit."""

    def to_arrow(self, rows: pl.DataFrame) -> pa.Table:
        arrays = [
            retyped(arrow_column(rows[one.name], one.type), kind)
            for one, kind in zip(self.fields, self.arrow.types, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.arrow)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A data file that is complete and durable."""

    note: str
    location: str
    partition: Hashable
    rows: int
    size_bytes: int
    metadata: pq.FileMetaData
    not_numbers: frozenset[str]
    """Columns with NaN among their values: Parquet's minimum and maximum do not count those."""


class Division(Protocol):
    """What a table format knows about the place of rows and the meaning of files."""

    def divided(self, rows: pl.DataFrame) -> Iterable[tuple[Hashable, pl.DataFrame]]:
        """The rows by partition, each part with all columns of the layout."""
        ...

    def location(self, partition: Hashable, name: str) -> str: ...

    def document(self, files: Sequence[WrittenFile]) -> bytes:
        """What the committer needs, in a document of the format's own."""
        ...


class TableWriter(SinkWriter):
    """One per subtask. Nothing written: no file. ``whole``: the rows of an epoch are the whole result, so that none at all is
    a result, too."""

    def __init__(
        self,
        layout: DataFileLayout,
        division: Division,
        storage: TableStorage,
        notes: StagingNotes,
        names: FileNames,
        *,
        whole: bool = False,
    ) -> None:
        self._layout = layout
        self._division = division
        self._storage = storage
        self._notes = notes
        self._names = names
        self._whole = whole
        self._floats = tuple(one.name for one in layout.fields if one.type in t.FRACTIONAL)
        self._open: dict[Hashable, _OpenFile] = {}
        self._closed: list[WrittenFile] = []

    def write(self, rows: pl.DataFrame) -> None:
        for partition, part in self._division.divided(rows):
            self._append(partition, part)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        for partition in list(self._open):
            self._close(partition)
        if not self._closed and not self._whole:
            return ()
        self._storage.sync([file.location for file in self._closed])
        document = self._division.document(self._closed)
        self._closed = []
        return (document,)

    def close(self) -> None:
        """What was not prepared is not wanted; what cannot be deleted now is swept by a later attempt."""
        unwanted = [(file.note, file.location) for file in (*self._open.values(), *self._closed)]
        for file in self._open.values():
            with contextlib.suppress(Exception):  # Only gives the handles back: the file is deleted next.
                file.writer.close()
            with contextlib.suppress(Exception):
                file.stream.close()
        self._open, self._closed = {}, []
        if unwanted:
            with contextlib.suppress(Exception):  # Their notes are still there.
                self._storage.delete([location for _, location in unwanted])
                self._notes.remove(tuple(note for note, _ in unwanted))

    def _append(self, partition: Hashable, rows: pl.DataFrame) -> None:
        limit = self._layout.rows_max
        while rows.height:
            file = self._open.get(partition) or self._begin(partition)
            part = rows.head(limit - file.rows) if limit else rows
            file.not_numbers.update(
                name for name in self._floats if name not in file.not_numbers and part[name].is_nan().any()
            )
            try:
                file.write(part, self._layout)
            except pa.ArrowException:
                raise  # Not the store's fault.
            except Exception as error:
                raise failed(error, "write", file.location) from error
            if file.size_bytes >= FILE_BYTES_MAX or (limit and file.rows >= limit):
                self._close(partition)
            rows = rows.slice(part.height)

    def _begin(self, partition: Hashable) -> _OpenFile:
        if len(self._open) >= OPEN_FILES_MAX:
            self._close(max(self._open, key=lambda one: self._open[one].size_bytes))
        note, name = self._names.take()
        location = self._division.location(partition, name)
        self._notes.write(note, location)
        stream = self._storage.create(location)
        file = _OpenFile(note, location, stream, pq.ParquetWriter(stream, self._layout.arrow, **self._layout.options))
        self._open[partition] = file
        return file

    def _close(self, partition: Hashable) -> None:
        file = self._open[partition]
        try:
            metadata = file.finish(self._layout)
        except pa.ArrowException:
            raise
        except Exception as error:
            raise failed(error, "write", file.location) from error
        (size_bytes,) = self._storage.sizes_bytes([file.location])
        del self._open[partition]
        self._closed.append(
            WrittenFile(
                file.note,
                file.location,
                partition,
                file.rows,
                size_bytes or 0,
                metadata,
                frozenset(file.not_numbers),
            )
        )


@dataclass(slots=True)
class _OpenFile:
    note: str
    location: str
    stream: IO[Any]
    writer: pq.ParquetWriter
    rows: int = 0
    size_bytes: int = 0
    not_numbers: set[str] = field(default_factory=set)
    waiting: list[pl.DataFrame] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0

    def write(self, rows: pl.DataFrame, layout: DataFileLayout) -> None:
        size_bytes = int(rows.estimated_size())
        self.rows += rows.height
        self.size_bytes += size_bytes
        self.waiting.append(rows)
        self.waiting_rows += rows.height
        self.waiting_bytes += size_bytes
        if self.waiting_rows >= ROW_GROUP_ROWS or self.waiting_bytes >= ROW_GROUP_BYTES:
            self._flush(layout)

    def finish(self, layout: DataFileLayout) -> pq.FileMetaData:
        self._flush(layout)
        self.writer.close()
        self.stream.close()
        return self.writer.writer.metadata

    def _flush(self, layout: DataFileLayout) -> None:
        if self.waiting:
            self.writer.write_table(layout.to_arrow(pl.concat(self.waiting)))
            self.waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0
