"""A restore waits for the store once, not once per chunk, and never holds more than it may."""

from __future__ import annotations

import threading
import zlib

import polars as pl
import pytest

from tidegate.checkpoint.layout import chunk_key
from tidegate.model.errors import CorruptSnapshot, Unavailable
from tidegate.model.ids import OperatorId, SlotIndex
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange, OperatorSnapshot
from tidegate.ports.store import BlobStore
from tidegate.spark import read_ahead
from tidegate.spark.read_ahead import ReadAhead
from tidegate.state.codec import encode_chunk

LOWER, UPPER = KeyGroupRange(0, 4), KeyGroupRange(4, 8)


class CountingStore(BlobStore):
    """Holds reads until so many are under way at once."""

    def __init__(self, at_once: int = 1) -> None:
        self.objects: dict[str, bytes] = {}
        self.reads: list[str] = []
        self._together = threading.Barrier(at_once)

    def add(self, number: int, groups: KeyGroupRange) -> ChunkHandle:
        data = encode_chunk(pl.DataFrame({"kg": [groups.start], "n": [number]}))
        name = f"op/000001-00000-000001-{number}"
        self.objects[chunk_key(name)] = data
        return ChunkHandle(name=name, groups=groups, rows=1, size_bytes=len(data), checksum=zlib.crc32(data))

    def read(self, key: str) -> bytes | None:
        self.reads.append(key)
        self._together.wait(20)
        return self.objects.get(key)

    def create(self, key: str, data: bytes):
        raise AssertionError

    def list(self, prefix: str) -> tuple[str, ...]:
        raise AssertionError

    def delete(self, key: str) -> None:
        raise AssertionError


def snapshot(*handles: ChunkHandle) -> OperatorSnapshot:
    return OperatorSnapshot(operator=OperatorId("op"), subtask=SlotIndex(0), chunks=handles)


def test_chunks_are_read_at_the_same_time_and_only_those_of_our_key_groups() -> None:
    store = CountingStore(at_once=4)
    ours = [store.add(number, LOWER) for number in range(4)]
    theirs = store.add(4, UPPER)
    with ReadAhead(store, [snapshot(*ours, theirs)], LOWER, 8) as chunks:
        assert [chunks(handle)["n"].item() for handle in ours] == [0, 1, 2, 3]
    assert sorted(store.reads) == [chunk_key(handle.name) for handle in ours]


def test_a_chunk_that_was_not_foreseen_is_read_when_asked_for_also_after_the_end() -> None:
    store = CountingStore()
    handle = store.add(0, UPPER)
    with ReadAhead(store, [snapshot(handle)], LOWER, 8) as chunks:
        pass
    assert chunks(handle)["n"].item() == 0


def test_no_more_bytes_are_read_ahead_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = CountingStore()
    handles = [store.add(number, LOWER) for number in range(5)]
    monkeypatch.setattr(read_ahead, "BYTES_AHEAD_MAX", 2 * handles[0].size_bytes)
    with ReadAhead(store, [snapshot(*handles)], LOWER, 1) as chunks:
        assert chunks(handles[0])["n"].item() == 0
        assert len(store.reads) <= 3
        assert [chunks(handle)["n"].item() for handle in handles[1:]] == [1, 2, 3, 4]


def test_what_is_missing_or_damaged_is_named_and_what_does_not_answer_is_unavailable() -> None:
    store = CountingStore()
    gone, bad = store.add(0, LOWER), store.add(1, LOWER)
    del store.objects[chunk_key(gone.name)]
    store.objects[chunk_key(bad.name)] += b"x"
    with ReadAhead(store, [snapshot(gone, bad)], LOWER, 2) as chunks:
        with pytest.raises(CorruptSnapshot, match=f"{gone.name} is missing"):
            chunks(gone)
        with pytest.raises(CorruptSnapshot, match=f"{bad.name} is damaged"):
            chunks(bad)

    class DeadStore(CountingStore):
        def read(self, key: str) -> bytes | None:
            raise Unavailable("no answer")

    dead = DeadStore()
    handle = dead.add(0, LOWER)
    with ReadAhead(dead, [snapshot(handle)], LOWER, 2) as chunks, pytest.raises(Unavailable, match="no answer"):
        chunks(handle)
