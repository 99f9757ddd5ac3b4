"""``foreachBatch`` without Spark: what waits, who is called, when it is over."""

from __future__ import annotations

import io
import threading
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.nodes import ByNode

import tidegate
from tidegate.connectors import batches
from tidegate.connectors.foreach_batch import sink as module
from tidegate.connectors.foreach_batch.parts import BatchPart, decode_rows
from tidegate.connectors.foreach_batch.sink import CallBatch, ForeachBatchCommitter
from tidegate.connectors.legacy import PIPELINE, Sink
from tidegate.model import types as t
from tidegate.model.batch_ids import BatchIds
from tidegate.model.errors import Bug, CorruptSnapshot, InvalidQuery, Unavailable
from tidegate.model.ids import Attempt, BatchId, CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable, Published
from tidegate.model.types import Field
from tidegate.storage.local import LocalBlobStore

SINK = Sink(
    id=OperatorId("sink-0"),
    format="foreachbatch",
    options={PIPELINE: "p1"},
    columns=(("n", "n"), ("s", "s")),
    schema=(Field("n", t.LONG), Field("s", t.STRING)),
)
GIVEN = tuple((CheckpointId(checkpoint), BatchId(checkpoint - 1)) for checkpoint in range(1, 10))
"""Every checkpoint of these tests has brought rows."""


def rows(*numbers: int, width: int = 1) -> pl.DataFrame:
    """``width``: bytes per row that no compression takes away."""
    noise = pl.Series([f"{n:x}".rjust(width, "0") for n in numbers]) if width == 1 else _noise(len(numbers), width)
    return pl.DataFrame({"n": list(numbers), "s": noise}, schema={"n": pl.Int64, "s": pl.String})


def _noise(count: int, width: int) -> pl.Series:
    from random import Random

    return pl.Series([Random(n).randbytes(width // 2).hex() for n in range(count)])


class Calls:
    """The user's function, and the parts it would read a DataFrame from."""

    def __init__(self, store: LocalBlobStore) -> None:
        self.store = store
        self.seen: list[tuple[int, list[int]]] = []
        self.names: list[tuple[str, int]] = []
        self.failure: Exception | None = None

    def __call__(self, batch: BatchId, parts: tuple[BatchPart, ...]) -> None:
        found: list[int] = []
        for part in parts:
            data = part.data if part.data is not None else self.store.read(part.key)
            assert data is not None, "rows of a batch that is not done are gone"
            found += decode_rows(part, data)["n"].to_list()
        self.seen.append((batch, found))
        self.names.append((tidegate.batch().name, tidegate.batch().id))
        if self.failure is not None:
            raise self.failure


def prepared(
    store: LocalBlobStore,
    frames: list[pl.DataFrame],
    checkpoint: int,
    attempt: int = 1,
    subtask: int = 0,
    sink: Sink = SINK,
) -> tuple[Committable, ...]:
    writer = ByNode(store).sink(sink).writer(sink, Attempt(attempt), SlotIndex(subtask))
    for frame in frames:
        writer.write(frame)
    payloads = writer.prepare(CheckpointId(checkpoint))
    writer.close()
    return tuple(
        Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(subtask), number=n, payload=payload)
        for n, payload in enumerate(payloads)
    )


def driver(store: LocalBlobStore, calls: CallBatch, sink: Sink = SINK) -> ForeachBatchCommitter:
    made = ByNode(store).committer(sink, calls)
    assert isinstance(made, ForeachBatchCommitter)
    made.number_batches(BatchIds(sink.id, BatchId(len(GIVEN)), GIVEN))
    return made


@pytest.fixture
def store(tmp_path: Path) -> LocalBlobStore:
    return LocalBlobStore(tmp_path)


def test_each_checkpoint_is_one_call_with_its_own_rows_in_order(store: LocalBlobStore) -> None:
    """T6: checkpoint 3 failed, and what it prepared is carried by 4; both come, each with its rows and its id."""
    calls = Calls(store)
    third = prepared(store, [rows(1, 2), rows(3)], 3) + prepared(store, [rows(4)], 3, subtask=1)
    fourth = prepared(store, [rows(5)], 4)
    driver(store, calls).commit(fourth + third)
    assert calls.seen == [(2, [1, 2, 3, 4]), (3, [5])]
    assert prepared(store, [], 5) == ()


def test_a_call_that_returned_is_not_repeated_by_anybody(store: LocalBlobStore) -> None:
    """T1, T9: another driver, a later attempt, a zombie."""
    calls = Calls(store)
    ready = prepared(store, [rows(1, width=100_000)], 1)
    first = driver(store, calls)
    for each in (first, first, driver(store, calls)):
        each.commit(ready)
    assert calls.seen == [(0, [1])]
    assert store.list("batches/sink-0/waiting/") == ()


def test_a_call_that_failed_is_repeated_with_the_same_rows(store: LocalBlobStore) -> None:
    calls = Calls(store)
    ready = prepared(store, [rows(1, 2, width=100_000)], 7) + prepared(store, [rows(3)], 7, subtask=1)
    calls.failure = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        driver(store, calls).commit(ready)
    calls.failure = None
    driver(store, calls).commit(ready)
    assert calls.seen == [(6, [1, 2, 3])] * 2


def test_rows_are_there_until_the_call_is_known_to_be_done(
    store: LocalBlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T3: the marker's outcome is unknown; the batch is repeated, with the same rows."""
    calls = Calls(store)
    ready = prepared(store, [rows(1, width=100_000)], 1)

    def unknown(key: str, data: bytes) -> None:
        raise Unavailable("no answer")

    with monkeypatch.context() as broken:
        broken.setattr(store, "create", unknown)
        with pytest.raises(Unavailable):
            driver(store, calls).commit(ready)
    driver(store, calls).commit(ready)
    assert calls.seen == [(0, [1])] * 2


def test_many_rows_are_stored_in_parts_as_they_come(store: LocalBlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES_MAX", 200_000)
    calls = Calls(store)
    ready = prepared(store, [rows(n, width=100_000) for n in range(5)], 1)
    assert len(store.list("batches/sink-0/waiting/")) == 3
    driver(store, calls).commit(ready)
    assert calls.seen == [(0, [0, 1, 2, 3, 4])]


def test_the_sweep_takes_what_older_attempts_left_and_nothing_else(store: LocalBlobStore) -> None:
    calls = Calls(store)
    kept, _ = prepared(store, [rows(1, width=100_000)], 1), prepared(store, [rows(2, width=100_000)], 2, subtask=1)
    newer = prepared(store, [rows(3, width=100_000)], 2, attempt=2)
    other = replace(SINK, id=OperatorId("sink-1"))
    theirs = prepared(store, [rows(4, width=100_000)], 1, sink=other)
    committer = driver(store, calls)
    committer.sweep(Attempt(2), kept)
    assert len(store.list("batches/sink-0/waiting/")) == 2
    committer.commit(kept + newer)
    driver(store, calls, other).commit(theirs)
    assert calls.seen == [(0, [1]), (1, [3]), (0, [4])]
    assert calls.names == [("p1-sink-0", 0), ("p1-sink-0", 1), ("p1-sink-1", 0)]


def test_an_empty_result_of_complete_mode_is_a_batch(store: LocalBlobStore) -> None:
    calls = Calls(store)
    sink = replace(SINK, mode=OutputMode.COMPLETE)
    driver(store, calls, sink).commit(prepared(store, [], 1, sink=sink))
    assert calls.seen == [(0, [])]


def test_done_batches_are_forgotten_when_no_checkpoint_can_name_them(
    store: LocalBlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "DONE_RETAINED", 2)
    monkeypatch.setattr(batches, "TRIM_EVERY", 3)
    calls = Calls(store)
    committer = driver(store, calls)
    for checkpoint in range(1, 7):
        committer.commit(prepared(store, [rows(checkpoint)], checkpoint))
    assert store.list("batches/") == ("batches/sink-0/done/000005-000001", "batches/sink-0/done/000006-000001")


def test_damaged_rows_are_refused(store: LocalBlobStore) -> None:
    stream = io.BytesIO()
    rows(1).write_ipc_stream(stream)
    part = BatchPart(key="batches/x", rows=1, size_bytes=len(stream.getvalue()), checksum=1)
    with pytest.raises(CorruptSnapshot, match="batches/x is damaged"):
        decode_rows(part, stream.getvalue())


def test_partition_by_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="partitionBy"):
        ByNode().sink(replace(SINK, partition_by=("n",)))


def test_the_name_of_a_batch_is_known_inside_the_call_only(store: LocalBlobStore) -> None:
    """T76: also when the call raises. The name tells this sink of this pipeline from all others."""
    calls = Calls(store)
    calls.failure = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        driver(store, calls).commit(prepared(store, [rows(1)], 5))
    elsewhere = replace(SINK, options={PIPELINE: "p2"})
    calls.failure = None
    driver(store, calls, elsewhere).commit(prepared(store, [rows(2)], 6, sink=elsewhere))
    assert calls.names == [("p1-sink-0", 4), ("p2-sink-0", 5)]
    with pytest.raises(InvalidQuery, match="where no batch is being written"):
        tidegate.batch()


def test_calls_of_two_queries_at_once_have_each_its_own_name(store: LocalBlobStore) -> None:
    inside, seen = threading.Barrier(2), set[tuple[str, int]]()

    def call(batch: BatchId, parts: tuple[BatchPart, ...]) -> None:
        inside.wait(30)
        seen.add((tidegate.batch().name, tidegate.batch().id))
        inside.wait(30)

    def run(sink: Sink, checkpoint: int) -> None:
        committer = driver(store, call, sink)
        committer.commit(prepared(store, [rows(1)], checkpoint, sink=sink))

    other = replace(SINK, options={PIPELINE: "p2"}, id=OperatorId("sink-1"))
    threads = [threading.Thread(target=run, args=(SINK, 1)), threading.Thread(target=run, args=(other, 8))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == {("p1-sink-0", 0), ("p2-sink-1", 7)}


def test_output_without_an_id_is_never_written_under_a_wrong_one(store: LocalBlobStore) -> None:
    calls = Calls(store)
    committer = driver(store, calls)
    committer.number_batches(BatchIds(SINK.id, BatchId(3)))
    with pytest.raises(Bug, match="checkpoint 4 has no batch id"):
        committer.commit(prepared(store, [rows(1)], 4))
    untold = ByNode(store).committer(SINK)
    with pytest.raises(Bug, match="not told the ids"):
        untold.commit(prepared(store, [rows(1)], 4))
    assert calls.seen == []


def test_calls_that_returned_tell_of_a_manifest_that_is_gone(store: LocalBlobStore) -> None:
    """T73: with it, the ids that it gave out would be gone, too."""
    committer = driver(store, Calls(store))
    assert committer.published() is None
    committer.commit(prepared(store, [rows(1)], 3) + prepared(store, [rows(2)], 5))
    committer.commit(prepared(store, [rows(1)], 4, attempt=2))
    assert committer.published() == Published(Attempt(2), CheckpointId(4))
