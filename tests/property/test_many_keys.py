"""Thousands of keys against a plain dict: chunks merge, deletions meet chunks written long ago, and every checkpoint can be restored.

``test_keyed_table.py`` and ``test_entries.py`` go through odd histories of few keys; here chunks are large enough for a chain of several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange
from tidegate.model.types import LONG
from tidegate.state.chunk import NewChunk, RestoredChunk
from tidegate.state.codec import decode_chunk, encode_chunk
from tidegate.state.entries import EntryTable
from tidegate.state.entries_in_memory import EntriesInMemory
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import range_of
from tidegate.state.table import KeyedTable

GROUPS = 8
KEYS = 4_000
CAPTURE_ROWS = 300
Chunks = tuple[ChunkHandle | NewChunk, ...]


class State(Protocol):
    """What both kinds of state offer. Keys and values are integers."""

    def put(self, rows: dict[int, int]) -> None: ...

    def delete(self, keys: Sequence[int]) -> None:
        """Keys that are there."""
        ...

    def content(self) -> dict[int, int]: ...

    @property
    def table(self) -> KeyedTable | EntryTable: ...

    def restore(self, chunks: list[RestoredChunk]) -> None: ...


class InTable:
    def __init__(self, groups: KeyGroupRange) -> None:
        self.table = KeyedTable(
            (pl.Int64(),),
            (pl.Int64(),),
            hash_keys=lambda keys: hash_columns(keys, (LONG,)),
            groups=groups,
            max_parallelism=GROUPS,
            capture_rows=CAPTURE_ROWS,
        )

    def put(self, rows: dict[int, int]) -> None:
        numbers, _ = self.table.upsert(pl.DataFrame({"k0": list(rows)}, schema={"k0": pl.Int64}))
        self.table.write(numbers, pl.DataFrame({"v0": list(rows.values())}, schema={"v0": pl.Int64}))

    def delete(self, keys: Sequence[int]) -> None:
        numbers = self.table.find(pl.DataFrame({"k0": keys}, schema={"k0": pl.Int64}))
        self.table.remove(numbers, tombstones=True)

    def content(self) -> dict[int, int]:
        rows = self.table.all_rows()
        keys, values = self.table.keys_of(rows).to_series().to_list(), self.table.values_of(rows).to_series().to_list()
        assert len(set(keys)) == len(keys) == self.table.live_rows
        return dict(zip(keys, values, strict=True))

    def restore(self, chunks: list[RestoredChunk]) -> None:
        self.table.restore(chunks)


class InEntries:
    def __init__(self, groups: KeyGroupRange) -> None:
        self.table = EntryTable(EntriesInMemory(), groups, CAPTURE_ROWS)

    def put(self, rows: dict[int, int]) -> None:
        for key, value in rows.items():
            self.table.put(*address(key), value.to_bytes(8, "big"))

    def delete(self, keys: Sequence[int]) -> None:
        for key in keys:
            assert self.table.delete(*address(key))

    def content(self) -> dict[int, int]:
        found = {
            int.from_bytes(cell[2:]) * 4 + len(sub): int.from_bytes(value)
            for cell, sub, value in self.table.all_entries()
        }
        assert len(found) == self.table.rows
        return found

    def restore(self, chunks: list[RestoredChunk]) -> None:
        self.table.restore(chunks)


def address(key: int) -> tuple[bytes, bytes]:
    """Four entries share a cell; one of them is the cell itself."""
    cell, sub = divmod(key, 4)
    return (cell % GROUPS).to_bytes(2, "big") + cell.to_bytes(4, "big"), b"x" * sub


@dataclass(frozen=True)
class Taken:
    """A snapshot on its way."""

    checkpoint: CheckpointId
    model: dict[int, int]
    chunks: Chunks


class Job:
    """One subtask that owns all keys, its snapshots, and what becomes of them."""

    def __init__(self, kind: type[InTable] | type[InEntries], seed: int) -> None:
        self.random = Random(seed)
        self.kind = kind
        self.state: State = kind(KeyGroupRange(0, GROUPS))
        self.model: dict[int, int] = {}
        self.files: dict[str, bytes] = {}
        self.complete: tuple[dict[int, int], tuple[ChunkHandle, ...]] = ({}, ())
        self.seen: Counter[str] = Counter()
        self.number = 0

    def run(self, checkpoints: int) -> None:
        for _ in range(checkpoints):
            self.change(self.random.choice((20, 200, 1_500)))
            taken = self.barrier()
            while self.random.random() < 0.8:
                self.change(self.random.choice((5, 100, 400)), meanwhile=taken)
                self.state.table.capture()
            if self.random.random() < 0.1:
                self.state.table.abandon_capture(taken.checkpoint)
                continue
            self.store(taken)
            self.check_restore()
            if self.random.random() < 0.15:
                self.kill()
        assert self.state.content() == self.model

    def change(self, size: int, meanwhile: Taken | None = None) -> None:
        """Writes, deletes, and writes some of what it has just deleted."""
        chance = self.random
        if self.model and chance.random() < 0.7:
            gone = chance.sample(sorted(self.model), min(size, len(self.model)))
            self.state.delete(gone)
            for key in gone:
                del self.model[key]
            if meanwhile is not None and any(
                isinstance(one, NewChunk) and not one.complete for one in meanwhile.chunks
            ):
                self.seen["deleted while it was being copied"] += 1
            if chance.random() < 0.4:
                self.put(gone[: len(gone) // 2])
        self.put(chance.sample(range(KEYS), size))
        assert len(self.model) == (
            self.state.table.rows if isinstance(self.state.table, EntryTable) else self.state.table.live_rows
        )

    def put(self, keys: Sequence[int]) -> None:
        rows = {key: self.random.randrange(1 << 40) for key in keys}
        if rows:
            self.state.put(rows)
        self.model |= rows

    def barrier(self) -> Taken:
        self.number += 1
        checkpoint = CheckpointId(self.number)
        return Taken(checkpoint, dict(self.model), self.state.table.snapshot(checkpoint))

    def store(self, taken: Taken) -> None:
        self.state.table.finish_capture()
        handles: list[ChunkHandle] = []
        for chunk in taken.chunks:
            if isinstance(chunk, ChunkHandle):
                assert chunk.name in self.files, "T39: a chunk of the last complete checkpoint is gone"
                handles.append(chunk)
            elif chunk.rows.height:
                name = f"c{taken.checkpoint}"
                self.files[name] = encode_chunk(chunk.rows)
                handles.append(
                    ChunkHandle(name=name, groups=chunk.groups, rows=chunk.rows.height, size_bytes=1, checksum=0)
                )
        before = {one.name for one in self.complete[1]}
        now = {one.name for one in handles}
        self.seen["chunks merged"] += len(before - now) > 1 and bool(now - before)
        self.seen["a chain of three"] += len(handles) > 2
        self.state.table.on_stored(taken.checkpoint, tuple(handles))
        self.complete = taken.model, tuple(handles)
        self.files = {name: data for name, data in self.files.items() if name in now}
        if self.random.random() < 0.85:
            self.state.table.on_completed(taken.checkpoint)

    def chunks(self) -> list[RestoredChunk]:
        return [RestoredChunk(one, decode_chunk(self.files[one.name], one.name)) for one in self.complete[1]]

    def check_restore(self) -> None:
        """The newest checkpoint, at any parallelism, is what the state was at its barrier."""
        model, _ = self.complete
        chunks, parallelism = self.chunks(), self.random.randint(1, 3)
        self._note_graves(chunks)
        found: dict[int, int] = {}
        for subtask in range(parallelism):
            state = self.kind(range_of(subtask, parallelism, GROUPS))
            state.restore(chunks)
            found |= state.content()
        assert found == model

    def _note_graves(self, chunks: list[RestoredChunk]) -> None:
        older: list[pl.DataFrame] = []
        for chunk in chunks:
            keys = [name for name in chunk.rows.columns if name in ("k0", "k1")]
            if "deleted" in chunk.rows.columns:
                gone, live = chunk.rows.filter("deleted").select(keys), chunk.rows.filter(~pl.col("deleted"))
                met = any(one.join(gone, on=keys, how="semi").height for one in older)
                self.seen["a deletion over an older chunk"] += met
                self.seen["deleted and written again"] += bool(live.join(gone, on=keys, how="semi").height)
            older.append(chunk.rows.select(keys))

    def kill(self) -> None:
        self.model = dict(self.complete[0])
        self.state = self.kind(KeyGroupRange(0, GROUPS))
        self.state.restore(self.chunks())


@pytest.mark.parametrize("kind", [InTable, InEntries])
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=12, deadline=None, phases=(Phase.reuse, Phase.generate))  # A seed has no smaller one.
def test_every_checkpoint_restores_the_keys_of_its_barrier(kind: type[InTable] | type[InEntries], seed: int) -> None:
    """T22 T39 T80: whatever was written, deleted, written again and deleted while it was being copied."""
    Job(kind, seed).run(checkpoints=10)


@pytest.mark.parametrize("kind", [InTable, InEntries])
def test_these_histories_have_merges_and_deletions_over_older_chunks(kind: type[InTable] | type[InEntries]) -> None:
    """T80: a judge that never sees them says nothing."""
    seen: Counter[str] = Counter()
    for seed in range(6):
        job = Job(kind, seed)
        job.run(checkpoints=14)
        seen += job.seen
    expected = {
        "chunks merged",
        "a chain of three",
        "a deletion over an older chunk",
        "deleted while it was being copied",
    }
    if kind is InTable:
        expected.add("deleted and written again")
    assert not {one for one in expected if not seen[one]}
