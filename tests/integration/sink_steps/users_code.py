"""What a user brings to sinks that call his code: a data source that can be written to, and a function for ``foreachBatch``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import Row, StructType
from tests.integration.sink_steps.pipeline import RealSinks

import tidegate
from tidegate.connectors.foreach_batch.parts import BatchPart, decode_rows
from tidegate.connectors.home import Home
from tidegate.model.ids import Attempt, BatchId, SlotIndex
from tidegate.plan.relational import Sink
from tidegate.ports.sink import SinkCommitter, SinkWriter
from tidegate.ports.store import BlobStore


@dataclass
class Staged(WriterCommitMessage):
    name: str


class Numbers(DataSource):
    """Lines in files: staged by ``write``, visible after ``commit``."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return NumbersWriter(Path(self.options["folder"]))


class NumbersWriter(DataSourceStreamWriter):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, iterator: Iterator[Row]) -> Staged:
        name = uuid4().hex
        staged = self._folder / "staged"
        staged.mkdir(exist_ok=True)
        (staged / name).write_text("".join(f"{row.id}\n" for row in iterator))
        return Staged(name)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Safe to repeat: whoever comes second finds the file in its place, under the same id."""
        visible = self._folder / "visible"
        visible.mkdir(exist_ok=True)
        for message in messages:
            assert isinstance(message, Staged)
            place = visible / f"{batchId}-{message.name}"
            try:
                (self._folder / "staged" / message.name).rename(place)
            except FileNotFoundError:
                if not place.exists():
                    raise

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        for message in messages:
            assert isinstance(message, Staged)
            (self._folder / "staged" / message.name).unlink(missing_ok=True)


@dataclass(frozen=True)
class Batches:
    """``foreachBatch`` with a function that is safe to repeat. A batch that comes again must hold the same rows, and none may be left out
    before it."""

    folder: Path

    def writer(self, sink: Sink, home: Home, attempt: Attempt, subtask: SlotIndex) -> SinkWriter:
        return RealSinks().writer(sink, home, attempt, subtask)

    def committer(self, sink: Sink, home: Home) -> SinkCommitter:
        store = home.store

        def call(batch: BatchId, parts: tuple[BatchPart, ...]) -> None:
            frames = [decode_rows(part, part.data if part.data is not None else _read(store, part)) for part in parts]
            assert tidegate.batch().id == batch
            self._put(batch, [row for frame in frames for row in frame["id"].to_list()])

        return RealSinks().at(home).committer(sink, call)

    def _put(self, batch: BatchId, rows: list[int]) -> None:
        path, new = self.folder / f"batch-{batch}", self.folder / f"new-{os.getpid()}"
        text = "".join(f"{row}\n" for row in rows)
        assert not path.exists() or path.read_text() == text, f"batch {batch} came again with other rows"
        assert not batch or (self.folder / f"batch-{batch - 1}").exists(), f"there is no batch before batch {batch}"
        new.write_text(text)
        new.replace(path)


def _read(store: BlobStore, part: BatchPart) -> bytes:
    data = store.read(part.key)
    assert data is not None
    return data
