"""A plan to its drained end in one thread: real operators, slots and sources, no Spark stage. It may be killed on the way.

The quickest way to ask what a query answers, and whether it still answers the same when everything is thrown away in the middle and a
restore goes on at another parallelism: some ten milliseconds a run.

    committed = run_locally(translation.plan, sources, Fate((2, 5, 1), seed=7), load=load)
    committed.rows, committed.restored
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import polars as pl

from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable, Split
from tidegate.operators.build import refuse_user_functions
from tidegate.operators.columns import empty_frame
from tidegate.operators.user_functions import Load
from tidegate.plan.relational import Scan, Sink
from tidegate.plan.stages import build_graph
from tidegate.ports.sink import SinkWriter
from tidegate.ports.source import SourceConnector, SplitEnumerator, SplitReader
from tidegate.testing.scripted import ScriptedSink
from tidegate.testing.slots import SlotHarness, Snapshot

MAX_PARALLELISM = 16
STEPS_MAX = 1_000_000


class ReadableSources(Protocol):
    """Both sides of the sources. ``connectors.home.RealConnectors`` is one."""

    def source(self, scan: Scan) -> SourceConnector: ...

    def enumerator(self, scan: Scan) -> SplitEnumerator: ...


@dataclass(frozen=True, slots=True)
class Fate:
    """What happens to a run. One start per parallelism; each but the last is killed, and the next restores what is left of it.

    ``seed`` decides the order of everything that may happen in any order, and when checkpoints and kills come.
    ``batch_rows``, ``capture_rows``, ``channel_batches``: how finely work is cut; small ones make many moments to be killed in.
    ``overtaking``: barriers do not wait for the rows before them. ``commit_chance``: how often a completed checkpoint is committed
    before the kill; what is not is carried by the next.
    """

    parallelisms: tuple[int, ...] = (2,)
    seed: int = 0
    batch_rows: int = 200
    capture_rows: int = 16_384
    channel_batches: int = 16
    overtaking: bool = False
    commit_chance: float = 0.5

    def config(self) -> QueryConfig:
        return QueryConfig(
            max_parallelism=MAX_PARALLELISM,
            bounded=True,
            drain=True,
            batch_rows_max=self.batch_rows,
            capture_rows=self.capture_rows,
            channel_batches_max=self.channel_batches,
            aligned_timeout_ms=1 if self.overtaking else 0,
        )


UNHARMED = Fate()


def random_fate(random: Random, *, kills: int, batch_rows: int = 200) -> Fate:
    """Any parallelism from 1 to 5, another after each kill; fine and coarse work; barriers that wait and that overtake."""
    parallelisms = [random.randint(1, 4)]
    while len(parallelisms) <= kills:
        parallelisms.append(random.choice([p for p in range(1, 6) if p != parallelisms[-1]]))
    return Fate(
        tuple(parallelisms),
        seed=random.randrange(1 << 32),
        batch_rows=max(1, random.choice((batch_rows // 10, batch_rows // 3, batch_rows))),
        capture_rows=random.choice((3, 50, 16_384)),
        channel_batches=random.choice((1, 3, 16)),
        overtaking=random.random() < 0.25,
        commit_chance=random.choice((0.0, 0.5, 1.0)),
    )


@dataclass(frozen=True, slots=True)
class Committed:
    """``rows``: under the public names, in the order of the commits; of complete mode the last result only.

    ``restored``: for each start after the first, the checkpoint it went on from; None: the kill came before there was one.
    """

    rows: pl.DataFrame
    restored: tuple[CheckpointId | None, ...]
    rows_read: int
    state_rows: int
    """Rows of keyed state left at the end."""
    late_rows: int


@dataclass(slots=True)
class _Job:
    """Sources as they are, counted while read; instead of every sink one that keeps what was committed."""

    sources: ReadableSources
    config: QueryConfig
    rows_read: int = 0
    sinks: dict[OperatorId, ScriptedSink] = field(default_factory=dict)
    newest: dict[OperatorId, CheckpointId] = field(default_factory=dict)

    def source(self, scan: Scan) -> _CountedSource:
        return _CountedSource(self.sources.source(scan), self._count)

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter:
        return self._sink(sink).writer(sink, attempt, subtask)

    def _sink(self, sink: Sink) -> ScriptedSink:
        return self.sinks.setdefault(sink.id, ScriptedSink())

    def enumerator(self, scan: Scan) -> SplitEnumerator:
        return self.sources.enumerator(scan)

    def commit(self, sink: Sink, committables: tuple[Committable, ...]) -> None:
        kept = self._sink(sink)
        if sink.mode is OutputMode.COMPLETE and committables:
            newest = max(one.checkpoint for one in committables)
            committables = tuple(one for one in committables if one.checkpoint == newest)
            if newest > self.newest.get(sink.id, -1):
                kept.visible.clear()
                self.newest[sink.id] = newest
        kept.commit(committables)

    def committed(self, sink: Sink) -> pl.DataFrame:
        return pl.concat([empty_frame(sink.schema), *self._sink(sink).visible.values()])

    def _count(self, rows: int) -> None:
        self.rows_read += rows


@dataclass(frozen=True, slots=True)
class _CountedSource(SourceConnector):
    inner: SourceConnector
    count: Callable[[int], None]

    def open(self, split: Split, position: bytes | None) -> _CountedReader:
        return _CountedReader(self.inner.open(split, position), self.count)


@dataclass(frozen=True, slots=True)
class _CountedReader(SplitReader):
    inner: SplitReader
    count: Callable[[int], None]

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        rows = self.inner.read(rows_max, now_ms)
        if rows is not None:
            self.count(rows.height)
        return rows

    @property
    def position(self) -> bytes:
        return self.inner.position

    @property
    def finished(self) -> bool:
        return self.inner.finished

    def describe(self) -> str:
        return self.inner.describe()

    def close(self) -> None:
        self.inner.close()


def run_locally(
    plan: Sink,
    sources: Callable[[QueryConfig], ReadableSources],
    fate: Fate = UNHARMED,
    *,
    load: Load = refuse_user_functions,
    rows: int = 1_500,
) -> Committed:
    """``rows``: about how many there are to read; kills come at any moment before that many were read.

    Raises what the query raises.
    """
    config = fate.config()
    job = _Job(sources(config), config)
    chance = Random(fate.seed)
    store: dict[str, bytes] = {}
    snapshot: Snapshot | None = None
    restored: list[CheckpointId | None] = []
    *killed, last = fate.parallelisms
    for attempt, parallelism in enumerate(killed, 1):
        harness = _start(plan, job, fate, parallelism, attempt, snapshot, store, load)
        _until_killed(harness, job, chance, rows // len(killed))
        snapshot = harness.completed[-1] if harness.completed else None
        restored.append(snapshot.checkpoint if snapshot is not None else None)
    harness = _start(plan, job, fate, last, len(killed) + 1, snapshot, store, load)
    harness.settle(STEPS_MAX, until=lambda: harness.all_exhausted)
    harness.finish()
    metrics = [one for runtime in harness.slots.values() for one in runtime.progress().metrics]
    return Committed(
        job.committed(plan),
        tuple(restored),
        job.rows_read,
        state_rows=sum(one.state_rows for one in metrics),
        late_rows=sum(one.late_rows for one in metrics),
    )


def _start(
    plan: Sink,
    job: _Job,
    fate: Fate,
    parallelism: int,
    attempt: int,
    snapshot: Snapshot | None,
    store: dict[str, bytes],
    load: Load,
) -> SlotHarness:
    return SlotHarness(
        build_graph(plan, parallelism=parallelism, max_parallelism=MAX_PARALLELISM),
        job,
        fate.config(),
        seed=fate.seed + attempt,
        attempt=attempt,
        restore=snapshot,
        store=store,
        load=load,
        commit_chance=fate.commit_chance,
        step_ms=1.0 if fate.overtaking else 0.0,
    )


def _until_killed(harness: SlotHarness, job: _Job, chance: Random, rows: int) -> None:
    """Up to three checkpoints while rows flow, the last of them perhaps unfinished when the kill comes."""
    harness.settle(until=lambda: harness.all_ready)
    moments = sorted(job.rows_read + chance.randrange(rows + 1) for _ in range(chance.randint(1, 3)))
    for moment in moments:
        harness.settle(STEPS_MAX, until=lambda moment=moment: job.rows_read >= moment or harness.all_exhausted)
        if chance.random() < 0.8:
            harness.checkpoint()
        else:
            harness.trigger()
    harness.advance(chance.randrange(60))
