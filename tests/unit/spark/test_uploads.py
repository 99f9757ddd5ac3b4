"""Chunks travel at the same time, answers keep their order, and a failure names what may have landed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace

import polars as pl
import pytest

from tidegate.checkpoint.layout import chunk_key
from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex, StageId, SubtaskId
from tidegate.model.snapshot import KeyGroupRange
from tidegate.operators.protocol import NewChunk, OperatorState
from tidegate.ports.store import BlobStore, Created
from tidegate.runtime.effects import Persist
from tidegate.spark import puts
from tidegate.spark.puts import Batch, ParallelPuts
from tidegate.spark.uploads import Uploaded, Uploader, UploadFailed, UploadOutcome
from tidegate.state.encoded import Encoded

SUBTASK = SubtaskId(StageId(0), SlotIndex(0))
ROWS = pl.DataFrame({"x": pl.int_range(100_000, eager=True).hash()})  # 800 kB: far too much to travel inline.
OPERATOR = OperatorId("op")


class GatedStore(BlobStore):
    """Holds every create until it is let through; fails those it is told to."""

    def __init__(self) -> None:
        self.begun: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.gates: dict[str, threading.Event] = {}
        self.failing: set[str] = set()
        self.open_gates = False
        self.objects: dict[str, bytes] = {}

    def create(self, key: str, data: bytes) -> Created:
        gate = self.gates.setdefault(key, threading.Event())
        self.begun.put(key)
        assert self.open_gates or gate.wait(20)
        if key in self.failing:
            raise Unavailable(f"{key} does not want to")
        self.objects[key] = data
        return Created()

    def read(self, key: str) -> bytes | None:
        return self.objects.get(key)

    def list(self, prefix: str) -> tuple[str, ...]:
        return tuple(sorted(self.objects))

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def wait_begun(self, count: int) -> list[str]:
        return [self.begun.get(timeout=20) for _ in range(count)]

    def let_through(self, *keys: str) -> None:
        for key in keys:
            self.gates.setdefault(key, threading.Event()).set()


class Desk:
    def __init__(self, store: GatedStore, puts_max: int = 8) -> None:
        self.answers: queue.SimpleQueue[UploadOutcome] = queue.SimpleQueue()
        self.uploader = Uploader(store, Attempt(3), SlotIndex(0), self.answers.put, puts_max)

    def answer(self) -> UploadOutcome:
        return self.answers.get(timeout=20)


@pytest.fixture
def store() -> GatedStore:
    return GatedStore()


@pytest.fixture
def desk(store: GatedStore) -> Iterator[Desk]:
    desk = Desk(store)
    yield desk
    store.open_gates = True
    store.let_through(*store.gates)
    assert desk.uploader.stop(20)


def snapshot(checkpoint: int, chunks: int) -> Persist:
    new = []
    for _ in range(chunks):
        chunk = NewChunk(None, KeyGroupRange(0, 8))
        chunk.fill(ROWS)
        new.append(chunk)
    return Persist(SUBTASK, CheckpointId(checkpoint), ((OPERATOR, OperatorState(chunks=tuple(new))),), 0.0, 0.0)


def key(checkpoint: int, number: int) -> str:
    return chunk_key(f"op/000003-00000-{checkpoint:06d}-{number}")


def test_chunks_of_one_snapshot_and_of_the_next_travel_at_the_same_time(desk: Desk, store: GatedStore) -> None:
    desk.uploader.submit(snapshot(1, 3))
    desk.uploader.submit(snapshot(2, 2))
    assert set(store.wait_begun(5)) == {key(1, 0), key(1, 1), key(1, 2), key(2, 0), key(2, 1)}


def test_answers_come_in_the_order_of_the_snapshots(desk: Desk, store: GatedStore) -> None:
    desk.uploader.submit(snapshot(1, 2))
    desk.uploader.submit(snapshot(2, 1))
    store.wait_begun(3)
    store.let_through(key(2, 0), key(1, 1))
    with pytest.raises(queue.Empty):
        desk.answers.get(timeout=0.2)
    store.let_through(key(1, 0))
    first, second = desk.answer(), desk.answer()
    assert isinstance(first, Uploaded) and isinstance(second, Uploaded)
    assert (first.checkpoint, second.checkpoint) == (1, 2)
    assert {chunk_key(one.name) for one in first.snapshots[0].chunks} == {key(1, 0), key(1, 1)}
    assert set(store.objects) == {key(1, 0), key(1, 1), key(2, 0)}, "all of them stand when their answer comes"


def test_a_failure_waits_for_what_is_under_way_and_names_all_that_may_have_landed(
    desk: Desk, store: GatedStore
) -> None:
    store.failing.add(key(1, 0))
    desk.uploader.submit(snapshot(1, 2))
    store.wait_begun(2)
    store.let_through(key(1, 0))
    with pytest.raises(queue.Empty):
        desk.answers.get(timeout=0.2)
    store.let_through(key(1, 1))
    failed = desk.answer()
    assert isinstance(failed, UploadFailed)
    assert "does not want to" in failed.reason
    assert {chunk_key(name) for name in failed.chunks} == {key(1, 0), key(1, 1)}


def test_a_failed_snapshot_does_not_spoil_the_next(desk: Desk, store: GatedStore) -> None:
    store.open_gates = True
    store.failing.add(key(1, 0))
    for checkpoint in (1, 2):
        desk.uploader.submit(snapshot(checkpoint, 1))
    assert isinstance(desk.answer(), UploadFailed)
    assert isinstance(desk.answer(), Uploaded)


def test_no_more_chunks_travel_at_once_than_allowed(store: GatedStore) -> None:
    desk = Desk(store, puts_max=2)
    desk.uploader.submit(snapshot(1, 4))
    store.wait_begun(2)
    with pytest.raises(queue.Empty):
        store.begun.get(timeout=0.2)
    store.open_gates = True
    store.let_through(*store.gates)
    assert isinstance(desk.answer(), Uploaded)
    assert desk.uploader.stop(20)


def test_encoded_bytes_are_bounded(store: GatedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(puts, "BYTES_AT_ONCE_MAX", 1_000_000)
    desk = Desk(store)
    desk.uploader.submit(snapshot(1, 3))
    store.wait_begun(1)
    with pytest.raises(queue.Empty):
        store.begun.get(timeout=0.2)
    store.open_gates = True
    store.let_through(*store.gates)
    assert isinstance(desk.answer(), Uploaded)
    assert desk.uploader.stop(20)


def test_a_slot_that_leaves_does_not_wait_for_an_upload_that_hangs(store: GatedStore) -> None:
    desk = Desk(store, puts_max=1)
    desk.uploader.submit(snapshot(1, 3))
    store.wait_begun(1)
    assert not desk.uploader.stop(0.2), "it says that a thread is left behind"
    store.let_through(key(1, 0))
    failed = desk.answer()
    assert isinstance(failed, UploadFailed) and "leaves" in failed.reason
    assert desk.uploader.stop(20)


def test_a_store_for_large_objects_is_given_chunks_as_its_own(store: GatedStore) -> None:
    class PartsStore(GatedStore):
        def put_own(self, key: str, data: Encoded) -> None:
            self.objects[key] = data.joined()

        def create(self, key: str, data: bytes) -> Created:
            raise AssertionError("not this way")

    parts = PartsStore()
    desk = Desk(parts)
    desk.uploader.submit(snapshot(1, 1))
    assert isinstance(desk.answer(), Uploaded)
    assert parts.list("") == (key(1, 0),)
    assert desk.uploader.stop(20)


def test_a_batch_that_failed_takes_up_nothing_more() -> None:
    batch = Batch(failure=Unavailable("no"))
    ParallelPuts(lambda name, data: None, 1, "x").begin(batch, "a", Encoded.of(b""))
    assert not batch.names


def test_a_snapshot_is_stored_when_its_output_is_durable_and_not_before(desk: Desk, store: GatedStore) -> None:
    durable = threading.Event()

    def settle() -> None:
        assert durable.wait(20)

    desk.uploader.submit(Persist(SUBTASK, CheckpointId(1), ((OPERATOR, OperatorState(settle=settle)),), 0.0, 0.0))
    with pytest.raises(queue.Empty):
        desk.answers.get(timeout=0.2)
    durable.set()
    assert isinstance(desk.answer(), Uploaded)


def test_output_that_does_not_become_durable_fails_the_snapshot_and_names_its_chunks(
    desk: Desk, store: GatedStore
) -> None:
    def settle() -> None:
        raise Unavailable("the brokers take nothing")

    ((operator, state),) = snapshot(1, 1).states
    desk.uploader.submit(Persist(SUBTASK, CheckpointId(1), ((operator, replace(state, settle=settle)),), 0.0, 0.0))
    store.wait_begun(1)
    store.let_through(key(1, 0))
    answer = desk.answer()
    assert isinstance(answer, UploadFailed)
    assert "the brokers take nothing" in answer.reason
    assert [chunk_key(name) for name in answer.chunks] == [key(1, 0)]
