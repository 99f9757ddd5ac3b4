"""The slot side of the file sources: opens a discovered file with the reader of its format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import polars as pl

from tidegate.connectors.files.config import FileSourceConfig, is_remote, parse_source
from tidegate.connectors.files.csv import csv_parser
from tidegate.connectors.files.found import split_pattern, without_braces
from tidegate.connectors.files.metadata import METADATA, metadata_of
from tidegate.connectors.files.parquet import ParquetReader
from tidegate.connectors.files.partitions import partition_values
from tidegate.connectors.files.promises import TimePromise
from tidegate.connectors.files.records import LineReader, ParseLines, json_parser, text_parser
from tidegate.connectors.files.remote_reader import RemoteReader
from tidegate.connectors.files.splits import FileSplit, LinePosition, ParquetPosition, SourceFile, decode_split
from tidegate.connectors.legacy import Scan
from tidegate.connectors.rows import RowShape
from tidegate.connectors.text_values import from_text
from tidegate.model.errors import Bug, DataError, Unavailable
from tidegate.model.snapshot import Split
from tidegate.model.types import Field, Schema, simple_string
from tidegate.ports.directory import LocalCopy, OpenDirectory, RemoteDirectory
from tidegate.ports.source import SourceConnector, SplitReader


class FileSource(SourceConnector):
    """Files are read whole and never again; the schema given by the user wins over what the files say."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._config: FileSourceConfig = parse_source(scan)
        self._shape = RowShape(scan)
        self._open_directory: OpenDirectory | None = None
        self._directories: list[RemoteDirectory] = []
        """Opened so far, with their connections."""

    def reach(self, open_directory: OpenDirectory) -> None:
        self._open_directory = open_directory

    def open(self, split: Split, position: bytes | None) -> SplitReader:
        file = decode_split(split.payload)
        if is_remote(file.path):
            return self._await(file, position)
        with _explained(file.path):
            _check_unchanged(file, Path(file.path).stat().st_size)
            return self._reader(file, SourceFile(file.path, file.path), position)

    def _await(self, file: FileSplit, position: bytes | None) -> RemoteReader:
        copy = self._fetch(file.path)

        def open_copy() -> SplitReader | None:
            with _explained(file.path):
                status = copy.status
                if status is None:
                    return None
                _check_unchanged(file, status.size_bytes)
                return self._reader(file, SourceFile(copy.path, file.path), position)

        return RemoteReader(file.path, copy, open_copy, position or self._beginning)

    def _fetch(self, url: str) -> LocalCopy:
        directory = next((one for one in self._directories if url.startswith(f"{one.url}/")), None)
        if directory is None:
            if self._open_directory is None:
                raise Bug(f"the files source was not told how to reach {url}")
            # The bucket may have had another scheme when the file was found: the driver has seen to it that it is the same place.
            above = [
                root for root, _ in map(split_pattern, without_braces(self._config.path)) if url.startswith(f"{root}/")
            ]
            directory = self._open_directory(above[0] if above else url.rpartition("/")[0])
            self._directories.append(directory)
        return directory.fetch(url.removeprefix(f"{directory.url}/"))

    @property
    def _beginning(self) -> bytes:
        return msgspec.msgpack.encode(ParquetPosition() if self._config.format == "parquet" else LinePosition())

    def _reader(self, split: FileSplit, file: SourceFile, position: bytes | None) -> SplitReader:
        constants = self._path_columns(file.name) | self._metadata(file)
        match self._config.format:
            case "parquet":
                return ParquetReader(file, self._shape, constants, position, self._promise(split))
            case _:
                return LineReader(file, self._shape, constants, self._parser(constants), position)

    def _promise(self, split: FileSplit) -> TimePromise | None:
        column = self._config.timed_by
        earliest_us = split.earliest_in(column)
        if earliest_us is None:
            return None
        return TimePromise(self._scan.schema[self._scan.columns.index(column)].name, earliest_us)

    def _parser(self, constants: dict[str, pl.Series]) -> ParseLines:
        stored = tuple(field for field in self._source_fields if field.name not in constants)
        wanted = tuple(name for name in self._scan.columns if name not in constants)
        match self._config.format:
            case "csv":
                return csv_parser(self._config, stored, wanted)
            case "json":
                return json_parser(self._config, tuple(field for field in stored if field.name in wanted))
            case _:
                return text_parser(stored[0].name)

    @property
    def _source_fields(self) -> Schema:
        """All columns of the source; a plan built by hand may name only those it reads."""
        named = zip(self._scan.columns, self._scan.schema, strict=True)
        return self._scan.source_schema or tuple(Field(name, field.type) for name, field in named)

    def _path_columns(self, path: str) -> dict[str, pl.Series]:
        """Partition columns of the schema, with the one value that the file's directories give each of them."""
        kinds = {field.name: field.type for field in self._source_fields}
        columns: dict[str, pl.Series] = {}
        for name, text in partition_values(path).items():
            if name not in kinds:
                continue
            raw = pl.Series(name, [text], dtype=pl.String)
            columns[name] = raw.to_frame().select(from_text(pl.col(name), kinds[name], self._config.zone)).to_series()
            if text is not None and columns[name][0] is None:
                raise DataError(
                    f"directory {name}={text} of {path} is no {simple_string(kinds[name])}",
                    hint=f"declare {name} as string, or rename the directory",
                )
        return columns

    def _metadata(self, file: SourceFile) -> dict[str, pl.Series]:
        named = zip(self._scan.columns, self._scan.schema, strict=True)
        return {name: metadata_of(file, field.type) for name, field in named if name == METADATA}


def _check_unchanged(file: FileSplit, size_bytes: int) -> None:
    if size_bytes != file.size_bytes:
        raise DataError(
            f"the source file {file.path} was changed after it was discovered: {file.size_bytes} bytes then, {size_bytes} now",
            hint="write files elsewhere and move them in when they are complete; never append to or replace them",
        )


@contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise Unavailable(
            f"the source file {path} was deleted before it was read",
            hint="put it back, or start from a new checkpoint location; source files must stay until they are read",
        ) from error
    except PermissionError as error:
        raise Unavailable(
            f"may not read the source file {path}", hint="give the user that runs the executors read permission"
        ) from error
