"""The real coordinator with a thousand subtasks: how much work a checkpoint is, and that it grows no faster than their number.

Work is counted in lines of the coordinator that were executed, each element of a loop or comprehension on its own: the same in every
run and on every machine. CPU time is printed beside it, for people, and for what no line shows: comparisons of a sort, copies.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import lifecycle
from tidegate.checkpoint.layout import chunk_name
from tidegate.checkpoint.phases import New, State
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.storing import StorageEffect, perform
from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId, SlotIndex, StageId, SubtaskId
from tidegate.model.messages import SplitsWanted, SubtaskAcked, TriggerCheckpoint
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange, OperatorSnapshot, PhaseTimes, SourceProgress
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.faults import Faults, Tally
from tidegate.testing.simulation.store import SimulatedStore

TraceFunction: TypeAlias = Callable[[FrameType, str, Any], Any]

STAGES = 2
CHECKPOINTS = 5
WARM_CHECKPOINTS = 3
"""The first ones have nothing to clean up: as many are kept."""
SOURCE, AGGREGATE = OperatorId("source-0"), OperatorId("aggregate-0")
GROWTH_MAX = 1.5
"""Lines per subtask with the most subtasks may be this many times those with a tenth of them; quadratic would be ten."""
CPU_GROWTH_MAX = 2.5
"""The same for CPU time, which other processes on the machine disturb."""
COUNTED = str(Path(lifecycle.__file__).parent)


@dataclass(frozen=True, slots=True)
class Work:
    subtasks: int
    cpu_ms: float
    """Per checkpoint: trigger, acknowledgements, manifest, commit, cleanup, and one question for splits of every reader."""
    events: int
    lines: int
    """Executed in the coordinator for all that."""

    @property
    def lines_per_subtask(self) -> float:
        return self.lines / self.subtasks

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
            self._state, effects = lifecycle.step(self._plan, self._state, inbox.pop(0))
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
            case _ if isinstance(effect, StorageEffect):
                return (perform(self._plan, effect, self._store, lambda: now_ms),)
            case _:
                return ()


def _ack(subtask: SubtaskId, checkpoint: CheckpointId) -> SubtaskAcked:
    index = subtask.index
    if subtask.stage == 0:
        snapshot = OperatorSnapshot(operator=SOURCE, subtask=index, source=SourceProgress())
    else:
        name = chunk_name(AGGREGATE, Attempt(1), index, checkpoint, 0)
        chunk = ChunkHandle(name=name, groups=KeyGroupRange(index, index + 1), rows=1, size_bytes=1, checksum=0)
        snapshot = OperatorSnapshot(operator=AGGREGATE, subtask=index, chunks=(chunk,))
    return SubtaskAcked(
        attempt=Attempt(1),
        slot=index,
        subtask=subtask,
        checkpoint=checkpoint,
        snapshots=(snapshot,),
        times=PhaseTimes(),
    )


def count_lines(act: Callable[[], None]) -> int:
    """How many lines of the coordinator ``act`` executes."""
    lines = 0

    def on_line(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal lines
        lines += event == "line"
        return on_line

    def on_call(frame: FrameType, _event: str, _argument: object) -> TraceFunction | None:
        return on_line if frame.f_code.co_filename.startswith(COUNTED) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        act()
    finally:
        sys.settrace(before)
    return lines


def count_work(subtasks: int) -> int:
    """Lines executed for one checkpoint of so many subtasks, once there is something to clean up."""
    pipeline = WidePipeline(subtasks)
    for _ in range(WARM_CHECKPOINTS):
        pipeline.checkpoint()
    return count_lines(pipeline.checkpoint)


def measure(subtasks: int) -> Work:
    pipeline = WidePipeline(subtasks)
    for _ in range(WARM_CHECKPOINTS):
        pipeline.checkpoint()
    events, best_ms = pipeline.events, float("inf")
    for _ in range(CHECKPOINTS):
        began_s = time.process_time()
        pipeline.checkpoint()
        best_ms = min(best_ms, (time.process_time() - began_s) * 1_000)
    return Work(subtasks, best_ms, (pipeline.events - events) // CHECKPOINTS, count_lines(pipeline.checkpoint))


def print_work(subtasks: int) -> int:
    """1: the work per subtask grows with their number."""
    works = [measure(one) for one in (subtasks // 10, subtasks * 3 // 10, subtasks)]
    for work in works:
        sys.stdout.write(
            f"{work.subtasks:>6} subtasks: {work.cpu_ms:8.1f} CPU-ms per checkpoint, "
            f"{work.us_per_subtask:6.1f} µs per subtask, {work.events} events, "
            f"{work.lines} lines executed, {work.lines_per_subtask:.1f} per subtask\n"
        )
    growth = works[-1].lines_per_subtask / works[0].lines_per_subtask
    cpu_growth = works[-1].us_per_subtask / works[0].us_per_subtask
    sys.stdout.write(f"ten times the subtasks: {growth:.2f} times the lines for each, {cpu_growth:.2f} times the CPU\n")
    return 0 if growth <= GROWTH_MAX and cpu_growth <= CPU_GROWTH_MAX else 1
