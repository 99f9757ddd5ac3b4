"""The loop of one slot: events in, effects out. No socket, no disk, no thread, and no clock but the one it is handed."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tidegate.model.config import QueryConfig
from tidegate.model.elements import Element
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt, ChannelId, CheckpointId, SlotIndex, SubtaskId
from tidegate.model.messages import (
    AssignSplits,
    CheckpointAborted,
    CheckpointCommitted,
    CheckpointCompleted,
    DrainSources,
    DriverAlive,
    EndAttempt,
    ReportProgress,
    SlotMessage,
    SlotProgress,
    SlotReady,
    StartSubtasks,
    TriggerCheckpoint,
)
from tidegate.model.snapshot import ChunkHandle, OperatorSnapshot
from tidegate.operators.build import refuse_user_functions
from tidegate.operators.ports import Connectors
from tidegate.operators.user_functions import Load
from tidegate.plan.graph import JobGraph
from tidegate.runtime.effects import Leave, SlotEffect, Tell
from tidegate.runtime.scheduler import Scheduler
from tidegate.runtime.snapshotting import decline_unready
from tidegate.runtime.source_subtask import SourceSubtask
from tidegate.runtime.subtask import SlotScope
from tidegate.runtime.wiring import Deployment, unknown_channel, wire


def _no_chunks(handle: ChunkHandle) -> pl.DataFrame:
    raise CorruptSnapshot(
        f"state chunk {handle.name} was asked for in a slot without access to stored state",
        hint="pass chunks= to SlotRuntime when restoring",
    )


class SlotRuntime:
    """Runs one subtask of every stage. Times are milliseconds of any monotonic clock, always the same one.

    What the shell does:

    * builds it when StartSubtasks arrived (until then it answers triggers with ``snapshotting.decline_unready``), then loops:
      hands in what came (``deliver credit control stored persist_failed``), calls ``turn``, performs the effects in order;
    * calls ``turn`` again without waiting while ``has_work``; otherwise waits for an event, at most until ``next_wakeup_ms``;
    * ``Tell(SlotReady)`` is the first effect of the first turn, ``Leave`` the last effect of the last one;
    * an exception out of any method ends the attempt; a TidegateError knows its ``operator`` and ``position``;
    * ``close`` releases readers and writers, whatever happened.
    """

    def __init__(
        self,
        graph: JobGraph,
        slot: SlotIndex,
        attempt: Attempt,
        config: QueryConfig,
        connectors: Connectors,
        restored: tuple[OperatorSnapshot, ...] = (),
        chunks: Callable[[ChunkHandle], pl.DataFrame] | None = None,
        now_ms: float = 0.0,
        clock: Callable[[], float] | None = None,
        load: Load = refuse_user_functions,
    ) -> None:
        """Restores state: may take long.

        ``restored``: the snapshots of *all* subtasks. ``chunks`` decodes a stored chunk, whole; cutting it to key groups
        happens here. ``clock`` (milliseconds) only measures work: busy times, bounds of a turn; None: nothing is measured, and
        equal calls have equal results. ``load`` turns the command of a user function into a callable.
        """
        self._graph = graph
        self._scope = SlotScope(slot, attempt, graph.parallelism, config, clock)
        self._now_ms = now_ms
        self._wiring = wire(Deployment(graph, connectors, restored, chunks or _no_chunks, load, now_ms), self._scope)
        self._by_id = {subtask.id: subtask for subtask in self._wiring.subtasks}
        self._sources = [one for one in self._wiring.subtasks if isinstance(one, SourceSubtask)]
        self._scheduler = Scheduler(self._wiring.subtasks)
        self._ready = False
        self._left = False
        self._report_asked = 0

    # Events

    def deliver(self, channel: ChannelId, sequence: int, element: Element) -> None:
        """An element arrived from another slot. Gaps, repetitions and strangers end the attempt: SlotLost."""
        target = self._wiring.inputs.get(channel)
        if target is None or channel.source == self._scope.slot:
            raise unknown_channel(channel)
        target.push(sequence, element)

    def credit(self, channel: ChannelId, batches: int, size_bytes: int) -> None:
        """The other end of ``channel`` consumed this much. Bytes return as they were counted here when they were sent."""
        output = self._wiring.outputs.get(channel)
        if output is None or channel.target == self._scope.slot:
            raise unknown_channel(channel)
        output.grant(batches)

    def control(self, message: SlotMessage, now_ms: float) -> None:
        """A message of the driver. Foreign attempts, repetitions and late arrivals change nothing."""
        self._now_ms = max(self._now_ms, now_ms)
        if message.attempt != self._scope.attempt or self._left:
            return
        match message:
            case TriggerCheckpoint():
                self._trigger(message)
            case CheckpointCompleted(checkpoint=checkpoint):
                for subtask in self._wiring.subtasks:
                    subtask.chain.on_completed(checkpoint)
                self._forget(checkpoint)
            case CheckpointCommitted(checkpoint=checkpoint):
                for subtask in self._wiring.subtasks:
                    subtask.chain.on_committed(checkpoint)
            case CheckpointAborted(checkpoint=checkpoint):
                for subtask in self._wiring.subtasks:
                    subtask.cancel(checkpoint)
                self._forget(checkpoint)
            case AssignSplits(operator=operator, subtask=index):
                for source in self._sources:
                    if source.source.id == operator and index == self._scope.slot:
                        source.source.assign(message, self._now_ms)
            case EndAttempt(clean=clean, reason=reason):
                self._left = True
                self._scope.effects.append(Leave(clean, reason))
            case ReportProgress(number=number, poll=poll):
                self._report_asked = max(self._report_asked, number)
                for source in self._sources:
                    if poll:
                        source.source.poll_again(self._now_ms)
                self._scope.effects.append(Tell(self.progress()))
            case StartSubtasks() | DriverAlive() | DrainSources():
                pass  # The shell's: it built this runtime from the one and listens for the other.

    def stored(
        self,
        checkpoint: CheckpointId,
        subtask: SubtaskId,
        snapshots: tuple[OperatorSnapshot, ...],
        *,
        async_ms: float = 0.0,
        uploaded_bytes: int = 0,
    ) -> None:
        """A ``Persist`` is done, down to the last byte: acknowledge."""
        told = self._by_id[subtask].snapshots.stored(checkpoint, snapshots, async_ms, uploaded_bytes)
        if told is not None:
            self._scope.effects.append(told)

    def persist_failed(self, checkpoint: CheckpointId, subtask: SubtaskId, reason: str) -> None:
        told = self._by_id[subtask].snapshots.failed(checkpoint, reason)
        if told is not None:
            self._scope.effects.append(told)

    # Work

    def turn(self, now_ms: float) -> tuple[SlotEffect, ...]:
        """One bounded round: control is served, then one subtask works for a quantum. Effects in the order they must happen."""
        self._now_ms = max(self._now_ms, now_ms)
        now_ms = self._now_ms
        scope = self._scope
        if not self._ready:
            self._ready = True
            scope.effects.insert(0, Tell(SlotReady(attempt=scope.attempt, slot=scope.slot)))
        if not self._left:
            for source in self._sources:
                source.take_if_triggered(now_ms)
                source.tell(now_ms)
            picked = self._scheduler.pick(now_ms)
            if picked is not None:
                picked.run(now_ms)
            scope.effects.extend(self._wiring.credits.collect())
        effects = tuple(scope.effects)
        scope.effects.clear()
        return effects

    @property
    def has_work(self) -> bool:
        """Something can be done without a new event."""
        if self._left:
            return bool(self._scope.effects)
        return not self._ready or bool(self._scope.effects) or self._scheduler.any_runnable(self._now_ms)

    @property
    def next_wakeup_ms(self) -> float | None:
        """When to call ``turn`` again if nothing happens before."""
        if self._left:
            return None
        wakeup_ms = min((source.next_wakeup_ms for source in self._sources), default=float("inf"))
        return None if wakeup_ms == float("inf") else wakeup_ms

    def progress(self) -> SlotProgress:
        """Counters since the attempt began."""
        return SlotProgress(
            attempt=self._scope.attempt,
            slot=self._scope.slot,
            metrics=tuple(metric for subtask in self._wiring.subtasks for metric in subtask.metrics()),
            positions={source.source.id: source.source.describe() for source in self._sources},
            idle_sources=tuple(source.source.id for source in self._sources if source.drained),
            answers=self._report_asked,
        )

    def close(self) -> None:
        for subtask in self._wiring.subtasks:
            subtask.chain.close()

    def _trigger(self, message: TriggerCheckpoint) -> None:
        if not self._ready:
            self._scope.effects.extend(decline_unready(self._graph, self._scope.slot, message))
            return
        self._scope.triggered_ms.setdefault(message.checkpoint, self._now_ms)
        for source in self._sources:
            source.trigger(message.checkpoint, message.kind)

    def _forget(self, checkpoint: CheckpointId) -> None:
        for old in [one for one in self._scope.triggered_ms if one <= checkpoint]:
            del self._scope.triggered_ms[old]
