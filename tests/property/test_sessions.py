"""Session windows against plain Python, element by element: any batches, any order, killed and restored at another parallelism."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.model import types as t
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US, Batch
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import ChunkHandle
from tidegate.model.types import Array, Field, Struct
from tidegate.operators.columns import polars_schema
from tidegate.operators.protocol import NewChunk, OperatorContext, OperatorState, Restored, RestoredChunk
from tidegate.operators.sessions import SessionAggregateOperator
from tidegate.plan.keyed import SessionAggregate
from tidegate.plan.relational import AggregateCall
from tidegate.state.codec import decode_chunk, encode_chunk
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups, range_of, subtask_of

MAX_PARALLELISM = 16
WINDOW = Struct((Field("start", t.TIMESTAMP), Field("end", t.TIMESTAMP)))
INPUT = (Field("k", t.STRING), Field("w", WINDOW, nullable=False), Field("v", t.LONG))
CALLS = (
    AggregateCall("n", "count", (), t.LONG),
    AggregateCall("total", "sum", ("v",), t.LONG, (t.LONG,)),
    AggregateCall("all", "collect_list", ("v",), Array(t.LONG), (t.LONG,)),
    AggregateCall("top", "max", ("v",), t.LONG, (t.LONG,)),
)
Row = tuple[str | None, int, int, int | None]
"""Key, start, gap, value."""
Session = tuple[str | None, int, int, int, int | None, tuple[int, ...], int | None]


def node_of(mode: OutputMode, keys: tuple[str, ...] = ("k",)) -> SessionAggregate:
    own = tuple(field for field in INPUT if field.name in (*keys, "w"))
    return SessionAggregate(
        id=OperatorId("s"),
        keys=keys,
        session="w",
        calls=CALLS,
        event_time=True,
        mode=mode,
        schema=(*own, *(Field(call.name, call.type) for call in CALLS)),
        input_schema=INPUT,
    )


class Reference:
    """One row at a time."""

    def __init__(self, *, keeps: bool) -> None:
        self.open: dict[str | None, list[tuple[int, int, list[int | None]]]] = defaultdict(list)
        self.watermark = WATERMARK_MIN_US
        self.keeps = keeps
        self.late = 0

    def rows(self, rows: list[Row]) -> None:
        for key, start, gap, value in rows:
            end = start + gap
            if end <= self.watermark:
                self.late += 1
                continue
            apart, values = [], [value]
            for one, other, held in self.open[key]:
                if one <= end and start <= other:
                    start, end, values = min(start, one), max(end, other), values + held
                else:
                    apart.append((one, other, held))
            self.open[key] = [*apart, (start, end, values)]

    def advance(self, watermark: int) -> list[Session]:
        self.watermark = max(self.watermark, watermark)
        if self.keeps:
            return []
        out = [one for one in self.sessions() if one[2] <= self.watermark]
        for key, sessions in self.open.items():
            self.open[key] = [one for one in sessions if one[1] > self.watermark]
        return out

    def sessions(self) -> list[Session]:
        return [
            (key, start, end, len(values), _sum(values), tuple(sorted(_some(values))), max(_some(values), default=None))
            for key, sessions in self.open.items()
            for start, end, values in sessions
        ]


def _some(values: list[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _sum(values: list[int | None]) -> int | None:
    return sum(_some(values)) if _some(values) else None


class Deployment:
    """The operator in several subtasks, checkpointed and restarted at will."""

    def __init__(self, node: SessionAggregate, parallelism: int) -> None:
        self.node = node
        self.checkpoint = 0
        self.stored: dict[str, bytes] = {}
        self.states: list[tuple[tuple[ChunkHandle, ...], OperatorState]] = []
        self.deploy(parallelism)

    def deploy(self, parallelism: int) -> None:
        """Starts again from the last checkpoint."""
        self.parallelism = parallelism
        chunks = tuple(
            RestoredChunk(handle, decode_chunk(self.stored[handle.name], "c"))
            for handles, _ in self.states
            for handle in handles
        )
        restored = Restored(chunks=chunks, values=tuple(state.value for _, state in self.states))
        self.subtasks = [
            SessionAggregateOperator(
                self.node,
                OperatorContext(
                    self.node.id,
                    SlotIndex(i),
                    parallelism,
                    MAX_PARALLELISM,
                    range_of(i, parallelism, MAX_PARALLELISM),
                    restored,
                    capture_rows=3,
                ),
            )
            for i in range(parallelism)
        ]

    def rows(self, rows: list[Row]) -> None:
        frame = frame_of(rows)
        if self.node.keys:
            groups = key_groups(hash_columns(frame.select("k"), (t.STRING,)), MAX_PARALLELISM)
            targets = pl.Series(subtask_of(groups, self.parallelism, MAX_PARALLELISM))
        else:
            targets = pl.repeat(0, frame.height, eager=True)
        for index, subtask in enumerate(self.subtasks):
            assert not list(subtask.on_batch(Batch(frame.filter(targets == index))))

    def advance(self, watermark: int, only: int | None = None) -> list[Session]:
        return [
            one
            for index, subtask in enumerate(self.subtasks)
            if only is None or index == only % self.parallelism
            for one in self.read(subtask.on_watermark(watermark))
        ]

    def flush(self) -> list[Session]:
        return [one for subtask in self.subtasks for one in self.read(subtask.on_barrier(CheckpointId(9)))]

    def read(self, outputs: Iterator[object]) -> list[Session]:
        sessions: list[Session] = []
        for batch in outputs:
            assert isinstance(batch, Batch)
            assert batch.rows.schema == polars_schema(self.node.schema)
            physical = batch.rows.with_columns(
                pl.col("w").struct.field("start").to_physical().alias("start"),
                pl.col("w").struct.field("end").to_physical().alias("end"),
            )
            for row in physical.iter_rows(named=True):
                values = tuple(sorted(row["all"]))
                sessions.append((row.get("k"), row["start"], row["end"], row["n"], row["total"], values, row["top"]))
        return sessions

    def snapshot(self, *, complete: bool) -> None:
        """``complete``: later checkpoints may refer to what this one stored."""
        self.checkpoint += 1
        checkpoint, states = CheckpointId(self.checkpoint), []
        for number, subtask in enumerate(self.subtasks):
            state = subtask.snapshot(checkpoint)
            while not all(chunk.complete for chunk in state.chunks if isinstance(chunk, NewChunk)):
                subtask.capture()
            handles = []
            for chunk in state.chunks:
                if isinstance(chunk, NewChunk):
                    name = f"{self.checkpoint}-{number}-{len(handles)}"
                    self.stored[name] = encode_chunk(chunk.rows)
                    chunk = ChunkHandle(
                        name=name, groups=chunk.groups, rows=chunk.rows.height, size_bytes=0, checksum=0
                    )
                handles.append(chunk)
            states.append((tuple(handles), state))
            subtask.on_stored(checkpoint, tuple(handles))
            if complete:
                subtask.on_completed(checkpoint)
        self.states = states

    @property
    def late(self) -> int:
        return sum(subtask.counters.late_rows for subtask in self.subtasks)

    @property
    def state_rows(self) -> int:
        return sum(subtask.counters.state_rows for subtask in self.subtasks)


def frame_of(rows: list[Row]) -> pl.DataFrame:
    values = [(key, {"start": start, "end": start + gap}, value) for key, start, gap, value in rows]
    plain = {"k": pl.String, "w": pl.Struct({"start": pl.Int64, "end": pl.Int64}), "v": pl.Int64}
    return pl.DataFrame(values, schema=plain, orient="row").cast(dict(polars_schema(INPUT)))


row = st.tuples(
    st.none() | st.sampled_from(["a", "b", "c", "d"]),
    st.integers(0, 60),
    st.integers(1, 12),
    st.none() | st.integers(-9, 9),
)
element = (
    st.lists(row, min_size=1, max_size=8)
    | st.integers(0, 60)
    | st.sampled_from(["checkpoint", "half a checkpoint"])
    | st.tuples(st.just("kill"), st.integers(1, 3))
)


@settings(max_examples=150, deadline=None)
@given(elements=st.lists(element, max_size=20), keyed=st.booleans(), parallelism=st.integers(1, 3))
def test_sessions_equal_the_reference_through_kills_and_rescaling(
    elements: list[object], keyed: bool, parallelism: int
) -> None:
    """T26: whatever the batches, a session leaves once, whole, when the watermark reaches its end."""
    running = Deployment(node_of(OutputMode.APPEND, ("k",) if keyed else ()), parallelism)
    reference = Reference(keeps=False)
    watermark = 0
    for one in elements:
        match one:
            case list():
                rows = [(key if keyed else None, start, gap, value) for key, start, gap, value in one]
                running.rows(rows)
                reference.rows(rows)
            case int():
                watermark = max(watermark, one)
                assert sorted(running.advance(watermark), key=repr) == sorted(reference.advance(watermark), key=repr)
            case "checkpoint" | "half a checkpoint":
                running.snapshot(complete=one == "checkpoint")
            case (_, int(again)):
                # The state at the kill is the one of a checkpoint: what the reference has seen, too.
                running.snapshot(complete=True)
                running.deploy(again)
        assert running.state_rows == sum(map(len, reference.open.values()))
        assert running.late == reference.late
    assert sorted(running.advance(WATERMARK_MAX_US), key=repr) == sorted(reference.advance(WATERMARK_MAX_US), key=repr)
    assert running.state_rows == 0


@settings(max_examples=60, deadline=None)
@given(elements=st.lists(element, max_size=15), parallelism=st.integers(1, 3))
def test_in_complete_mode_all_sessions_leave_at_every_barrier_and_none_is_forgotten(
    elements: list[object], parallelism: int
) -> None:
    running = Deployment(node_of(OutputMode.COMPLETE), parallelism)
    reference = Reference(keeps=True)
    for one in elements:
        match one:
            case list():
                running.rows(one)
                reference.rows(one)
            case int():
                assert not running.advance(one) and not reference.advance(one)
            case str():
                assert sorted(running.flush(), key=repr) == sorted(reference.sessions(), key=repr)
                running.snapshot(complete=one == "checkpoint")
            case (_, int(again)):
                running.snapshot(complete=True)
                running.deploy(again)
    assert sorted(running.flush(), key=repr) == sorted(reference.sessions(), key=repr)


@pytest.mark.parametrize("slow", [0, 1])
def test_after_a_rescale_a_session_that_a_faster_owner_had_closed_is_not_opened_again(slow: int) -> None:
    """T26: subtasks whose barriers overtook rows stand at different watermarks; the new owner goes on from the smallest."""
    running = Deployment(node_of(OutputMode.APPEND), 2)
    rows: list[Row] = [(key, 0, 5, 1) for key in "abcdefgh"]
    running.rows(rows)
    early = running.advance(10, only=1 - slow)
    assert 0 < len(early) < len(rows)
    running.snapshot(complete=True)
    running.deploy(1)
    running.rows(rows)
    assert running.late == len(early)
    later = running.advance(20)
    assert sorted(one[0] for one in later) == sorted(set("abcdefgh") - {one[0] for one in early})
    assert {one[3] for one in later} == {2}


def test_a_late_row_never_extends_a_session_that_is_still_open() -> None:
    """A row is late by its own interval, although a session goes on there."""
    running = Deployment(node_of(OutputMode.APPEND), 1)
    running.rows([("a", 0, 5, 1), ("a", 4, 20, 2)])
    assert running.advance(10) == []
    running.rows([("a", 2, 5, 3)])
    assert running.late == 1
    assert running.advance(24) == [("a", 0, 24, 2, 3, (1, 2), 2)]


def test_intervals_that_touch_are_one_session() -> None:
    running = Deployment(node_of(OutputMode.APPEND), 1)
    running.rows([("a", 0, 5, 1)])
    running.rows([("a", 5, 5, 2), ("a", 11, 5, 4)])
    assert sorted(running.advance(WATERMARK_MAX_US)) == [("a", 0, 10, 2, 3, (1, 2), 2), ("a", 11, 16, 1, 4, (4,), 4)]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_session_that_ends_exactly_at_the_watermark_has_left_and_does_not_come_back(parallelism: int) -> None:
    """T26: it lies in a chunk written before it left, and no tombstone hides it: the watermark in the snapshot alone does."""
    running = Deployment(node_of(OutputMode.APPEND), 1)
    running.rows([(key, 0, end, 1) for end, key in enumerate("abcdefgh", start=10)])
    running.snapshot(complete=True)
    assert [one[0] for one in running.advance(12)] == ["a", "b", "c"]
    running.snapshot(complete=True)
    assert running.states[0][0][0].name.startswith("1-"), "the chunk of the first checkpoint is not written again"
    running.deploy(parallelism)
    assert running.state_rows == 5
    assert sorted(one[0] for one in running.advance(WATERMARK_MAX_US)) == list("defgh")
