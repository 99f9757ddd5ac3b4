"""Transactional file output, slot side: rows go to staged files that end at every checkpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import polars as pl

from tidegate.connectors.durable import sync
from tidegate.connectors.files.encoders import Encoder, ParquetEncoder
from tidegate.connectors.files.partitions import directory_names
from tidegate.connectors.files.sink_config import FILE_BYTES_MAX, FileSinkConfig, parse_sink
from tidegate.connectors.files.staging import FilesToCommit, StagedFile, StagingNames
from tidegate.connectors.files.text_encoders import CsvLines, JsonLines, LinesEncoder, TextLines
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.os_errors import explain
from tidegate.plan.relational import Sink

OPEN_FILES_MAX = 256
"""Partitions written at once; beyond that the fullest file is closed first."""


class FileSink:
    """Slot side."""

    guarantee = "exactly_once"

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> FileSinkWriter:
        return FileSinkWriter(parse_sink(sink), StagingNames.of(sink), attempt, subtask)


@dataclass(slots=True)
class _OpenFile:
    number: int
    partition: str
    staged: str
    encoder: Encoder
    begun_s: float
    rows: int = 0
    size_bytes: int = 0
    """Known when it is closed."""


class FileSinkWriter:
    """Stages files. Nothing written: no file. Names carry the attempt, so a zombie never writes into a successor's file.

    A file ends at the next checkpoint at the latest: its rows are durable and visible with that checkpoint, never later.
    """

    def __init__(
        self,
        config: FileSinkConfig,
        names: StagingNames,
        attempt: Attempt,
        subtask: SlotIndex,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._names = names
        self._attempt = attempt
        self._subtask = subtask
        self._clock = clock
        self._open: dict[str, _OpenFile] = {}
        self._closed: list[_OpenFile] = []
        self._next = 0

    def write(self, rows: pl.DataFrame) -> None:
        try:
            if not self._config.partition_by:
                self._append("", rows)
                return
            keys = list(self._config.partition_by)
            parts = rows.partition_by(keys, maintain_order=True, include_key=True)
            firsts = pl.concat([part.select(keys).head(1) for part in parts])
            for name, part in zip(
                directory_names(firsts, self._config.partition_by, self._config.zone), parts, strict=True
            ):
                self._append(name, part.drop(keys))
        except OSError as error:
            raise explain(error, "write to", self._config.path) from error

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        try:
            for name in list(self._open):
                self._close(name)
            if not self._closed:
                return ()
            sync(self._config.path / self._names.directory)
        except OSError as error:
            raise explain(error, "write to", self._config.path) from error
        files = tuple(self._staged(file, checkpoint) for file in self._closed)
        self._closed = []
        return (msgspec.msgpack.encode(FilesToCommit(files=files)),)

    def close(self) -> None:
        """What was not prepared is not wanted; a file left behind by a crash is swept by a later attempt."""
        for file in [*self._open.values(), *self._closed]:
            (self._config.path / file.staged).unlink(missing_ok=True)
        for file in self._open.values():
            with contextlib.suppress(OSError):  # The name is gone already: this only gives the handle back.
                file.encoder.close()
        self._open, self._closed = {}, []

    def _append(self, partition: str, rows: pl.DataFrame) -> None:
        limit = self._config.rows_max
        while rows.height:
            file = self._open.get(partition) or self._begin(partition)
            part = rows.head(limit - file.rows) if limit else rows
            file.encoder.write(part)
            file.rows += part.height
            if self._is_full(file):
                self._close(partition)
            rows = rows.slice(part.height)

    def _is_full(self, file: _OpenFile) -> bool:
        config = self._config
        if config.rows_max and file.rows >= config.rows_max:
            return True
        if config.bytes_max and file.encoder.size_bytes >= config.bytes_max:
            return True
        return config.age_max_ms is not None and (self._clock() - file.begun_s) * 1_000 >= config.age_max_ms

    def _begin(self, partition: str) -> _OpenFile:
        if len(self._open) >= OPEN_FILES_MAX:
            self._close(max(self._open, key=lambda name: self._open[name].encoder.size_bytes))
        staged = self._names.staged(self._attempt, self._subtask, self._next, self._config.extension)
        path = self._config.path / staged
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _OpenFile(self._next, partition, staged, encoder(self._config, path), self._clock())
        self._next += 1
        self._open[partition] = file
        return file

    def _close(self, partition: str) -> None:
        file = self._open.pop(partition)
        self._closed.append(file)
        file.encoder.close()
        file.size_bytes = (self._config.path / file.staged).stat().st_size

    def _staged(self, file: _OpenFile, checkpoint: CheckpointId) -> StagedFile:
        final = self._names.final(
            file.partition, checkpoint, self._attempt, self._subtask, file.number, self._config.extension
        )
        return StagedFile(
            staged=file.staged, final=final, rows=file.rows, size_bytes=file.size_bytes, join_bytes=self._joined(file)
        )

    def _joined(self, file: _OpenFile) -> int:
        """Decided here and carried in the committable: two commits of it must not differ, whatever options the later one has."""
        config = self._config
        if config.rows_max or config.age_max_ms is not None:
            return 0  # The user has said how much goes into a file, or when it ends.
        return (config.bytes_max or FILE_BYTES_MAX) if file.size_bytes < config.small_bytes else 0


def encoder(config: FileSinkConfig, path: Path) -> Encoder:
    """Begins a file of the sink's format at ``path``."""
    match config.format, config.text:
        case "json", text if text is not None:
            return LinesEncoder(path, JsonLines(config.stored, text), text)
        case "csv", text if text is not None:
            return LinesEncoder(path, CsvLines(config.stored, text), text)
        case "text", text if text is not None:
            return LinesEncoder(path, TextLines(config.stored), text)
        case _:
            return ParquetEncoder(path, config.stored, config.codec)
