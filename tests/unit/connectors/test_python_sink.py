"""A user's streaming writer without Spark: what is called where, how often, and with what."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pytest
from pyspark.serializers import CPickleSerializer
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import LongType, StructField, StructType
from tests.nodes import ByNode, planned_sink

import tidegate
from tidegate.connectors.legacy import PIPELINE, Sink
from tidegate.connectors.python_sink import sink as module
from tidegate.connectors.python_sink.sink import PythonSinkCommitter, PythonSinkWriter
from tidegate.connectors.python_source.payload import pack
from tidegate.model import types as t
from tidegate.model.batch_ids import BatchIds
from tidegate.model.errors import DataError, InvalidQuery, UserCodeFailed
from tidegate.model.ids import Attempt, BatchId, CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable
from tidegate.model.types import Field
from tidegate.storage.local import LocalBlobStore

SCHEMA = StructType([StructField("n", LongType())])
SEEN: list[Any] = []
"""What the writers below were asked for; emptied before each test."""
GIVEN = tuple((CheckpointId(checkpoint), BatchId(checkpoint - 1)) for checkpoint in range(1, 10))
"""Every checkpoint of these tests has brought rows."""


@dataclass
class Wrote(WriterCommitMessage):
    numbers: list[int]


class RowWriter(DataSourceStreamWriter):
    def write(self, iterator: Iterator[Any]) -> Wrote:
        try:
            numbers = [row.n for row in iterator]
        finally:
            SEEN.append("write over")
        if 13 in numbers:
            raise ValueError("thirteen")
        return Wrote(numbers)

    def commit(self, messages: list[Any], batchId: int) -> None:
        SEEN.append(("commit", [message.numbers for message in messages], batchId))
        SEEN.append(("name", tidegate.batch().name, tidegate.batch().id))

    def abort(self, messages: list[Any], batchId: int) -> None:
        SEEN.append(("abort", [message.numbers for message in messages], batchId))
        SEEN.append(("name", tidegate.batch().name, tidegate.batch().id))


class ArrowWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Wrote:
        return Wrote([n for batch in iterator for n in batch.column("n").to_pylist()])

    def commit(self, messages: list[Any], batchId: int) -> None:
        SEEN.append(("commit", [message.numbers for message in messages], batchId))


class FirstTwo(DataSourceStreamWriter):
    """Leaves its iterator unread."""

    def write(self, iterator: Iterator[Any]) -> Wrote:
        return Wrote([next(iterator).n, next(iterator).n])


class NoMessage(DataSourceStreamWriter):
    def write(self, iterator: Iterator[Any]) -> Any:
        list(iterator)


class FailingCommit(RowWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:
        raise ConnectionError("the other side is down")


class Recorder(DataSource):
    writer_kind: type[Any] = RowWriter

    @classmethod
    def name(cls) -> str:
        return "recorder"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        SEEN.append(("made", schema.fieldNames(), overwrite, self.options.get("TARGET")))
        return self.writer_kind()


class ReadOnly(DataSource):
    @classmethod
    def name(cls) -> str:
        return "recorder"


@pytest.fixture(autouse=True)
def empty() -> None:
    SEEN.clear()


@pytest.fixture
def store(tmp_path: Path) -> LocalBlobStore:
    return LocalBlobStore(tmp_path)


def sink_of(kind: type[Any] = RowWriter, mode: OutputMode = OutputMode.APPEND) -> Sink:
    source = type("Recorder", (Recorder,), {"writer_kind": kind, "__module__": __name__})
    return Sink(
        id=OperatorId("sink-0"),
        format="recorder",
        options={"target": "here", PIPELINE: "p1"},
        columns=(("n", "n"),),
        schema=(Field("n", t.LONG),),
        mode=mode,
        payload=pack(source, {"target": "here"}, SCHEMA),
    )


def rows(*numbers: int) -> pl.DataFrame:
    return pl.DataFrame({"n": list(numbers)}, schema={"n": pl.Int64})


def writer(store: LocalBlobStore, sink: Sink, attempt: int = 1, subtask: int = 0) -> PythonSinkWriter:
    made = ByNode(store).sink(sink).writer(sink, Attempt(attempt), SlotIndex(subtask))
    assert isinstance(made, PythonSinkWriter)
    return made


def driver(store: LocalBlobStore, sink: Sink) -> PythonSinkCommitter:
    made = ByNode(store).committer(sink)
    assert isinstance(made, PythonSinkCommitter)
    made.number_batches(BatchIds(sink.id, BatchId(len(GIVEN)), GIVEN))
    return made


def prepared(to: PythonSinkWriter, checkpoint: int, subtask: int = 0) -> tuple[Committable, ...]:
    return tuple(
        Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(subtask), number=n, payload=payload)
        for n, payload in enumerate(to.prepare(CheckpointId(checkpoint)))
    )


def wrote(
    store: LocalBlobStore, sink: Sink, frame: pl.DataFrame, checkpoint: int, attempt: int = 1, subtask: int = 0
) -> tuple[Committable, ...]:
    to = writer(store, sink, attempt, subtask)
    to.write(frame)
    ready = prepared(to, checkpoint, subtask)
    to.close()
    return ready


def calls(kind: str) -> list[Any]:
    return [seen[1:] for seen in SEEN if seen[0] == kind]


@pytest.mark.parametrize("kind", [RowWriter, ArrowWriter])
def test_write_per_subtask_and_checkpoint_and_one_commit_with_all_messages(
    store: LocalBlobStore, kind: type[Any]
) -> None:
    sink = sink_of(kind)
    to, other = writer(store, sink), writer(store, sink, subtask=1)
    to.write(rows(1, 2))
    to.write(rows(3))
    other.write(rows(4))
    first = prepared(to, 5) + prepared(other, 5, 1)
    to.write(rows(6))
    second = prepared(to, 6) + prepared(other, 6, 1)
    assert calls("commit") == [], "nothing is committed before the checkpoint is complete"
    driver(store, sink).commit(first + second)
    assert calls("commit") == [([[1, 2, 3], [4]], 4), ([[6]], 5)]
    assert calls("made")[0] == (["n"], False, "here")


def test_a_commit_that_returned_is_not_repeated_and_one_that_failed_is(store: LocalBlobStore) -> None:
    sink = sink_of()
    ready = wrote(store, sink, rows(1), 1)
    with pytest.raises(UserCodeFailed, match=r"the other side is down[\s\S]*in commit\(\) of batch 0"):
        driver(store, replace(sink, payload=sink_of(FailingCommit).payload)).commit(ready)
    for _ in range(3):
        driver(store, sink).commit(ready)
    assert calls("commit") == [([[1]], 0)]
    assert store.list("batches/sink-0/waiting/") == ()


def test_messages_that_an_earlier_version_pickled_are_committed_and_aborted(store: LocalBlobStore) -> None:
    """T83: read through the same door as today's (``test_commit_messages.py``)."""
    sink = sink_of()

    def pickled(numbers: list[int], checkpoint: int) -> Committable:
        message = CPickleSerializer().dumps(Wrote(numbers))
        key = module.Batches(store, sink.id).put(Attempt(1), SlotIndex(0), checkpoint, message)
        payload = msgspec.msgpack.encode(module.PickledMessage(attempt=Attempt(1), key=key, message=message))
        return Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(0), number=0, payload=payload)

    held, _ = pickled([1, 2], 1), pickled([3], 2)
    committer = driver(store, sink)
    committer.sweep(Attempt(2), (held,))
    committer.commit((held,))
    assert calls("commit") == [([[1, 2]], 0)] and [messages for messages, _ in calls("abort")] == [[[3]]]


def test_abort_gets_what_older_attempts_wrote_and_no_checkpoint_holds(store: LocalBlobStore) -> None:
    sink = sink_of()
    committed = wrote(store, sink, rows(1), 1)
    lost = wrote(store, sink, rows(2), 2) + wrote(store, sink, rows(3), 2, subtask=1)
    committer = driver(store, sink)
    committer.commit(committed)
    committer.sweep(Attempt(1), ())
    assert calls("abort") == [], "its own attempt may still complete it"
    newer = wrote(store, sink, rows(4), 2, attempt=2)
    committer.number_batches(BatchIds(sink.id, BatchId(1)))
    committer.sweep(Attempt(2), committed)
    committer.sweep(Attempt(2), committed)
    assert calls("abort") == [([[2], [3]], 1)], "the next batch is what it would have been"
    committer.number_batches(BatchIds(sink.id, BatchId(2), ((CheckpointId(2), BatchId(1)),)))
    committer.commit(newer)
    assert calls("commit") == [([[1]], 0), ([[4]], 1)] and len(lost) == 2
    assert calls("name") == [("p1-sink-0", 0), ("p1-sink-0", 1), ("p1-sink-0", 1)]


def test_what_a_checkpoint_holds_is_never_aborted(store: LocalBlobStore) -> None:
    sink = sink_of()
    held = wrote(store, sink, rows(1), 1)
    committer = driver(store, sink)
    committer.sweep(Attempt(2), held)
    committer.commit(held)
    assert calls("abort") == [] and calls("commit") == [([[1]], 0)]


def test_what_was_committed_is_never_aborted_even_if_its_traces_stayed(
    store: LocalBlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver died after commit() and the marker, before the message was deleted; then another checkpoint is the newest one."""
    sink = sink_of()
    ready = wrote(store, sink, rows(1), 1)
    committer = driver(store, sink)
    with monkeypatch.context() as dying:
        dying.setattr(store, "delete", lambda key: None)
        committer.commit(ready)
    assert len(store.list("batches/sink-0/waiting/")) == 1
    committer.sweep(Attempt(2), ())
    assert calls("abort") == [] and store.list("batches/sink-0/waiting/") == ()


def test_an_error_of_write_reaches_the_slot_with_the_users_traceback(store: LocalBlobStore) -> None:
    to = writer(store, sink_of())
    with pytest.raises(UserCodeFailed, match=r"ValueError: thirteen[\s\S]*in write\(\)"):
        to.write(rows(13))
        to.prepare(CheckpointId(1))
    to.close()


def test_a_writer_that_leaves_rows_unread_gets_no_more_and_blocks_nobody(store: LocalBlobStore) -> None:
    sink = sink_of(FirstTwo)
    to = writer(store, sink)
    for n in range(50):
        to.write(rows(n))
    (ready,) = prepared(to, 1)
    assert ready.checkpoint == 1


def test_a_message_that_is_none_is_refused_as_in_spark(store: LocalBlobStore) -> None:
    to = writer(store, sink_of(NoMessage))
    to.write(rows(1))
    with pytest.raises(DataError, match="returned a NoneType"):
        to.prepare(CheckpointId(1))


def test_rows_of_an_attempt_that_ended_are_not_committed_and_the_users_code_ends(store: LocalBlobStore) -> None:
    before = threading.active_count()
    to = writer(store, sink_of())
    to.write(rows(1))
    to.close()
    assert SEEN[-1] == "write over" and threading.active_count() == before
    assert store.list("batches/") == ()


def test_the_slot_waits_while_the_users_code_is_behind(store: LocalBlobStore) -> None:
    go = threading.Event()

    class Slow(RowWriter):
        def write(self, iterator: Iterator[Any]) -> Wrote:
            assert go.wait(30)
            return super().write(iterator)

    to = PythonSinkWriter(
        replace(module.UserSink.of(sink_of().payload, planned_sink(sink_of()).spec), datasource=_source(Slow())),
        module.Batches(store, OperatorId("sink-0")),
        Attempt(1),
        SlotIndex(0),
    )
    pushed: list[int] = []

    def push() -> None:
        for n in range(12):
            to.write(rows(n))
            pushed.append(n)

    pusher = threading.Thread(target=push)
    pusher.start()
    pusher.join(0.3)
    assert pusher.is_alive() and len(pushed) <= 5
    go.set()
    pusher.join(30)
    (ready,) = prepared(to, 1)
    driver(store, sink_of()).commit((ready,))
    assert calls("commit") == [([list(range(12))], 0)]


def _source(writer: DataSourceStreamWriter) -> DataSource:
    class Given(DataSource):
        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            return writer

    return Given({})


def test_complete_mode_overwrites_and_writes_an_empty_result_too(store: LocalBlobStore) -> None:
    sink = sink_of(mode=OutputMode.COMPLETE)
    to = writer(store, sink)
    driver(store, sink).commit(prepared(to, 1))
    assert calls("commit") == [([[]], 0)] and calls("made")[0] == (["n"], True, "here")


def test_a_source_that_cannot_be_written_to_is_refused_at_start(store: LocalBlobStore) -> None:
    with pytest.raises(InvalidQuery, match="recorder cannot be written to as a stream"):
        driver(store, replace(sink_of(), payload=pack(ReadOnly, {}, SCHEMA)))
    with pytest.raises(InvalidQuery, match="gave a int"):
        driver(store, sink_of(int))
    with pytest.raises(InvalidQuery, match="partitionBy"):
        ByNode().sink(replace(sink_of(), partition_by=("n",)))
