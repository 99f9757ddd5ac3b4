"""Transactional file output, slot side: rows go to staged files that end at every checkpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO

import msgspec
import polars as pl
import pyarrow as pa

from tidegate.connectors.files.encoders import Encoder, ParquetEncoder
from tidegate.connectors.files.local_directory import directory_at
from tidegate.connectors.files.partitions import directory_names
from tidegate.connectors.files.sink_config import FILE_BYTES_MAX, FileSinkConfig, parse_sink
from tidegate.connectors.files.staging import FilesToCommit, StagedFile, StagingNames
from tidegate.connectors.files.text_encoders import CsvLines, JsonLines, LinesEncoder, TextLines
from tidegate.connectors.legacy import Sink, SinkConnector
from tidegate.model.errors import TidegateError
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.os_errors import explain
from tidegate.ports.directory import Draft, OpenDirectory, OutputDirectory
from tidegate.ports.sink import SinkWriter

OPEN_FILES_MAX = 256
"""Partitions written at once; beyond that the fullest file is closed first."""


class FileSink(SinkConnector):
    """Slot side."""

    guarantee = "exactly_once"

    def __init__(self) -> None:
        self._open_remote: OpenDirectory | None = None

    def reach(self, open_directory: OpenDirectory) -> None:
        self._open_remote = open_directory

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> FileSinkWriter:
        config = parse_sink(sink)
        output = directory_at(config.location, self._open_remote)
        return FileSinkWriter(config, StagingNames.of(sink), attempt, subtask, output=output)


@dataclass(slots=True)
class _OpenFile:
    number: int
    partition: str
    staged: str
    draft: Draft
    encoder: Encoder
    begun_s: float
    rows: int = 0
    kept: Future[int] | None = None
    """Its size in bytes, when it is kept. None: it is still open."""


class FileSinkWriter(SinkWriter):
    """Stages files. Nothing written: no file. Names carry the attempt, so a zombie never writes into a successor's file.

    A file ends at the next checkpoint at the latest: its rows are durable and visible with that checkpoint, never later. Where a
    file takes a while to be kept, several are on their way at the same time, and rows are written meanwhile.
    """

    def __init__(
        self,
        config: FileSinkConfig,
        names: StagingNames,
        attempt: Attempt,
        subtask: SlotIndex,
        clock: Callable[[], float] = time.monotonic,
        output: OutputDirectory | None = None,
    ) -> None:
        """``output``: the directory of ``config``, if it is not a local one."""
        self._config = config
        self._names = names
        self._attempt = attempt
        self._subtask = subtask
        self._clock = clock
        self._output = output or directory_at(config.location, None)
        self._keepers = _keepers(self._output)
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
            raise explain(error, "write to", self._config.location) from error

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        try:
            for name in list(self._open):
                self._close(name)
            files = tuple(self._staged(file, checkpoint) for file in self._closed)
            self._output.settle(file.staged for file in files)
        except OSError as error:
            raise explain(error, "write to", self._config.location) from error
        self._closed = []
        return (msgspec.msgpack.encode(FilesToCommit(files=files)),) if files else ()

    def close(self) -> None:
        """What was not prepared is not wanted; a file left behind by a crash is swept by a later attempt."""
        if self._keepers is not None:
            self._keepers.shutdown(wait=False, cancel_futures=True)
        for file in self._open.values():
            # The file goes next: this only ends what writes into it, and may have failed before.
            with contextlib.suppress(OSError, pa.ArrowException):
                file.encoder.close()
        for file in [*self._open.values(), *self._closed]:
            if file.kept is None or file.kept.cancelled():
                file.draft.discard()
        # One that is on its way just now is swept. So are all when the store does not answer: one wait for it is enough.
        with contextlib.suppress(OSError, TidegateError):
            for file in self._closed:
                if file.kept is not None and file.kept.done() and not file.kept.cancelled():
                    self._output.delete(file.staged)
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
        if self._bytes_max and file.encoder.size_bytes >= self._bytes_max:
            return True
        return config.age_max_ms is not None and (self._clock() - file.begun_s) * 1_000 >= config.age_max_ms

    @property
    def _bytes_max(self) -> int:
        limits = (self._config.bytes_max, self._output.file_bytes_max)
        return min((limit for limit in limits if limit), default=0)

    def _begin(self, partition: str) -> _OpenFile:
        if len(self._open) >= OPEN_FILES_MAX:
            self._close(max(self._open, key=lambda name: self._open[name].encoder.size_bytes))
        staged = self._names.staged(self._attempt, self._subtask, self._next, self._config.extension)
        draft = self._output.draft(staged)
        file = _OpenFile(self._next, partition, staged, draft, encoder(self._config, draft.file), self._clock())
        self._next += 1
        self._open[partition] = file
        return file

    def _close(self, partition: str) -> None:
        file = self._open.pop(partition)
        self._closed.append(file)
        file.encoder.close()
        if self._keepers is None:
            file.kept = Future()
            file.kept.set_result(file.draft.keep())
            return
        file.kept = self._keepers.submit(file.draft.keep)
        # A store that is slower than the rows slows them: only so many files wait for it.
        waiting = [one.kept for one in self._closed if one.kept is not None and not one.kept.done()]
        if len(waiting) > 2 * self._output.requests_at_once:
            waiting[0].result()

    def _staged(self, file: _OpenFile, checkpoint: CheckpointId) -> StagedFile:
        """Waits until the file is kept."""
        size_bytes = file.kept.result() if file.kept is not None else 0
        final = self._names.final(
            file.partition, checkpoint, self._attempt, self._subtask, file.number, self._config.extension
        )
        return StagedFile(
            staged=file.staged,
            final=final,
            rows=file.rows,
            size_bytes=size_bytes,
            join_bytes=self._joined(size_bytes),
        )

    def _joined(self, size_bytes: int) -> int:
        """Decided here and carried in the committable: two commits of it must not differ, whatever options the later one has."""
        config = self._config
        if config.rows_max or config.age_max_ms is not None:
            return 0  # The user has said how much goes into a file, or when it ends.
        return (config.bytes_max or FILE_BYTES_MAX) if size_bytes < config.small_bytes else 0


def _keepers(output: OutputDirectory) -> ThreadPoolExecutor | None:
    """None: a file is kept when it is closed, while one waits."""
    at_once = output.requests_at_once
    return ThreadPoolExecutor(at_once, "tidegate-keep") if at_once > 1 else None


def encoder(config: FileSinkConfig, file: IO[bytes]) -> Encoder:
    """Begins a file of the sink's format."""
    match config.format, config.text:
        case "json", text if text is not None:
            return LinesEncoder(file, JsonLines(config.stored, text), text)
        case "csv", text if text is not None:
            return LinesEncoder(file, CsvLines(config.stored, text), text)
        case "text", text if text is not None:
            return LinesEncoder(file, TextLines(config.stored), text)
        case _:
            return ParquetEncoder(file, config.stored, config.codec)
