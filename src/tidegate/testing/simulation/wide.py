"""The real coordinator with a thousand subtasks: how much work a checkpoint is, and that it grows no faster than their number."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.layout import chunk_name
from tidegate.checkpoint.lifecycle import step
from tidegate.checkpoint.phases import New, State
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.storing import perform
from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId, SlotIndex, StageId, SubtaskId
from tidegate.model.messages import SplitsWanted, SubtaskAcked, TriggerCheckpoint
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange, OperatorSnapshot, PhaseTimes, SourceProgress
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.faults import Faults, Tally
from tidegate.testing.simulation.store import SimulatedStore

STAGES = 2
CHECKPOINTS = 5
SOURCE, AGGREGATE = OperatorId("source-0"), OperatorId("aggregate-0")
GROWTH_MAX = 2.5
"""Work per subtask with the most subtasks may be this many times that with a tenth of them; quadratic would be ten."""


@dataclass(frozen=True, slots=True)
class Work:
    subtasks: int
    cpu_ms: float
    """Per checkpoint: trigger, acknowledgements, manifest, commit, cleanup, and one question for splits of every reader."""
    events: int

    @property
    def us_per_subtask(self) -> float:
        return self.cpu_ms * 1_000 / self.subtasks


class WidePipeline:
    """Answers every effect at once; nothing fails."""

    def __init__(self, subtasks: int) -> None:
        slots = subtasks // STAGES
        self._plan = CheckpointPlan(
            pipeline=PipelineId("wide"),
            parallelism=slots,
            subtasks=tuple(SubtaskId(StageId(stage), SlotIndex(n)) for stage in range(STAGES) for n in range(slots)),
            sources=(SOURCE,),
            stateful=(AGGREGATE, SOURCE),
            sinks=(),
            config=QueryConfig(max_parallelism=max(128, slots), checkpoint_interval_ms=1_000, checkpoints_retained=2),
        )
        agenda = Agenda(0)
        self._store = SimulatedStore(agenda, Faults(), Tally())
        self._state: State = New()
        self._now_ms = 0
        self._last = CheckpointId(0)
        self.events = 0
        self._post(ev.Started(0, "wide"))

    def checkpoint(self) -> None:
        """One whole checkpoint, from its trigger to the end of its cleanup."""
        self._now_ms += 1_000
        before = self._last
        for slot in range(self._plan.parallelism):
            wanted = SplitsWanted(attempt=Attempt(1), slot=SlotIndex(slot), operator=SOURCE, open=0, received=1)
            self._post(ev.SlotSaid(self._now_ms, wanted))
        self._post(ev.ClockTicked(self._now_ms))
        if self._last == before:
            raise RuntimeError("no checkpoint was triggered")
        for subtask in self._plan.subtasks:
            self._post(ev.SlotSaid(self._now_ms, _ack(subtask, self._last)))

    def _post(self, event: ev.Event) -> None:
        inbox = [event]
        while inbox:
            self.events += 1
            self._state, effects = step(self._plan, self._state, inbox.pop(0))
            for effect in effects:
                inbox.extend(self._answers(effect))

    def _answers(self, effect: fx.Effect) -> tuple[ev.Event, ...]:
        now_ms = self._now_ms
        match effect:
            case fx.CommitSinks(attempt, checkpoint):
                return (ev.SinksCommitted(now_ms, attempt, checkpoint),)
            case fx.SweepSinks(attempt):
                return (ev.SinksSwept(now_ms, attempt),)
            case fx.Deploy(attempt):
                found = ev.SplitsDiscovered(now_ms, attempt, SOURCE, (), b"")
                return (found, ev.SlotsReady(now_ms, attempt))
            case fx.SendToSlots(TriggerCheckpoint(checkpoint=checkpoint)):
                self._last = max(self._last, checkpoint)
                return ()
            case (
                fx.WriteClaim()
                | fx.ListLocation()
                | fx.WriteRestored()
                | fx.LookForClaim()
                | fx.StoreManifest()
                | fx.MarkCommitted()
                | fx.Delete()
            ):
                return (perform(self._plan, effect, self._store, lambda: now_ms),)
            case _:
                return ()


def _ack(subtask: SubtaskId, checkpoint: CheckpointId) -> SubtaskAcked:
    index = subtask.index
    if subtask.stage == 0:
        snapshot = OperatorSnapshot(operator=SOURCE, subtask=index, source=SourceProgress())
    else:
        name = chunk_name(AGGREGATE, Attempt(1), index, checkpoint, 0)
        chunk = ChunkHandle(name=name, groups=KeyGroupRange(0, 1), rows=1, size_bytes=1, checksum=0)
        snapshot = OperatorSnapshot(operator=AGGREGATE, subtask=index, chunks=(chunk,))
    return SubtaskAcked(
        attempt=Attempt(1),
        slot=index,
        subtask=subtask,
        checkpoint=checkpoint,
        snapshots=(snapshot,),
        times=PhaseTimes(),
    )


def measure(subtasks: int) -> Work:
    pipeline = WidePipeline(subtasks)
    pipeline.checkpoint()  # The first one has nothing to clean up.
    events, best_ms = pipeline.events, float("inf")
    for _ in range(CHECKPOINTS):
        began_s = time.process_time()
        pipeline.checkpoint()
        best_ms = min(best_ms, (time.process_time() - began_s) * 1_000)
    return Work(subtasks, best_ms, (pipeline.events - events) // CHECKPOINTS)


def print_work(subtasks: int) -> int:
    """1: the work per subtask grows with their number."""
    works = [measure(one) for one in (subtasks // 10, subtasks * 3 // 10, subtasks)]
    for work in works:
        sys.stdout.write(
            f"{work.subtasks:>6} subtasks: {work.cpu_ms:8.1f} CPU-ms per checkpoint, "
            f"{work.us_per_subtask:6.1f} µs per subtask, {work.events} events\n"
        )
    growth = works[-1].us_per_subtask / works[0].us_per_subtask
    sys.stdout.write(f"ten times the subtasks, {growth:.1f} times the work for each\n")
    return 0 if growth <= GROWTH_MAX else 1
