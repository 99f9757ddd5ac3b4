"""A whole pipeline in one process without Spark: the real coordinator, a real store, real slots and a real sink.

Time is its own: it passes when nothing else can happen, so a busy machine changes nothing. The source deals out rows by that time, so
that several checkpoints have output of every slot. Answers of the outside come at once.
"""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec
import polars as pl
from tests.integration.sink_steps.steps import Diary, Doom, Step, Watch

from tidegate.api.location import check_store, newest_claim, open_pipeline
from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.layout import chunk_key, chunk_name
from tidegate.checkpoint.lifecycle import step
from tidegate.checkpoint.manifest import Manifest, PipelineDocument
from tidegate.checkpoint.phases import New, State
from tidegate.checkpoint.plan import CheckpointPlan, plan_of, without
from tidegate.checkpoint.storing import StorageEffect, failure_of, perform
from tidegate.connectors.home import Home, RealConnectors
from tidegate.connectors.registry import parse_sink
from tidegate.model import types as t
from tidegate.model.config import QueryConfig
from tidegate.model.errors import TidegateError
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId, SlotIndex
from tidegate.model.messages import (
    DriverMessage,
    EndAttempt,
    SlotMessage,
    SlotReady,
    SourceExhausted,
    SplitsWanted,
    SubtaskAcked,
    SubtaskDeclined,
)
from tidegate.model.snapshot import ChunkHandle, Committable, HandedBack, Published, Split
from tidegate.model.types import Field
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Repartition, Scan, Sink
from tidegate.plan.stages import build_graph
from tidegate.ports.sink import SinkCommitter, SinkWriter
from tidegate.ports.source import SourceConnector, SplitReader
from tidegate.ports.spec import ConnectorRequest
from tidegate.ports.store import BlobStore
from tidegate.runtime.effects import Persist
from tidegate.runtime.persisting import NotStored, persist_states
from tidegate.spark.outside import Outside, remembered_by
from tidegate.spark.read_ahead import read_chunk
from tidegate.storage.local import LocalBlobStore
from tidegate.storage.options import NO_OPTIONS
from tidegate.storage.output_directory import open_directory
from tidegate.testing.slots import SlotHarness, Snapshot
from tidegate.testing.stand_ins import scripted_source

SPLITS, ROWS_PER_SPLIT = 2, 18
ROW_EVERY_MS = 10
TICK_MS = 10
PAUSE_S = 0.02
"""A commit that failed is asked for again in the pipeline's own time; whatever it waits for needs some of ours."""
MAX_PARALLELISM = 8
CONFIG = QueryConfig(max_parallelism=MAX_PARALLELISM, bounded=True, checkpoint_interval_ms=60, checkpoints_retained=2)
SOURCE, SINK = OperatorId("source"), OperatorId("sink")
SCAN = Scan(
    id=SOURCE,
    spec=scripted_source(format="dealt"),
    schema=(Field("id#1", t.LONG), Field("value#2", t.STRING)),
    columns=("id", "value"),
)
SPREAD = Repartition(keys=("id#1",), schema=SCAN.schema, inputs=(SCAN,))
"""Every slot has rows for every checkpoint, whoever reads the splits."""
ALL_ROWS = tuple(sorted(number * 1_000 + row for number in range(SPLITS) for row in range(ROWS_PER_SPLIT)))


def sink_node(form: str, options: dict[str, str], columns: tuple[str, ...] = ("id", "value"), **more: Any) -> Sink:
    """``columns``: ``id``, the number of the row, and ``value``, the same as text."""
    fields = {field.name.partition("#")[0]: field for field in SCAN.schema}
    return Sink(
        id=SINK,
        spec=parse_sink(
            ConnectorRequest(
                format=form,
                options=options,
                schema=tuple(Field(name, fields[name].type) for name in columns),
                **more,
            )
        ),
        columns=tuple((fields[name].name, name) for name in columns),
        inputs=(SPREAD,),
    )


@dataclass(frozen=True)
class Work:
    """What one process is to do. Travels to it pickled."""

    name: str
    folder: str
    """Checkpoints and diaries."""
    sink: Sink
    connectors: SinkFormats
    parallelism: int = 2
    doom: Doom | None = None
    failing: int = 0
    """A checkpoint that cannot be stored by one of the slots: the next one carries its output."""
    without_rule: int = 0
    """A rule of the coordinator that is switched off, to see the harm."""

    @property
    def diary(self) -> Path:
        return Path(self.folder) / f"{self.name}.diary"


class SinkFormats(Protocol):
    """Both sides of a sink. ``home``: the pipeline and its checkpoint location."""

    def writer(self, sink: Sink, home: Home, attempt: Attempt, subtask: SlotIndex) -> SinkWriter: ...

    def committer(self, sink: Sink, home: Home) -> SinkCommitter: ...


class RealSinks:
    """By their format's name, as in every query."""

    def writer(self, sink: Sink, home: Home, attempt: Attempt, subtask: SlotIndex) -> SinkWriter:
        return self.at(home).writer(sink, attempt, subtask)

    def committer(self, sink: Sink, home: Home) -> SinkCommitter:
        return self.at(home).committer(sink)

    def at(self, home: Home) -> RealConnectors:
        return RealConnectors(CONFIG, partial(open_directory, options=NO_OPTIONS), home)


# --- the source -----------------------------------------------------------------------------------------------------------


class DealtReader(SplitReader):
    """One row every 10 ms from the moment it is opened."""

    def __init__(self, number: int, position: bytes | None) -> None:
        self._first = number * 1_000
        self._next = msgspec.msgpack.decode(position, type=int) if position else 0
        self._began: tuple[int, int] | None = None

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        if self._began is None:
            self._began = (now_ms, self._next)
        began_ms, start = self._began
        dealt = min(ROWS_PER_SPLIT, start + (now_ms - began_ms) // ROW_EVERY_MS, self._next + rows_max)
        if dealt <= self._next:
            return None
        ids = range(self._first + self._next, self._first + dealt)
        self._next = dealt
        return pl.DataFrame({"id#1": ids, "value#2": [str(one) for one in ids]}, schema_overrides={"id#1": pl.Int64})

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(self._next)

    @property
    def finished(self) -> bool:
        return self._next >= ROWS_PER_SPLIT

    def describe(self) -> str:
        return f"row {self._first + self._next}"


class DealtSource(SourceConnector):
    def open(self, split: Split, position: bytes | None) -> DealtReader:
        return DealtReader(split.number, position)


class Connectors:
    """The dealt source, and the real sink under watch."""

    def __init__(self, formats: SinkFormats, home: Home, watch: Watch, diary: Diary, parallelism: int) -> None:
        self._formats = formats
        self._home = home
        self._watch = watch
        self._diary = diary
        self._parallelism = parallelism
        self.prepared: dict[CheckpointId, int] = {}

    def source(self, scan: Scan) -> DealtSource:
        return DealtSource()

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter:
        return WatchedWriter(self._formats.writer(sink, self._home, attempt, subtask), subtask, self)  # type: ignore[return-value]

    def enumerator(self, scan: Scan) -> None:
        return None  # The coordinator assigns the splits.

    def commit(self, sink: Sink, committables: tuple[Committable, ...]) -> None:
        raise AssertionError("the coordinator commits")

    def prepare(self, writer: SinkWriter, checkpoint: CheckpointId, subtask: SlotIndex, rows: int) -> tuple[bytes, ...]:
        self._watch.reached(Step.BEFORE_PREPARE, checkpoint)
        with self._watch.inside(Step.IN_PREPARE, checkpoint):
            payloads = writer.prepare(checkpoint)
        self._diary.note("prepared", checkpoint=checkpoint, subtask=subtask, rows=rows, committables=len(payloads))
        self.prepared[checkpoint] = self.prepared.get(checkpoint, 0) + 1
        if self.prepared[checkpoint] == self._parallelism:
            self._watch.reached(Step.AFTER_PREPARE, checkpoint)
        return payloads


class WatchedCommitter:
    def __init__(self, inner: SinkCommitter, watch: Watch) -> None:
        self.inner = inner
        self._watch = watch
        self.number = 0
        """Of the checkpoint that is committed, or of the attempt that sweeps."""

    def commit(self, committables: tuple[Committable, ...]) -> HandedBack | None:
        with self._watch.inside(Step.IN_COMMITS, self.number):
            return self.inner.commit(committables)

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        with self._watch.inside(Step.IN_SWEEP, self.number):
            self.inner.sweep(older_than, keep)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class WatchedWriter:
    def __init__(self, inner: SinkWriter, subtask: SlotIndex, connectors: Connectors) -> None:
        self._inner = inner
        self._subtask = subtask
        self._connectors = connectors
        self._rows = 0

    def write(self, rows: pl.DataFrame) -> None:
        self._rows += rows.height
        self._inner.write(rows)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        rows, self._rows = self._rows, 0
        return self._connectors.prepare(self._inner, checkpoint, self._subtask, rows)

    def close(self) -> None:
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


# --- the slots ------------------------------------------------------------------------------------------------------------


class Slots(SlotHarness):
    """All slots of one attempt in one thread. What they say goes to the coordinator, what they store to the store."""

    def __init__(
        self,
        graph: JobGraph,
        connectors: Connectors,
        attempt: Attempt,
        manifest: Manifest | None,
        location: BlobStore,
        said: deque[DriverMessage],
        now_ms: int,
        failing: int,
    ) -> None:
        self._location = location
        self._said = said
        self._failing = failing
        restore = None
        if manifest is not None:
            restore = Snapshot(manifest.checkpoint, manifest.operators, {})
        super().__init__(graph, connectors, CONFIG, seed=attempt, attempt=attempt, restore=restore)
        self.now_ms = float(now_ms)

    def tell(self, message: SlotMessage, slots: tuple[SlotIndex, ...] | None) -> None:
        for slot, inbox in self._inboxes.items():
            if slots is None or slot in slots:
                inbox.append(message)

    def pass_time(self, now_ms: int) -> None:
        self.now_ms = float(now_ms)
        for slot in self.slots:
            self._turn(slot)

    def leave(self, end: EndAttempt) -> None:
        self.tell(end, None)
        while len(self.left) < len(self.slots) and self.step():
            pass
        self.close()

    def close(self) -> None:
        for runtime in self.slots.values():
            runtime.close()

    def _on_message(self, message: DriverMessage) -> None:
        self._said.append(message)

    def _persist(self) -> None:
        persist: Persist = self._persisting.popleft()
        runtime = self.slots[persist.subtask.index]
        if persist.checkpoint == self._failing and persist.subtask.index == 0:
            runtime.persist_failed(persist.checkpoint, persist.subtask, "no space left")
            return
        try:
            done = persist_states(
                persist,
                lambda operator, subtask, checkpoint, n: chunk_name(operator, self.attempt, subtask, checkpoint, n),
                lambda name, data: self._location.create(chunk_key(name), data.joined()) and None,
            )
        except NotStored as failure:
            runtime.persist_failed(persist.checkpoint, persist.subtask, failure.reason, failure.chunks)
        else:
            runtime.stored(persist.checkpoint, persist.subtask, done.snapshots)

    def _load_chunk(self, handle: ChunkHandle) -> pl.DataFrame:
        return read_chunk(self._location, handle)


# --- the driver -----------------------------------------------------------------------------------------------------------


class Pipeline:
    """One driver process. Raises whatever ends it in any other way than a driver ends."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._diary = Diary(work.diary)
        self._watch = Watch(work.doom, self._diary)
        self._store = LocalBlobStore(Path(work.folder) / "checkpoints")
        check_store(self._store, "the location")
        bare = build_graph(work.sink, parallelism=work.parallelism, max_parallelism=MAX_PARALLELISM)
        wanted = PipelineDocument(
            pipeline=PipelineId(f"p{os.urandom(6).hex()}"), max_parallelism=CONFIG.max_parallelism
        )
        found = open_pipeline(self._store, "the location", wanted, lambda pipeline: plan_of(bare, pipeline, CONFIG))
        self._graph = bare
        home = Home(found.pipeline, self._store)
        self._plan = self._plan_of(found.pipeline)
        self._connectors = Connectors(work.connectors, home, self._watch, self._diary, work.parallelism)
        self._committers = {
            sink.id: WatchedCommitter(work.connectors.committer(sink, home), self._watch)
            for sink in self._graph.sinks()
        }
        # Its lanes stay empty: what it does in them is done here, at its moment.
        self._outside = Outside(self._plan, self._store, self._committers, lambda _: None, name="", description="")
        self._inbox: deque[ev.Event] = deque()
        self._said: deque[DriverMessage] = deque()
        self._state: State = New()
        self._slots: Slots | None = None
        self._ready = 0
        self._attempt = Attempt(0)
        self._now_ms = 0
        self._outcome: fx.Outcome | None = None

    def _plan_of(self, pipeline: PipelineId) -> CheckpointPlan:
        plan = plan_of(self._graph, pipeline, CONFIG)
        return replace(plan, rules=without(self._work.without_rule)) if self._work.without_rule else plan

    def run(self) -> fx.Outcome:
        self._inbox.append(ev.Started(0, self._work.name, newest_claim(self._store)))
        while self._outcome is None:
            if self._inbox:
                self._feed(self._inbox.popleft())
            elif self._said:
                self._hear(self._said.popleft())
            elif not self._guarded(lambda slots: slots.step()):
                self._now_ms += TICK_MS
                self._inbox.append(ev.ClockTicked(self._now_ms))
                self._guarded(lambda slots: slots.pass_time(self._now_ms))
        self._diary.note("ended", outcome=type(self._outcome).__name__, why=str(self._outcome))
        return self._outcome

    def _guarded(self, do: Any) -> bool:
        """Whatever ends a slot ends the attempt, as on Spark."""
        if self._slots is None:
            return False
        try:
            return bool(do(self._slots))
        except TidegateError as error:
            self._fail(failure_of(error))
            return True

    def _fail(self, failure: ev.Failure) -> None:
        self._diary.note("attempt failed", why=failure.message)
        self._inbox.append(ev.AttemptFailed(self._now_ms, self._attempt, failure))
        if self._slots is not None:
            self._slots.close()
        self._slots = None

    def _feed(self, event: ev.Event) -> None:
        self._state, effects = step(self._plan, self._state, event)
        for effect in effects:
            answer = self._perform(effect)
            if answer is not None:
                self._inbox.append(answer)

    def _hear(self, message: DriverMessage) -> None:
        match message:
            case SlotReady():
                self._ready += 1
                if self._ready == self._graph.parallelism:
                    self._inbox.append(ev.SlotsReady(self._now_ms, message.attempt))
            case SubtaskAcked() | SubtaskDeclined() | SplitsWanted() | SourceExhausted():
                self._inbox.append(ev.SlotSaid(self._now_ms, message))
            case _:
                pass

    # --- effects --------------------------------------------------------------------------------------------------------

    def _perform(self, effect: fx.Effect) -> ev.Event | None:
        match effect:
            case fx.StoreManifest(manifest):
                self._watch.reached(Step.BEFORE_MANIFEST, manifest.checkpoint)
                answer = self._in_location(effect)
                self._watch.reached(Step.AFTER_MANIFEST, manifest.checkpoint)
                return answer
            case fx.LookForClaim(_, about):
                self._watch.reached(Step.BEFORE_LOOK, about or 0)
                return self._in_location(effect)
            case fx.MarkCommitted(ref):
                self._watch.reached(Step.BEFORE_MARKER, ref.checkpoint)
                self._diary.note("committed", checkpoint=ref.checkpoint)
                answer = self._in_location(effect)
                self._watch.reached(Step.AFTER_MARKER, ref.checkpoint)
                return answer
            case _ if isinstance(effect, StorageEffect):
                return self._in_location(effect)
            case fx.CommitSinks():
                return self._commit(effect)
            case fx.SweepSinks():
                return self._sweep(effect)
            case fx.Deploy(attempt, manifest):
                self._deploy(attempt, manifest)
            case fx.SendToSlots(message, slots) if self._slots is not None:
                self._slots.tell(message, slots)
            case fx.EndAttempt(attempt, clean, reason):
                if self._slots is not None:
                    self._slots.leave(EndAttempt(attempt=attempt, clean=clean, reason=reason))
                self._slots = None
                return ev.SlotsFree(self._now_ms, attempt)
            case fx.Finish(outcome):
                self._outcome = outcome
            case _:
                pass
        return None

    def _in_location(self, effect: StorageEffect) -> ev.Event:
        return perform(self._plan, effect, self._store, lambda: self._now_ms, self._ask_targets)

    def _ask_targets(self) -> tuple[tuple[OperatorId, Published], ...]:
        """At every start, also after a kill at any step: what the target holds is never a reason to refuse."""
        return remembered_by({sink: one.inner for sink, one in self._committers.items()})

    def _commit(self, commit: fx.CommitSinks) -> ev.Event:
        self._watch.reached(Step.BEFORE_COMMITS, commit.checkpoint)
        for committer in self._committers.values():
            committer.number = commit.checkpoint
        answer = self._outside._commit(commit)
        if isinstance(answer, ev.SinksFailed):
            self._diary.note("commit failed", checkpoint=commit.checkpoint, why=answer.failure.message)
            time.sleep(PAUSE_S)
        return replace(answer, now_ms=self._now_ms)

    def _sweep(self, sweep: fx.SweepSinks) -> ev.Event:
        self._watch.reached(Step.BEFORE_SWEEP, sweep.attempt)
        for committer in self._committers.values():
            committer.number = sweep.attempt
        answer = self._outside._sweep(sweep)
        assert isinstance(answer, ev.SinksSwept)
        for problem in answer.problems:
            self._diary.note("sweep failed", why=problem)
        return replace(answer, now_ms=self._now_ms)

    def _deploy(self, attempt: Attempt, manifest: Manifest | None) -> None:
        self._attempt = attempt
        self._ready = 0
        self._said.clear()
        self._connectors.prepared.clear()
        self._diary.note("deployed", attempt=attempt, restored=manifest.checkpoint if manifest is not None else 0)
        # A bounded source: the same splits in every start, and recovery knows which of them are done.
        splits = tuple(Split(number=number, payload=b"") for number in range(SPLITS))
        self._inbox.append(ev.SplitsDiscovered(self._now_ms, attempt, SOURCE, splits, b"all", bounded=True))
        try:
            self._slots = Slots(
                self._graph,
                self._connectors,
                attempt,
                manifest,
                self._store,
                self._said,
                self._now_ms,
                self._work.failing,
            )
        except TidegateError as error:
            self._fail(failure_of(error))
