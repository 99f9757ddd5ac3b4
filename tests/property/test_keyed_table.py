"""Keyed tables against a plain dict, through snapshots, aborts, lost notices, garbage collection and rescaling."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange
from tidegate.model.types import LONG, STRING
from tidegate.state.chunk import NewChunk, RestoredChunk
from tidegate.state.codec import decode_chunk, encode_chunk
from tidegate.state.hashing import hash_columns
from tidegate.state.index import MISSING
from tidegate.state.keygroups import key_groups, range_of, subtask_of
from tidegate.state.table import KeyedTable

MAX_PARALLELISM = 13
KEYS = (pl.Int64(), pl.String())
VALUES = (pl.Int64(), pl.List(pl.String()))
KEY_SCHEMA = {"k0": pl.Int64, "k1": pl.String}
VALUE_SCHEMA = {"v0": pl.Int64, "v1": pl.List(pl.String)}

Key = tuple[int | None, str | None]
Value = tuple[int | None, tuple[str, ...] | None]
keys = st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from(["", "a", "b"]))
values = st.tuples(
    st.none() | st.integers(-5, 5), st.none() | st.lists(st.sampled_from(["x", "yy"]), max_size=2).map(tuple)
)


def strong(df: pl.DataFrame) -> np.ndarray:
    return hash_columns(df, (LONG, STRING))


def weak(df: pl.DataFrame) -> np.ndarray:
    """Three different 64-bit hashes in all: nearly every key collides with another one."""
    return hash_columns(df, (LONG, STRING)) % np.uint64(3)


def frame(rows: list[Key]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=KEY_SCHEMA, orient="row")


@dataclass
class Checkpoint:
    model: dict[Key, Value]
    handles: list[tuple[ChunkHandle, ...]] = field(default_factory=list)

    def names(self) -> set[str]:
        return {handle.name for chain in self.handles for handle in chain}


class Tables(RuleBasedStateMachine):
    @initialize(hashing=st.sampled_from([strong, weak]), parallelism=st.integers(1, 4))
    def start(self, hashing, parallelism: int) -> None:
        self.hashing = hashing
        self.model: dict[Key, Value] = {}
        self.files: dict[str, bytes] = {}
        self.in_flight: dict[int, Checkpoint] = {}
        self.captured: list[tuple[CheckpointId, dict[Key, Value], list[tuple[ChunkHandle | NewChunk, ...]]]] = []
        self.complete = Checkpoint({}, [])
        self.unconfirmed: set[int] = set()
        self.next_id = 1
        self.attempt = 0
        self.deploy(parallelism)

    def deploy(self, parallelism: int) -> None:
        self.attempt += 1
        self.parallelism = parallelism
        self.tables = []
        for subtask in range(parallelism):
            groups = range_of(subtask, parallelism, MAX_PARALLELISM)
            table = KeyedTable(
                KEYS,
                VALUES,
                hash_keys=self.hashing,
                groups=groups,
                max_parallelism=MAX_PARALLELISM,
                capture_rows=2,
            )
            table.restore(self.restored(groups))
            self.tables.append(table)

    def restored(self, groups: KeyGroupRange) -> list[RestoredChunk]:
        found = []
        for chain in self.complete.handles:
            for handle in chain:
                assert handle.name in self.files, "T36, T38: a chunk of the last complete checkpoint is gone"
                if handle.groups.intersect(groups) is not None:
                    found.append(RestoredChunk(handle, decode_chunk(self.files[handle.name], handle.name)))
        return found

    def owner(self, key: Key) -> KeyedTable:
        groups = key_groups(self.hashing(frame([key])), MAX_PARALLELISM)
        return self.tables[int(subtask_of(groups, self.parallelism, MAX_PARALLELISM)[0])]

    @rule(rows=st.dictionaries(keys, values, max_size=8))
    def rows_are_written(self, rows: dict[Key, Value]) -> None:
        for table in self.tables:
            mine = {key: value for key, value in rows.items() if self.owner(key) is table}
            if mine:
                numbers, new = table.upsert(frame(list(mine)))
                assert len(new) == len(mine.keys() - self.model.keys())
                table.write(numbers, pl.DataFrame(list(mine.values()), schema=VALUE_SCHEMA, orient="row"))
        self.model |= rows

    @rule(gone=st.lists(keys, max_size=4, unique=True))
    def rows_are_removed(self, gone: list[Key]) -> None:
        for key in gone:
            table = self.owner(key)
            numbers = table.find(frame([key]))
            assert (numbers[0] != MISSING) == (key in self.model)
            if key in self.model:
                table.remove(numbers, tombstones=True)
                del self.model[key]

    @rule()
    def room_is_given_back(self) -> None:
        for table in self.tables:
            table.compact(dead_rows_min=1)

    @precondition(lambda self: len(self.in_flight) + len(self.captured) < 2)
    @rule()
    def a_barrier_passes(self) -> None:
        checkpoint = CheckpointId(self.next_id)
        self.next_id += 1
        chunks = [table.snapshot(checkpoint) for table in self.tables]
        self.captured.append((checkpoint, dict(self.model), chunks))

    @rule()
    def some_rows_are_copied(self) -> None:
        for table in self.tables:
            table.capture()

    @precondition(lambda self: self.captured)
    @rule(lose_handles=st.booleans())
    def a_snapshot_is_stored(self, lose_handles: bool) -> None:
        """T22, T23: it holds the rows as they were at its barrier, whatever was changed while they were copied."""
        checkpoint, model, snapshots = self.captured.pop(0)
        taken = Checkpoint(model)
        for subtask, (table, chunks) in enumerate(zip(self.tables, snapshots, strict=True)):
            handles = []
            for n, chunk in enumerate(chunks):
                if isinstance(chunk, NewChunk):
                    if not chunk.complete:
                        table.finish_capture()
                    if not chunk.rows.height:
                        continue
                    data = encode_chunk(chunk.rows)
                    name = f"{self.attempt}-{subtask}-{checkpoint}-{n}"
                    handle = ChunkHandle(
                        name=name, groups=chunk.groups, rows=chunk.rows.height, size_bytes=len(data), checksum=0
                    )
                    self.files[name] = data
                else:
                    handle = chunk
                handles.append(handle)
            taken.handles.append(tuple(handles))
            if not lose_handles:
                table.on_stored(checkpoint, tuple(handles))
        if not lose_handles and all(name in self.files for name in taken.names()):
            self.in_flight[checkpoint] = taken

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def a_checkpoint_completes_and_some_tables_hear_of_it(self, data: st.DataObject) -> None:
        checkpoint = data.draw(st.sampled_from(sorted(self.in_flight)))
        retired = self.complete.names()
        self.complete = self.in_flight.pop(checkpoint)
        for older in [n for n in self.in_flight if n < checkpoint]:
            retired |= self.in_flight.pop(older).names()
        for name in retired - self.complete.names():
            self.files.pop(name, None)
        for table in self.tables:
            if data.draw(st.booleans()):
                table.on_completed(CheckpointId(checkpoint))

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def a_checkpoint_is_aborted(self, data: st.DataObject) -> None:
        """T39: nobody tells the tables; what only the aborted one stored is deleted."""
        checkpoint = data.draw(st.sampled_from(sorted(self.in_flight)))
        aborted = self.in_flight.pop(checkpoint).names()
        for name in aborted - self.complete.names():
            assert not any(name in other.names() for other in self.in_flight.values())
            del self.files[name]

    @rule(parallelism=st.integers(1, 6))
    def everything_restarts(self, parallelism: int) -> None:
        self.in_flight.clear()
        self.captured.clear()
        self.deploy(parallelism)
        self.model = dict(self.complete.model)

    @invariant()
    def tables_equal_the_model(self) -> None:
        if not hasattr(self, "tables"):
            return
        content: dict[Key, Value] = {}
        for table in self.tables:
            rows = table.all_rows()
            assert len(rows) == table.live_rows
            for key, (number, names) in zip(table.keys_of(rows).rows(), table.values_of(rows).rows(), strict=True):
                assert key not in content
                content[key] = (number, None if names is None else tuple(names))
        assert content == self.model


Tables.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTables = Tables.TestCase
