"""Entries against a plain dict, in memory and in RocksDB: snapshots while they change, lost notices, kills and rescaling."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle
from tidegate.state.chunk import NewChunk, RestoredChunk
from tidegate.state.codec import decode_chunk, encode_chunk
from tidegate.state.entries import EntryBackend, EntryTable, group_of
from tidegate.state.entries_in_memory import EntriesInMemory
from tidegate.state.keygroups import range_of
from tidegate.storage.rocksdb_entries import EntriesInRocksDb

GROUPS = 7
cells = st.builds(
    lambda group, name: bytes((0, group)) + name, st.integers(0, GROUPS - 1), st.sampled_from([b"a", b"ab"])
)
subs = st.sampled_from([b"", b"x", b"y", b"xy"])
puts = st.tuples(st.just("put"), cells, subs, st.binary(max_size=3))
deletes = st.tuples(st.just("delete"), cells, subs)
steps = st.lists(
    puts
    | puts
    | deletes
    | st.tuples(st.just("snapshot"))
    | st.tuples(st.just("capture"))
    | st.tuples(st.just("abandon"))
    | st.tuples(st.just("complete"), st.booleans())
    | st.tuples(st.just("kill"), st.integers(1, 3)),
    max_size=60,
)


def in_rocksdb() -> EntryBackend:
    return EntriesInRocksDb(Path(tempfile.mkdtemp()))


@pytest.mark.parametrize("backend", [EntriesInMemory, in_rocksdb])
@given(steps=steps, capture_rows=st.sampled_from([1, 2, 100]), parallelism=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_whatever_happens_a_restore_finds_the_entries_of_the_last_complete_checkpoint(
    backend: Callable[[], EntryBackend], steps: list[tuple], capture_rows: int, parallelism: int
) -> None:
    job = Job(backend, capture_rows, parallelism)
    try:
        for step in steps:
            getattr(job, step[0])(*step[1:])
            job.check()
        job.kill(2)
        job.check()
    finally:
        job.close()


class Job:
    def __init__(self, backend: Callable[[], EntryBackend], capture_rows: int, parallelism: int) -> None:
        self.backend = backend
        self.capture_rows = capture_rows
        self.files: dict[str, bytes] = {}
        self.model: dict[tuple[bytes, bytes], bytes] = {}
        self.complete_model: dict[tuple[bytes, bytes], bytes] = {}
        self.complete_handles: list[tuple[ChunkHandle, ...]] = []
        self.pending: tuple[CheckpointId, dict, list[tuple[ChunkHandle | NewChunk, ...]]] | None = None
        self.next_id = 1
        self.tables: list[EntryTable] = []
        self.deploy(parallelism)

    def deploy(self, parallelism: int) -> None:
        self.tables = []
        self.parallelism = parallelism
        for subtask in range(parallelism):
            groups = range_of(subtask, parallelism, GROUPS)
            table = EntryTable(self.backend(), groups, self.capture_rows)
            chunks = [
                RestoredChunk(handle, decode_chunk(self.files[handle.name], handle.name))
                for handles in self.complete_handles
                for handle in handles
            ]
            table.restore([chunk for chunk in chunks if chunk.handle.groups.intersect(groups) is not None])
            self.tables.append(table)

    def owner(self, cell: bytes) -> EntryTable:
        return self.tables[group_of(cell) * self.parallelism // GROUPS]

    def put(self, cell: bytes, sub: bytes, value: bytes) -> None:
        self.owner(cell).put(cell, sub, value)
        self.model[cell, sub] = value

    def delete(self, cell: bytes, sub: bytes) -> None:
        assert self.owner(cell).delete(cell, sub) == ((cell, sub) in self.model)
        self.model.pop((cell, sub), None)

    def snapshot(self) -> None:
        if self.pending is None:
            checkpoint = CheckpointId(self.next_id)
            self.next_id += 1
            self.pending = checkpoint, dict(self.model), [table.snapshot(checkpoint) for table in self.tables]

    def capture(self) -> None:
        for table in self.tables:
            table.capture()

    def abandon(self) -> None:
        if self.pending is not None:
            for table in self.tables:
                table.abandon_capture(self.pending[0])
            self.pending = None

    def complete(self, told: bool) -> None:
        """``told``: whether the tables ever hear of it."""
        if self.pending is None:
            return
        checkpoint, model, taken = self.pending
        self.pending = None
        stored: list[tuple[ChunkHandle, ...]] = []
        for table, chunks in zip(self.tables, taken, strict=True):
            table.finish_capture()
            handles = tuple(handle for chunk in chunks if (handle := self.stored(chunk, checkpoint)) is not None)
            table.on_stored(checkpoint, handles)
            stored.append(handles)
        self.complete_model, self.complete_handles = model, stored
        if told:
            for table in self.tables:
                table.on_completed(checkpoint)

    def stored(self, chunk: ChunkHandle | NewChunk, checkpoint: CheckpointId) -> ChunkHandle | None:
        if isinstance(chunk, ChunkHandle):
            return chunk
        if not chunk.rows.height:
            return None
        name = f"{checkpoint}-{len(self.files)}"
        self.files[name] = encode_chunk(chunk.rows)
        return ChunkHandle(name=name, groups=chunk.groups, rows=chunk.rows.height, size_bytes=1, checksum=0)

    def kill(self, parallelism: int) -> None:
        self.close()
        self.pending = None
        self.model = dict(self.complete_model)
        self.deploy(parallelism)

    def check(self) -> None:
        found: dict[tuple[bytes, bytes], bytes] = {}
        for table in self.tables:
            for cell in {cell for cell, _ in self.model}:
                if self.owner(cell) is table:
                    items = table.items(cell)
                    assert items == sorted(items)
                    found |= {(cell, sub): value for sub, value in items}
                    if (value := table.get(cell)) is not None:
                        found[cell, b""] = value
        assert found == self.model
        assert sum(table.rows for table in self.tables) == len(self.model)

    def close(self) -> None:
        for table in self.tables:
            table.close()
