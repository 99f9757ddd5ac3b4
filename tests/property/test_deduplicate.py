"""Deduplication against plain Python, row by row: any batching, watermarks in between, kills, restores at another parallelism."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.model import types as t
from tidegate.model.elements import WATERMARK_MIN_US, Batch
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import ChunkHandle
from tidegate.model.types import Field
from tidegate.operators.columns import polars_schema
from tidegate.operators.deduplicate import DeduplicateOperator
from tidegate.operators.partial_deduplicate import PartialDeduplicateOperator
from tidegate.operators.protocol import NewChunk, OperatorContext, Restored, RestoredChunk
from tidegate.plan.keyed import Deduplicate, PartialDeduplicate
from tidegate.plan.relational import EventTimeKey
from tidegate.state.codec import decode_chunk, encode_chunk
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups, range_of, subtask_of

GROUPS = 16
DELAY_US = 5
SCHEMA = (Field("id", t.LONG), Field("k", t.STRING), Field("ts", t.TIMESTAMP_NTZ))
TIME = EventTimeKey("ts", None)


def node(*keys: str, event_time: EventTimeKey | None = None, within: bool = False) -> Deduplicate:
    return Deduplicate(
        id=OperatorId("deduplicate"),
        keys=keys,
        event_time=event_time,
        within_watermark=within,
        delay_us=DELAY_US if within else 0,
        schema=SCHEMA,
    )


NODES = {
    "for ever": node("k"),
    "for ever, late rows dropped": node("k", event_time=TIME),
    "by the time among the keys": node("k", "ts", event_time=TIME),
    "within the watermark": node("k", event_time=TIME, within=True),
}
Row = tuple[int, str | None, int | None]


def expected(of: Deduplicate, events: list[list[tuple] | int]) -> tuple[list[Row], int]:
    """What one patient reader of all rows in order would let pass, and how many rows were late."""
    passed: list[Row] = []
    seen: dict[tuple, int | None] = {}
    watermark, late = WATERMARK_MIN_US, 0
    for event in events:
        if isinstance(event, int):
            watermark = max(watermark, event)
            continue
        for row in event:
            values = dict(zip(("id", "k", "ts"), row, strict=True))
            if of.event_time is not None and row[2] is not None and row[2] <= watermark:
                late += 1
                continue
            key = tuple(values[name] for name in of.keys)
            expires = seen.get(key, WATERMARK_MIN_US)
            if expires is None or expires > watermark:
                continue
            passed.append(row)
            seen[key] = row[2] + DELAY_US if of.within_watermark and row[2] is not None else None
    return passed, late


@dataclass
class Deployment:
    """All subtasks of one deduplication behind their exchange; chunks are stored and named as the runtime does it."""

    of: Deduplicate
    parallelism: int
    store: dict[str, pl.DataFrame] = field(default_factory=dict)
    operators: list[DeduplicateOperator] = field(default_factory=list)
    checkpoints: int = 0

    def __post_init__(self) -> None:
        self.deploy(self.parallelism, Restored())

    def deploy(self, parallelism: int, restored: Restored) -> None:
        self.parallelism = parallelism
        self.partial = PartialDeduplicateOperator(PartialDeduplicate(deduplicate=self.of, schema=SCHEMA))
        self.operators = [
            DeduplicateOperator(
                self.of,
                OperatorContext(
                    self.of.id,
                    SlotIndex(i),
                    parallelism,
                    GROUPS,
                    range_of(i, parallelism, GROUPS),
                    restored,
                    capture_rows=3,
                ),
            )
            for i in range(parallelism)
        ]

    def feed(self, rows: list[Row]) -> list[Row]:
        frame = pl.DataFrame(rows, schema={"id": pl.Int64, "k": pl.String, "ts": pl.Int64}, orient="row")
        frame = frame.cast(polars_schema(SCHEMA))  # type: ignore[arg-type]
        if self.of.rows_of_a_key_are_late_together:
            (out,) = self.partial.on_batch(Batch(frame))
            frame = out.rows
        types = {one.name: one.type for one in SCHEMA}
        hashes = hash_columns(frame.select(self.of.keys), tuple(types[key] for key in self.of.keys))
        targets = subtask_of(key_groups(hashes, GROUPS), self.parallelism, GROUPS)
        passed = []
        for index, operator in enumerate(self.operators):
            mine = frame.filter(pl.Series(targets == index))
            for batch in operator.on_batch(Batch(mine)) if mine.height else ():
                assert batch.rows.schema == polars_schema(SCHEMA)
                passed += batch.rows.with_columns(pl.col("ts").to_physical()).rows()
        return passed

    def watermark(self, at_us: int) -> None:
        for operator in self.operators:
            assert not list(operator.on_watermark(at_us))

    def checkpoint(self, *, complete: bool) -> Restored:
        self.checkpoints += 1
        number = CheckpointId(self.checkpoints)
        chunks, values = [], []
        for index, operator in enumerate(self.operators):
            state = operator.snapshot(number)
            stored = []
            for position, chunk in enumerate(state.chunks):
                handle = chunk
                if isinstance(chunk, NewChunk):
                    while not chunk.complete:
                        operator.capture()
                    name = f"{number}/{index}/{position}"
                    self.store[name] = decode_chunk(encode_chunk(chunk.rows), name)
                    handle = ChunkHandle(
                        name=name, groups=chunk.groups, rows=chunk.rows.height, size_bytes=0, checksum=0
                    )
                assert isinstance(handle, ChunkHandle)
                stored.append(handle)
                chunks.append(RestoredChunk(handle, self.store[handle.name]))
            values.append(state.value)
            operator.on_stored(number, tuple(stored))
            if complete:
                operator.on_completed(number)
        return Restored(chunks=tuple(chunks), values=tuple(values))

    @property
    def late_rows(self) -> int:
        return sum(operator.counters.late_rows for operator in self.operators)


times = st.none() | st.integers(0, 30)
batches = st.lists(st.tuples(st.none() | st.sampled_from("abcdefgh"), times), min_size=1, max_size=8)
steps = st.lists(
    batches
    | st.integers(0, 30)
    | st.tuples(st.just("checkpoint"), st.booleans())
    | st.tuples(st.just("kill"), st.integers(1, 4)),
    max_size=25,
)


@given(st.sampled_from(sorted(NODES)), steps, st.integers(1, 3))
@settings(max_examples=300, deadline=None)
def test_any_history_gives_the_rows_of_one_patient_reader(kind: str, history: list, parallelism: int) -> None:
    of = NODES[kind]
    numbers = iter(range(10**9))
    running = Deployment(of, parallelism)
    events: list[list[Row] | int] = []
    passed: list[Row] = []
    last, events_until, passed_until = Restored(), 0, 0
    for step in history:
        match step:
            case list():
                rows = [(next(numbers), k, ts) for k, ts in step]
                events.append(rows)
                passed += running.feed(rows)
            case int():
                events.append(step)
                running.watermark(step)
            case ("checkpoint", complete):
                taken = running.checkpoint(complete=complete)
                if complete:
                    last, events_until, passed_until = taken, len(events), len(passed)
            case ("kill", parallelism):
                running.deploy(parallelism, last)
                del passed[passed_until:]
                for event in events[events_until:]:
                    if isinstance(event, int):
                        running.watermark(event)
                    else:
                        passed += running.feed(event)
    rows, late = expected(of, events)
    assert sorted(passed) == sorted(rows)
    if kind != "by the time among the keys":  # Of late rows with equal keys in one batch only one may have come so far.
        assert running.late_rows == late


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), min_size=1, max_size=60), st.data())
@settings(max_examples=100, deadline=None)
def test_batches_may_be_cut_anywhere(rows: list[tuple[str, int]], data: st.DataObject) -> None:
    """Without watermarks in between the first row of a key is the same however the rows were cut."""
    numbered = [(number, k, ts) for number, (k, ts) in enumerate(rows)]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(numbered)), max_size=5)))
    pieces = [numbered[a:b] for a, b in zip([0, *cuts], [*cuts, len(numbered)], strict=True) if a < b]
    for of in NODES.values():
        whole, parts = Deployment(of, 2), Deployment(of, 3)
        assert sorted(whole.feed(numbered)) == sorted(row for piece in pieces for row in parts.feed(piece))
