"""Joins of two streams against brute force over whole tables: any interleaving, any cut into batches, killed and restored at any parallelism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.model import types as t
from tidegate.model.elements import WATERMARK_MAX_US, Batch
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import ChunkHandle
from tidegate.model.types import Field
from tidegate.operators.columns import polars_schema
from tidegate.operators.protocol import NewChunk, OperatorContext, OperatorState, Restored, RestoredChunk
from tidegate.operators.stream_join import LEFT, RIGHT, StreamJoinOperator
from tidegate.plan.expressions import Call, Column
from tidegate.plan.keyed import JoinSide, Moment, StreamJoin, StreamJoinKind, TimeRange
from tidegate.state.codec import decode_chunk, encode_chunk
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups, range_of, subtask_of

GROUPS = 8
SIDES = (
    (Field("k", t.STRING), Field("t", t.TIMESTAMP), Field("x", t.INTEGER), Field("id", t.LONG)),
    (Field("l", t.STRING), Field("u", t.TIMESTAMP), Field("y", t.INTEGER), Field("nr", t.LONG)),
)
LOW_US, HIGH_US = -2, 3
"""A right row is at most 2 earlier and 3 later than its left partner."""
WITHIN = TimeRange("t", "u", LOW_US, HIGH_US)
BIGGER = Call("lessthanorequal", (Column("x", t.INTEGER), Column("y", t.INTEGER)), t.BOOLEAN)


def difference(low: int, high: int) -> Call:
    """``low ≤ u − t ≤ high``, as a condition over microseconds."""
    t_us, u_us = (Call("unix_micros", (Column(name, t.TIMESTAMP),), t.LONG) for name in ("t", "u"))
    apart = Call("subtract", (u_us, t_us), t.LONG)
    from tidegate.plan.expressions import Literal

    above = Call("greaterthanorequal", (apart, Literal(low, t.LONG)), t.BOOLEAN)
    below = Call("lessthanorequal", (apart, Literal(high, t.LONG)), t.BOOLEAN)
    return Call("and", (above, below), t.BOOLEAN)


def both(*conditions: Call) -> Call:
    first, *rest = conditions
    for one in rest:
        first = Call("and", (first, one), t.BOOLEAN)
    return first


def ranged(kind: StreamJoinKind, *, null_safe: bool = False) -> StreamJoin:
    """Equal keys, a range of event times, and a condition on the values."""
    return join(
        kind,
        null_safe=(null_safe,),
        condition=both(difference(LOW_US, HIGH_US), BIGGER),
        within=WITHIN,
        left=JoinSide(keys=("k",), schema=SIDES[0], event_time=Moment("t"), expires=Moment("t", None, HIGH_US), lag_us=HIGH_US),
        right=JoinSide(keys=("l",), schema=SIDES[1], event_time=Moment("u"), expires=Moment("u", None, -LOW_US), lag_us=-LOW_US),
    )  # fmt: skip


def timed(kind: StreamJoinKind) -> StreamJoin:
    """Equal keys, and event time is one of them."""
    return join(
        kind,
        null_safe=(False, False),
        condition=None,
        within=TimeRange("t", "u", 0, 0),
        left=JoinSide(keys=("k", "t"), schema=SIDES[0], event_time=Moment("t"), expires=Moment("t")),
        right=JoinSide(keys=("l", "u"), schema=SIDES[1], event_time=Moment("u"), expires=Moment("u")),
    )


def join(kind: StreamJoinKind, **parts: object) -> StreamJoin:
    semi = kind is StreamJoinKind.SEMI
    schema = SIDES[0] if semi else (*SIDES[0], *SIDES[1])
    return StreamJoin(id=OperatorId("join"), kind=kind, schema=schema, **parts)  # type: ignore[arg-type]


@dataclass
class Gang:
    """All subtasks of the operator, with an exchange in front that is no more than a filter by key group."""

    node: StreamJoin
    parallelism: int
    restored: Restored = field(default_factory=Restored)
    rows: list[tuple] = field(default_factory=list)
    uploaded_rows: int = 0

    def __post_init__(self) -> None:
        self._subtasks = [
            StreamJoinOperator(
                self.node,
                OperatorContext(
                    operator=OperatorId("join"),
                    subtask=SlotIndex(index),
                    parallelism=self.parallelism,
                    max_parallelism=GROUPS,
                    groups=range_of(index, self.parallelism, GROUPS),
                    restored=self.restored,
                    capture_rows=3,
                ),
            )
            for index in range(self.parallelism)
        ]

    def batch(self, port: int, rows: list[tuple]) -> None:
        frame = pl.DataFrame(rows, schema=polars_schema(SIDES[port]), orient="row")
        side = (self.node.left, self.node.right)[port]
        types = tuple(next(one.type for one in side.schema if one.name == key) for key in side.keys)
        groups = key_groups(hash_columns(frame.select(side.keys), types), GROUPS)
        owners = pl.Series(subtask_of(groups, self.parallelism, GROUPS))
        for index, subtask in enumerate(self._subtasks):
            mine = frame.filter(owners == index)
            if mine.height:
                self._take(subtask.on_batch(Batch(mine, port=port)))
            subtask.capture()

    def watermark(self, at_us: int) -> None:
        for subtask in self._subtasks:
            self._take(subtask.on_watermark(at_us))

    def restart(self, checkpoint: int, parallelism: int) -> Gang:
        """A snapshot, stored as bytes, and a new gang from it. Output since then never happened: there is none."""
        chunks: list[RestoredChunk] = []
        values: list[bytes] = []
        for subtask in self._subtasks:
            handles = self._stored(subtask, checkpoint)
            chunks += [RestoredChunk(handle, decode_chunk(handle.data or b"", handle.name)) for handle in handles[0]]
            values.append(handles[1])
        return Gang(self.node, parallelism, Restored(tuple(chunks), tuple(values)), self.rows)

    def checkpoint(self, checkpoint: int) -> None:
        for subtask in self._subtasks:
            self._stored(subtask, checkpoint)
            subtask.on_completed(CheckpointId(checkpoint))

    @property
    def late(self) -> int:
        return sum(subtask.counters.late_rows for subtask in self._subtasks)

    @property
    def state_rows(self) -> int:
        return sum(subtask.counters.state_rows for subtask in self._subtasks)

    def _stored(self, subtask: StreamJoinOperator, checkpoint: int) -> tuple[tuple[ChunkHandle, ...], bytes]:
        state: OperatorState = subtask.snapshot(CheckpointId(checkpoint))
        for _ in range(100):
            subtask.capture()
        handles = tuple(
            chunk if isinstance(chunk, ChunkHandle) else self._handle(chunk, f"{checkpoint}-{number}")
            for number, chunk in enumerate(state.chunks)
            if isinstance(chunk, ChunkHandle) or chunk.rows.height
        )
        subtask.on_stored(CheckpointId(checkpoint), handles)
        return handles, state.value

    def _handle(self, chunk: NewChunk, name: str) -> ChunkHandle:
        self.uploaded_rows += chunk.rows.height
        data = encode_chunk(chunk.rows)
        return ChunkHandle(
            name=name, groups=chunk.groups, rows=chunk.rows.height, size_bytes=len(data), checksum=0, data=data
        )

    def _take(self, produced: Iterator) -> None:
        for batch in produced:
            assert batch.rows.columns == [one.name for one in self.node.schema]
            for row in batch.rows.with_columns(pl.col(pl.Datetime).to_physical()).rows():
                self.rows.append(row)


def expected(node: StreamJoin, left: list[tuple], right: list[tuple]) -> Counter:
    """Nested loops."""
    null_safe = dict(zip(node.left.keys, node.null_safe, strict=True))

    def equal(a: object, b: object, key: str) -> bool:
        return a == b and (a is not None or null_safe[key])

    def match(one: tuple, other: tuple) -> bool:
        if not equal(one[0], other[0], "k"):
            return False
        if "t" in node.left.keys:
            return equal(one[1], other[1], "t")
        known = None not in (one[1], other[1], one[2], other[2])
        return known and LOW_US <= other[1] - one[1] <= HIGH_US and one[2] <= other[2]

    pairs = [(i, j) for i, one in enumerate(left) for j, other in enumerate(right) if match(one, other)]
    nothing = (None,) * 4
    if node.kind is StreamJoinKind.SEMI:
        return Counter(left[i] for i in {i for i, _ in pairs})
    found = [left[i] + right[j] for i, j in pairs]
    if node.kind in (StreamJoinKind.LEFT, StreamJoinKind.FULL):
        found += [one + nothing for i, one in enumerate(left) if i not in {i for i, _ in pairs}]
    if node.kind in (StreamJoinKind.RIGHT, StreamJoinKind.FULL):
        found += [nothing + other for j, other in enumerate(right) if j not in {j for _, j in pairs}]
    return Counter(found)


keys = st.sampled_from(["a", "b", "ä", None])
small = st.none() | st.integers(0, 3)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple]:
    """Steps: rows of one side, watermarks that make none of them late, checkpoints, restarts at another parallelism."""
    steps: list[tuple] = []
    now = number = 0
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["rows", "rows", "rows", "watermark", "checkpoint", "restart"]))
        if kind == "rows":
            rows = []
            for _ in range(draw(st.integers(1, 5))):
                at = draw(st.integers(1, 6)) + now
                rows.append(
                    (draw(keys), draw(st.none() | st.just(at)) if draw(st.booleans()) else at, draw(small), number)
                )
                number += 1
            steps.append(("rows", draw(st.sampled_from([LEFT, RIGHT])), rows))
        elif kind == "watermark":
            now += draw(st.integers(0, 4))
            steps.append(("watermark", now))
        elif kind == "checkpoint":
            steps.append(("checkpoint",))
        else:
            steps.append(("restart", draw(st.integers(1, 4))))
    return steps


def play(node: StreamJoin, steps: list[tuple]) -> tuple[Gang, list[tuple], list[tuple]]:
    gang, sides = Gang(node, 2), ([], [])
    for number, step in enumerate(steps, 1):
        match step:
            case ("rows", port, rows):
                sides[port].extend(rows)
                gang.batch(port, rows)
            case ("watermark", at_us):
                gang.watermark(at_us)
            case ("checkpoint",):
                gang.checkpoint(number)
            case ("restart", parallelism):
                gang = gang.restart(number, parallelism)
    gang.watermark(WATERMARK_MAX_US)
    return gang, *sides


@pytest.mark.parametrize("kind", StreamJoinKind)
@given(steps=histories())
@settings(max_examples=80)
def test_a_range_join_equals_nested_loops(kind: StreamJoinKind, steps: list[tuple]) -> None:
    node = ranged(kind)
    gang, left, right = play(node, steps)
    assert Counter(gang.rows) == expected(node, left, right)
    assert gang.late == 0
    assert gang.state_rows == 0


@pytest.mark.parametrize("kind", StreamJoinKind)
@given(steps=histories())
@settings(max_examples=30)
def test_null_safe_keys_find_one_another(kind: StreamJoinKind, steps: list[tuple]) -> None:
    node = ranged(kind, null_safe=True)
    gang, left, right = play(node, steps)
    assert Counter(gang.rows) == expected(node, left, right)


@pytest.mark.parametrize("kind", StreamJoinKind)
@given(steps=histories())
@settings(max_examples=30)
def test_event_time_among_the_keys_equals_nested_loops(kind: StreamJoinKind, steps: list[tuple]) -> None:
    node = timed(kind)
    gang, left, right = play(node, steps)
    assert Counter(gang.rows) == expected(node, left, right)
    assert gang.state_rows == 0
