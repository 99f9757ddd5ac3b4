"""Transactional file output: rows go to staged files; a commit renames them into the output directory, exactly once."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
import polars as pl

from tidegate.connectors.files.config import local_path
from tidegate.connectors.files.encoders import (
    CsvEncoder,
    CsvSinkOptions,
    Encoder,
    JsonEncoder,
    ParquetEncoder,
    refuse_unwritable,
)
from tidegate.connectors.files.partitions import directory_names
from tidegate.connectors.files.staging import FilesToCommit, StagedFile, StagingNames, attempt_of, decode
from tidegate.connectors.options import Options
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.os_errors import explain
from tidegate.model.snapshot import Committable
from tidegate.model.types import Schema
from tidegate.plan.relational import OutputMode, Sink

FILE_BYTES_MAX = 256 * 1024 * 1024
"""A file is closed and the next one begun when about this much (in memory) has gone into it."""
OPEN_FILES_MAX = 256
"""Partitions written at once; beyond that the fullest file is closed first."""

_PARQUET_CODECS = ("snappy", "none", "uncompressed", "gzip", "zstd", "lz4_raw")


@dataclass(frozen=True, slots=True)
class FileSinkConfig:
    """The validated options of a file sink."""

    path: Path
    format: str
    extension: str
    codec: str
    rows_max: int
    """``maxRecordsPerFile``; 0: no limit."""
    zone: str
    partition_by: tuple[str, ...]
    stored: Schema
    """Columns inside the files: all but the partition columns."""
    csv: CsvSinkOptions | None


def parse_sink(sink: Sink, *, warn: bool = False) -> FileSinkConfig:
    options = Options(sink.options, f"{sink.format} sink")
    path = Path(local_path(options.required("path", "start(path) names the output directory"), options.what))
    if sink.mode is not OutputMode.APPEND:
        raise InvalidQuery(
            f"the {sink.format} sink cannot take back rows: output mode {sink.mode.value} is refused",
            hint="use append, or a sink that understands updates (memory, console, foreach)",
        )
    names = [field.name for field in sink.schema]
    missing = [name for name in sink.partition_by if name not in names]
    if missing:
        raise InvalidQuery(
            f"partitionBy names {', '.join(missing)}, which the result does not have",
            hint=f"its columns are {', '.join(names)}",
        )
    stored = tuple(field for field in sink.schema if field.name not in sink.partition_by)
    if not stored:
        raise InvalidQuery(
            "partitionBy names all columns: nothing is left to write", hint="keep at least one out of it"
        )
    refuse_unwritable(sink.format, stored)
    options.refuse(
        "dateFormat", "timestampFormat", "lineSep", "encoding", "quoteAll", "emptyValue", hint="leave it out"
    )
    options.ignore("checkpointLocation", "queryName", "ignoreNullFields")
    csv = CsvSinkOptions(options) if sink.format == "csv" else None
    if sink.format == "parquet":
        codec = options.choice("compression", "snappy", _PARQUET_CODECS).replace("uncompressed", "none")
        extension = "parquet" if codec == "none" else f"{codec.replace('_', '')}.parquet"
    else:
        codec = options.choice("compression", "none", ("none", "uncompressed", "gzip"))
        extension = f"{sink.format}.gz" if codec == "gzip" else sink.format
    config = FileSinkConfig(
        path=path,
        format=sink.format,
        extension=extension,
        codec=codec,
        rows_max=options.integer("maxRecordsPerFile", 0),
        zone=options.text("timeZone", "UTC") or "UTC",
        partition_by=sink.partition_by,
        stored=stored,
        csv=csv,
    )
    if warn:
        options.warn_unknown()
    return config


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
    rows: int = 0
    size_bytes: int = 0


class FileSinkWriter:
    """Stages files. Nothing written: no file. Names carry the attempt, so a zombie never writes into a successor's file."""

    def __init__(self, config: FileSinkConfig, names: StagingNames, attempt: Attempt, subtask: SlotIndex) -> None:
        self._config = config
        self._names = names
        self._attempt = attempt
        self._subtask = subtask
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
            _sync_directory(self._config.path / self._names.directory)
        except OSError as error:
            raise explain(error, "write to", self._config.path) from error
        files = tuple(
            StagedFile(
                staged=file.staged,
                final=self._names.final(
                    file.partition, checkpoint, self._attempt, self._subtask, file.number, self._config.extension
                ),
                rows=file.rows,
            )
            for file in self._closed
        )
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
            file.size_bytes += int(part.estimated_size())
            if file.size_bytes >= FILE_BYTES_MAX or (limit and file.rows >= limit):
                self._close(partition)
            rows = rows.slice(part.height)

    def _begin(self, partition: str) -> _OpenFile:
        if len(self._open) >= OPEN_FILES_MAX:
            self._close(max(self._open, key=lambda name: self._open[name].size_bytes))
        staged = self._names.staged(self._attempt, self._subtask, self._next, self._config.extension)
        path = self._config.path / staged
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _OpenFile(self._next, partition, staged, _encoder(self._config, path))
        self._next += 1
        self._open[partition] = file
        return file

    def _close(self, partition: str) -> None:
        file = self._open.pop(partition)
        self._closed.append(file)
        file.encoder.close()


class FileSinkCommitter:
    """Driver side. A rename is atomic and happens once: the staged name is gone afterwards, whoever comes second finds the
    final name and is done."""

    def __init__(self, sink: Sink) -> None:
        self._config = parse_sink(sink, warn=True)
        self._names = StagingNames.of(sink)
        try:
            self._config.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise explain(error, "make", self._config.path) from error

    def commit(self, committables: tuple[Committable, ...]) -> None:
        """The error names the file that could not be published, and whose it is; those before it are visible."""
        touched: set[Path] = set()
        for one in sorted(committables, key=lambda c: (c.checkpoint, c.subtask, c.number)):
            for file in decode(one.payload).files:
                try:
                    touched.update(self._publish(file))
                except OSError as error:
                    whose = f"of checkpoint {one.checkpoint}, subtask {one.subtask}"
                    raise explain(
                        error, f"commit {file.staged} ({whose}) as", self._config.path / file.final
                    ) from error
        try:
            for directory in sorted(touched):
                _sync_directory(directory)
        except OSError as error:
            raise explain(error, "commit to", self._config.path) from error

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        kept = {file.staged for one in keep for file in decode(one.payload).files}
        directory = self._config.path / self._names.directory
        try:
            for path in sorted(directory.iterdir()) if directory.is_dir() else ():
                attempt = attempt_of(path.name)
                if attempt is not None and attempt < older_than and f"{self._names.directory}/{path.name}" not in kept:
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise explain(error, "clean up", directory) from error

    def _publish(self, file: StagedFile) -> list[Path]:
        """Returns the directories whose entries may have changed."""
        staged, final = self._config.path / file.staged, self._config.path / file.final
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(staged, final)  # noqa: PTH104 - one call, one effect
        except FileNotFoundError:
            if not final.exists():
                raise CorruptSnapshot(
                    f"output file {final} was prepared by a completed checkpoint, but neither it nor {staged} exists",
                    hint="somebody deleted it: bring it back, or accept the loss and start from a new checkpoint location",
                ) from None
        return [
            parent for parent in final.parents if parent == self._config.path or self._config.path in parent.parents
        ]


def _encoder(config: FileSinkConfig, path: Path) -> Encoder:
    match config.format:
        case "parquet":
            return ParquetEncoder(path, config.stored, config.codec)
        case "json":
            return JsonEncoder(path, config.stored, config.codec)
        case _:
            assert config.csv is not None
            return CsvEncoder(path, config.stored, config.csv)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
