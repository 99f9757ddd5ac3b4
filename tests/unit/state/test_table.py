"""Keyed tables: what is handed out never changes, what is removed stays away."""

from __future__ import annotations

import random

import numpy as np
import polars as pl

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange
from tidegate.model.types import STRING
from tidegate.state.chunk import NewChunk, RestoredChunk
from tidegate.state.hashing import hash_columns
from tidegate.state.table import CAPTURE_ROWS, KeyedTable

ALL = KeyGroupRange(0, 128)
KEYS = [pl.String()]
VALUES = [pl.Int64(), pl.List(pl.Int64())]


def table(groups: KeyGroupRange = ALL, capture_rows: int = CAPTURE_ROWS) -> KeyedTable:
    return KeyedTable(
        KEYS,
        VALUES,
        hash_keys=lambda keys: hash_columns(keys, (STRING,)),
        groups=groups,
        max_parallelism=128,
        capture_rows=capture_rows,
    )


def put(into: KeyedTable, rows: dict[str, tuple[int, list[int]]]) -> None:
    numbers, _ = into.upsert(pl.DataFrame({"k0": list(rows)}, schema={"k0": pl.String}))
    values = pl.DataFrame(list(rows.values()), schema={"v0": pl.Int64, "v1": pl.List(pl.Int64)}, orient="row")
    into.write(numbers, values)


def content(of: KeyedTable) -> dict[str, tuple[int, list[int]]]:
    rows = of.all_rows()
    return {key: tuple(value) for (key,), value in zip(of.keys_of(rows).rows(), of.values_of(rows).rows(), strict=True)}


def stored(chunks: tuple[ChunkHandle | NewChunk, ...]) -> list[RestoredChunk]:
    return [RestoredChunk(handle_of(i, c), c.rows) for i, c in enumerate(chunks) if isinstance(c, NewChunk)]


def handle_of(number: int, chunk: NewChunk) -> ChunkHandle:
    return ChunkHandle(name=f"c{number}", groups=chunk.groups, rows=chunk.rows.height, size_bytes=1, checksum=0)


def test_what_was_handed_out_does_not_change_with_the_table() -> None:
    """T22, T23: nested values too, through overwriting, removing, growing and compaction, two snapshots in flight."""
    live = table()
    put(live, {"a": (1, [1, 2]), "b": (2, [3])})
    first = live.snapshot(CheckpointId(1))
    put(live, {"a": (10, [9, 9, 9])})
    second = live.snapshot(CheckpointId(2))
    live.remove(live.all_rows(), tombstones=True)
    live.compact(dead_rows_min=1)
    put(live, {f"x{i}": (i, [i]) for i in range(5000)})

    back = table()
    back.restore(stored(first))
    assert content(back) == {"a": (1, [1, 2]), "b": (2, [3])}
    back = table()
    back.restore(stored(second))
    assert content(back) == {"a": (10, [9, 9, 9]), "b": (2, [3])}


def test_a_snapshot_copied_bit_by_bit_holds_the_table_as_it_was_at_the_barrier() -> None:
    """T22, T23: rows are overwritten, removed and added between any two bits, before and behind the cursor."""
    chance = random.Random(1)
    for changes in (1, 3, 12):
        live = table(capture_rows=4)
        put(live, {f"k{i}": (i, [i]) for i in range(200)})
        chunks = live.snapshot(CheckpointId(1))
        live.on_stored(CheckpointId(1), tuple(handle_of(i, c) for i, c in enumerate(stored_now(live, chunks))))
        live.on_completed(CheckpointId(1))
        put(live, {f"k{i}": (-i, []) for i in range(0, 220, 5)})
        expected = {key: value for key, value in content(live).items() if int(key[1:]) % 5 == 0}
        _, delta = live.snapshot(CheckpointId(2))
        assert isinstance(delta, NewChunk)
        assert not delta.complete
        while live.capturing:
            live.capture()
            put(live, {f"k{chance.randrange(240)}": (1000, [7]) for _ in range(changes)})
            live.remove(np.array(chance.sample(live.all_rows().tolist(), 1)), tombstones=True)
        assert delta.rows["k0"].is_unique().all()
        back = table()
        back.restore(stored((delta,)))
        assert content(back) == expected


def stored_now(live: KeyedTable, chunks: tuple[ChunkHandle | NewChunk, ...]) -> list[NewChunk]:
    live.finish_capture()
    return [chunk for chunk in chunks if isinstance(chunk, NewChunk)]


def test_a_snapshot_copies_only_what_changed_since_the_last_complete_one() -> None:
    live = table()
    put(live, {f"k{i}": (i, []) for i in range(100)})
    chunks = live.snapshot(CheckpointId(1))
    handles = tuple(handle_of(i, c) for i, c in enumerate(chunks) if isinstance(c, NewChunk))
    live.on_stored(CheckpointId(1), handles)
    live.on_completed(CheckpointId(1))
    put(live, {"k7": (-7, [7])})
    base, delta = live.snapshot(CheckpointId(2))
    assert base == handles[0]
    assert isinstance(delta, NewChunk)
    assert delta.rows.select("k0", "v0", "v1").rows() == [("k7", -7, [7])]


def test_an_aborted_snapshots_changes_are_in_the_next_one() -> None:
    """T39."""
    live = table()
    put(live, {"a": (1, [])})
    live.snapshot(CheckpointId(1))
    put(live, {"b": (2, [])})
    (chunk,) = live.snapshot(CheckpointId(2))
    assert isinstance(chunk, NewChunk)
    assert sorted(chunk.rows["k0"]) == ["a", "b"]


def test_a_removed_key_may_come_back() -> None:
    live = table()
    put(live, {"a": (1, [1]), "b": (2, [2])})
    base = stored(live.snapshot(CheckpointId(1)))
    live.on_stored(CheckpointId(1), (base[0].handle,))
    live.on_completed(CheckpointId(1))
    put(live, {f"x{i}": (i, []) for i in range(1)})
    live.remove(live.find(pl.DataFrame({"k0": ["a", "b"]})), tombstones=True)
    put(live, {"a": (5, [5])})
    chunks = live.snapshot(CheckpointId(2))
    back = table()
    back.restore([*(base if isinstance(chunks[0], ChunkHandle) else []), *stored(chunks)])
    assert content(back) == {"a": (5, [5]), "x0": (0, [])}


def test_only_rows_of_both_the_subtask_and_the_handle_are_restored() -> None:
    live = table()
    put(live, {f"k{i}": (i, []) for i in range(1000)})
    (chunk,) = stored(live.snapshot(CheckpointId(1)))
    halves = []
    for groups in (KeyGroupRange(0, 50), KeyGroupRange(50, 128)):
        half = table(groups)
        half.restore([chunk])
        halves.append(content(half))
        (handle,) = half.snapshot(CheckpointId(2))
        assert isinstance(handle, ChunkHandle) and handle.groups == groups and handle.name == chunk.handle.name
        again = table()
        again.restore([RestoredChunk(handle, chunk.rows)])
        assert content(again) == halves[-1]
    assert len(halves[0]) + len(halves[1]) == 1000
    assert halves[0] | halves[1] == content(live)


def test_removed_rows_give_their_room_back() -> None:
    live = table()
    for batch in range(40):
        put(live, {f"{batch}-{i}": (i, [i]) for i in range(1000)})
        if batch:
            old = live.find(pl.DataFrame({"k0": [f"{batch - 1}-{i}" for i in range(1000)]}))
            live.remove(old, tombstones=False)
    assert live.live_rows == 1000
    assert live.size_bytes < 2_000_000


def test_a_table_without_keys_has_one_row() -> None:
    one = KeyedTable(
        [], [pl.Int64()], hash_keys=lambda k: np.zeros(k.height, np.uint64), groups=ALL, max_parallelism=128
    )
    assert one.upsert(pl.DataFrame(height=2))[0].tolist() == [0, 0]
