"""Code of a user in golden queries. Locations name its classes: they stay here, under these names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import Row, StructType


@dataclass
class Numbered(InputPartition):
    start: int
    stop: int


class Counter(DataSource):
    """Numbers from 0, some at a time, and slowly."""

    @classmethod
    def name(cls) -> str:
        return "golden-counter"

    def schema(self) -> str:
        return "v bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return CounterReader(int(self.options["rows"]))


class CounterReader(DataSourceStreamReader):
    def __init__(self, rows: int) -> None:
        self._rows = rows

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def latestOffset(self) -> dict[str, int]:
        return {"next": self._rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [Numbered(first, min(first + 500, end["next"])) for first in range(start["next"], end["next"], 500)]

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        for number in range(partition.start, partition.stop):
            time.sleep(0.001)
            yield (number,)


@dataclass
class Staged(WriterCommitMessage):
    name: str


class Numbers(DataSource):
    """Lines in files: staged by ``write``, visible after ``commit``."""

    @classmethod
    def name(cls) -> str:
        return "golden-numbers"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return NumbersWriter(Path(self.options["folder"]))


class NumbersWriter(DataSourceStreamWriter):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, iterator: Iterator[Row]) -> Staged:
        name = uuid4().hex
        staged = self._folder / "staged"
        staged.mkdir(exist_ok=True)
        (staged / name).write_text("".join(f"{row.v}\n" for row in iterator))
        return Staged(name)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Safe to repeat: whoever comes second finds the file in its place."""
        visible = self._folder / "visible"
        visible.mkdir(exist_ok=True)
        for message in messages:
            assert isinstance(message, Staged)
            try:
                (self._folder / "staged" / message.name).rename(visible / message.name)
            except FileNotFoundError:
                if not (visible / message.name).exists():
                    raise

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        for message in messages:
            assert isinstance(message, Staged)
            (self._folder / "staged" / message.name).unlink(missing_ok=True)


class Lines:
    """For ``foreach``: each row a line, at once."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def open(self, partition_id: int, epoch_id: int) -> bool:
        visible = Path(self._folder) / "visible"
        visible.mkdir(parents=True, exist_ok=True)
        self._file = (visible / uuid4().hex).open("w")
        return True

    def process(self, row: Row) -> None:
        self._file.write(f"{row.v}\n")

    def close(self, error: Exception | None) -> None:
        self._file.close()
