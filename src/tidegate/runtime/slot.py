"""The loop of one slot: events in, effects out. No socket, no disk, no thread, and no clock but the one it is handed."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tidegate.model.config import QueryConfig
from tidegate.model.elements import Element
from tidegate.model.errors import CorruptSnapshot, TidegateError, Unavailable
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
from tidegate.plan.streams import far_sources, sources_meet
from tidegate.runtime.capturing import Capturing
from tidegate.runtime.effects import Leave, Persist, SlotEffect, Tell
from tidegate.runtime.scheduler import Scheduler
from tidegate.runtime.snapshotting import decline_unready
from tidegate.runtime.source_subtask import SourceSubtask
from tidegate.runtime.storing import Storing
from tidegate.runtime.subtask import SlotScope
from tidegate.runtime.unanswered import Unanswered
from tidegate.runtime.wiring import Deployment, unknown_channel, wire
from tidegate.state.entries import EntryBackend
from tidegate.state.entries_in_memory import EntriesInMemory


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
        wall_offset_ms: float = 0.0,
        entries: Callable[[], EntryBackend] = EntriesInMemory,
    ) -> None:
        """Restores state: may take long.

        ``restored``: the snapshots of *all* subtasks. ``chunks`` decodes a stored chunk, whole; cutting it to key groups
        happens here. ``clock`` (milliseconds) only measures work: busy times, bounds of a turn; None: nothing is measured, and
        equal calls have equal results. ``load`` turns the command of a user function into a callable. ``wall_offset_ms``: what to add to
        this slot's times to get milliseconds since the epoch. ``entries`` makes the backend of an operator's point state.
        """
        self._graph = graph
        self._scope = SlotScope(
            slot,
            attempt,
            graph.parallelism,
            config,
            clock,
            whole_results=graph.has_whole_results,
            sources_meet=sources_meet(graph),
            far_sources=far_sources(graph),
        )
        self._scope.now_ms = now_ms
        self._scope.wall_offset_ms = wall_offset_ms
        self._wiring = wire(
            Deployment(graph, connectors, restored, chunks or _no_chunks, load, now_ms, entries), self._scope
        )
        self._by_id = {subtask.id: subtask for subtask in self._wiring.subtasks}
        self._sources = [one for one in self._wiring.subtasks if isinstance(one, SourceSubtask)]
        self._scheduler = Scheduler(self._wiring.subtasks)
        self._ready = False
        self._left = False
        self._report_asked = 0
        self._unanswered = Unanswered(config.message_repeat_ms)
        self._storing = Storing(config.upload_timeout_ms)
        self._capturing = Capturing(clock)

    # Events

    def deliver(self, channel: ChannelId, sequence: int, element: Element) -> None:
        """An element arrived from another slot. Gaps, repetitions and strangers end the attempt: SlotLost."""
        target = self._wiring.inputs.get(channel)
        if target is None or channel.source == self._scope.slot:
            raise unknown_channel(channel)
        target.push(sequence, element)

    def credit(self, channel: ChannelId, batches: int, size_bytes: int, now_ms: float | None = None) -> None:
        """The other end of ``channel`` consumed this much. Bytes return as they were counted here when they were sent."""
        if now_ms is not None:
            self._at(now_ms)
        output = self._wiring.outputs.get(channel)
        if output is None or channel.target == self._scope.slot:
            raise unknown_channel(channel)
        output.grant(batches)

    def control(self, message: SlotMessage, now_ms: float) -> None:
        """A message of the driver. Foreign attempts, repetitions and late arrivals change nothing."""
        self._at(now_ms)
        if message.attempt != self._scope.attempt or self._left:
            return
        match message:
            case TriggerCheckpoint():
                self._trigger(message)
            case CheckpointCompleted(checkpoint=checkpoint):
                for subtask in self._wiring.subtasks:
                    subtask.chain.on_completed(checkpoint)
                for source in self._sources:
                    source.settle(checkpoint)
                self._unanswered.completed(checkpoint)
                self._forget(checkpoint)
            case CheckpointCommitted(checkpoint=checkpoint):
                for subtask in self._wiring.subtasks:
                    subtask.chain.on_committed(checkpoint)
            case CheckpointAborted(checkpoint=checkpoint):
                for subtask in self._wiring.subtasks:
                    subtask.cancel(checkpoint)
                self._capturing.abandon(checkpoint)
                self._unanswered.aborted(checkpoint)
                self._scope.triggered_ms.pop(checkpoint, None)
            case AssignSplits(operator=operator, subtask=index):
                self._unanswered.ready_heard()
                for source in self._sources:
                    if source.source.id == operator and index == self._scope.slot:
                        source.assign(message, self._scope.now_ms)
            case EndAttempt(clean=clean, reason=reason):
                self._left = True
                self._scope.effects.append(Leave(clean, reason))
            case ReportProgress(number=number, poll=poll):
                self._report_asked = max(self._report_asked, number)
                for source in self._sources:
                    if poll:
                        source.source.poll_again(self._scope.now_ms)
                self._scope.effects.append(Tell(self.progress()))
            case DrainSources():
                for source in self._sources:
                    source.source.drain(self._scope.now_ms)
            case StartSubtasks() | DriverAlive():
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
        self._storing.answered(checkpoint, subtask)
        async_ms += self._capturing.took_ms(checkpoint, subtask)
        told = self._by_id[subtask].snapshots.stored(checkpoint, snapshots, async_ms, uploaded_bytes)
        if told is not None:
            self._scope.effects.append(told)

    def persist_failed(
        self, checkpoint: CheckpointId, subtask: SubtaskId, reason: str, chunks: tuple[str, ...] = ()
    ) -> None:
        """``chunks``: names under which something may have been stored all the same."""
        self._storing.answered(checkpoint, subtask)
        told = self._by_id[subtask].snapshots.failed(checkpoint, reason, chunks)
        if told is not None:
            self._scope.effects.append(told)

    # Work

    def turn(self, now_ms: float) -> tuple[SlotEffect, ...]:
        """One bounded round: control is served, then one subtask works for a quantum. Effects in the order they must happen."""
        now_ms = self._at(now_ms)
        scope = self._scope
        if not self._ready:
            self._ready = True
            scope.effects.insert(0, Tell(SlotReady(attempt=scope.attempt, slot=scope.slot)))
        if not self._left:
            for source in self._sources:
                source.take_if_triggered(now_ms)
                source.tell(now_ms)
            for (
                subtask
            ) in self._wiring.subtasks:  # From the sources down: one that overtakes is seen by the next at once.
                subtask.overtake(now_ms)
            picked = self._scheduler.pick(now_ms)
            if picked is not None:
                picked.run(now_ms)
            for checkpoint, late in self._storing.overdue(now_ms):
                limit_ms = scope.config.upload_timeout_ms
                self.persist_failed(
                    checkpoint, late, f"the snapshot was not stored within {limit_ms} ms (uploadTimeout)"
                )
            scope.effects.extend(self._wiring.credits.collect())
        repeated = () if self._left else self._unanswered.repeat(now_ms)
        effects: list[SlotEffect] = []
        for effect in scope.effects:
            match effect:
                case Tell(message=message):
                    self._unanswered.sent(message, now_ms)
                case Persist(subtask=subtask) if self._capturing.add(effect, self._by_id[subtask].chain, now_ms):
                    continue  # Some of its rows are still to be copied: it leaves later.
                case Persist():
                    self._storing.begun(effect, now_ms)
                case _:
                    pass
            effects.append(effect)
        scope.effects.clear()
        for persist in () if self._left else self._capturing.advance(now_ms):
            self._storing.begun(persist, now_ms)
            effects.append(persist)
        return (*effects, *repeated)

    @property
    def has_work(self) -> bool:
        """Something can be done without a new event."""
        if self._left:
            return bool(self._scope.effects)
        if not self._ready or self._scope.effects or self._capturing.busy:
            return True
        if self._next_overtake_ms <= self._scope.now_ms:
            return True
        return self._scheduler.any_runnable(self._scope.now_ms)

    @property
    def next_wakeup_ms(self) -> float | None:
        """When to call ``turn`` again if nothing happens before."""
        if self._left:
            return None
        wakeup_ms = min(
            self._unanswered.next_due_ms,
            self._storing.next_due_ms,
            self._next_overtake_ms,
            *(subtask.next_timer_ms for subtask in self._wiring.subtasks),
            *(source.next_wakeup_ms for source in self._sources),
        )
        return None if wakeup_ms == float("inf") else wakeup_ms

    @property
    def _next_overtake_ms(self) -> float:
        return min(subtask.next_overtake_ms for subtask in self._wiring.subtasks)

    def progress(self) -> SlotProgress:
        """Counters since the attempt began."""
        return SlotProgress(
            attempt=self._scope.attempt,
            slot=self._scope.slot,
            metrics=tuple(metric for subtask in self._wiring.subtasks for metric in subtask.metrics()),
            positions={source.source.id: source.source.describe() for source in self._sources},
            idle_sources=tuple(source.source.id for source in self._sources if source.drained),
            answers=self._report_asked,
            holders=tuple(one for source in self._sources for one in source.source.holders()),
        )

    def inside(self) -> tuple[str, float] | None:
        """Stage and operator inside whose call the loop is, and since when by ``clock``. May be asked by another thread."""
        for subtask in self._wiring.subtasks:
            inside = subtask.chain.inside()
            if inside is not None:
                return f"{subtask.id.stage} {inside[0]}", inside[1]
        return None

    def stuck(self, now_ms: float) -> TidegateError | None:
        """The synchronous phase of a snapshot has kept the loop for too long, and in which operator. For another thread: this one is
        inside that call."""
        for subtask in self._wiring.subtasks:
            checkpoint, inside = subtask.snapshots.syncing, subtask.chain.inside()
            if checkpoint is None or inside is None or now_ms - inside[1] < self._scope.config.sync_timeout_ms:
                continue
            error = Unavailable(
                f"operator {inside[0]} of stage {subtask.id.stage} has not come back from the synchronous phase of checkpoint "
                f"{checkpoint} for {int(now_ms - inside[1])} ms",
                hint="it waits for something outside, or its state is too large to be handed out at once: see the option "
                "syncTimeout",
            )
            error.operator = inside[0]
            return error
        return None

    def close(self) -> None:
        for subtask in self._wiring.subtasks:
            subtask.chain.close()

    def _at(self, now_ms: float) -> float:
        """Time as the slot sees it: it never goes back."""
        self._scope.now_ms = max(self._scope.now_ms, now_ms)
        return self._scope.now_ms

    def _trigger(self, message: TriggerCheckpoint) -> None:
        if not self._ready:
            self._scope.effects.extend(decline_unready(self._graph, self._scope.slot, message))
            return
        self._unanswered.ready_heard()
        self._scope.triggered_ms.setdefault(message.checkpoint, self._scope.now_ms)
        for source in self._sources:
            source.trigger(message.checkpoint, message.kind, self._scope.now_ms)

    def _forget(self, checkpoint: CheckpointId) -> None:
        for old in [one for one in self._scope.triggered_ms if one <= checkpoint]:
            del self._scope.triggered_ms[old]
