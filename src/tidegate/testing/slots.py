"""A whole job in one thread: every slot's real loop, channels between them in any order that keeps each channel's own, and a
small coordinator that looks for splits and deals them out, triggers checkpoints and commits. Same seed, same run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import polars as pl

from tidegate.checkpoint.events import SplitsDiscovered
from tidegate.checkpoint.manifest import SourceState
from tidegate.checkpoint.plan import plan_of
from tidegate.model.config import QueryConfig
from tidegate.model.elements import CheckpointKind, Element
from tidegate.model.errors import Bug
from tidegate.model.ids import Attempt, ChannelId, CheckpointId, OperatorId, PipelineId, SlotIndex, SubtaskId
from tidegate.model.messages import (
    AssignSplits,
    CheckpointAborted,
    CheckpointCommitted,
    CheckpointCompleted,
    DriverMessage,
    SlotMessage,
    SlotReady,
    SourceExhausted,
    SourceTime,
    SplitsWanted,
    SubtaskAcked,
    SubtaskDeclined,
    TriggerCheckpoint,
)
from tidegate.model.snapshot import ChunkHandle, Committable, OperatorSnapshot
from tidegate.operators.build import refuse_user_functions
from tidegate.operators.ports import Connectors
from tidegate.operators.user_functions import Load
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Scan, Sink
from tidegate.ports.source import SplitEnumerator
from tidegate.runtime.effects import GrantCredit, Leave, Persist, Send, SlotEffect, Tell
from tidegate.runtime.persisting import persist_states
from tidegate.runtime.slot import SlotRuntime
from tidegate.state.codec import decode_chunk
from tidegate.state.entries import EntryBackend
from tidegate.state.entries_in_memory import EntriesInMemory
from tidegate.testing.desk import SourceDesk

SILENCE_MS = 1_500.0


class JobConnectors(Connectors, Protocol):
    """Both sides of every connector: what a slot opens, and what the coordinator asks on the driver."""

    def enumerator(self, scan: Scan) -> SplitEnumerator | None:
        """A new one for every start: it is restored. None: somebody else deals out the splits of this source."""
        ...

    def commit(self, sink: Sink, committables: tuple[Committable, ...]) -> None: ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete checkpoint: enough to start again from, at any parallelism."""

    checkpoint: CheckpointId
    operators: tuple[OperatorSnapshot, ...]
    sources: dict[OperatorId, SourceState]


@dataclass(slots=True)
class _Collecting:
    checkpoint: CheckpointId
    acks: dict[SubtaskId, SubtaskAcked] = field(default_factory=dict)


class SlotHarness:
    """Runs until nothing is left to do, or step by step.

    In a bounded run the first look for input finds all there is; otherwise there is one every ``config.discovery_interval_ms``.
    ``channel_ready``, if given, is asked before each delivery and may hold a channel back. ``commit_chance``: how often a
    checkpoint's commit happens; when it does not, it is left to a later one, as after a crash. ``step_ms``: how long a step takes;
    without it time passes only when nothing else can happen. ``clock`` measures work; without it none is measured.
    ``wall_offset_ms``: what a fake clock on the wall shows at the start; it goes on with the steps.
    """

    def __init__(
        self,
        graph: JobGraph,
        connectors: JobConnectors,
        config: QueryConfig,
        *,
        seed: int = 0,
        attempt: int = 1,
        restore: Snapshot | None = None,
        store: dict[str, bytes] | None = None,
        load: Load = refuse_user_functions,
        channel_ready: Callable[[ChannelId], bool] | None = None,
        commit_chance: float = 1.0,
        step_ms: float = 0.0,
        clock: Callable[[], float] | None = None,
        wall_offset_ms: float = 0.0,
        entries: Callable[[], EntryBackend] = EntriesInMemory,
    ) -> None:
        self.graph = graph
        self.connectors = connectors
        self.config = config
        self.random = Random(seed)
        self.attempt = Attempt(attempt)
        self.now_ms = 0.0
        self.store: dict[str, bytes] = store if store is not None else {}
        self.told: list[DriverMessage] = []
        self.completed: list[Snapshot] = [restore] if restore is not None else []
        self.ready: set[SlotIndex] = set()
        self.exhausted: set[tuple[OperatorId, SlotIndex]] = set()
        self.declined: list[SubtaskDeclined] = []
        self.left: list[Leave] = []
        self.sent: list[Send] = []
        """Every element that crossed between two slots, in the order of sending."""
        self._delivered = 0
        self._step_ms = step_ms
        self._commit_chance = commit_chance
        self._ready_channel = channel_ready or (lambda _: True)
        self._wires: dict[ChannelId, deque[tuple[int, Element]]] = {}
        self._credits: deque[GrantCredit] = deque()
        self._inboxes: dict[SlotIndex, deque[SlotMessage]] = {SlotIndex(i): deque() for i in range(graph.parallelism)}
        self._persisting: deque[Persist] = deque()
        self._collecting: dict[CheckpointId, _Collecting] = {}
        self._final: CheckpointId | None = None
        self._next_checkpoint = (restore.checkpoint if restore is not None else 0) + 1
        enumerators = {scan.id: one for scan in graph.scans() if (one := connectors.enumerator(scan)) is not None}
        self._desk = SourceDesk(
            plan_of(graph, PipelineId("local"), config),
            self.attempt,
            enumerators,
            restore.sources if restore is not None else {},
        )
        self.slots = {
            SlotIndex(i): SlotRuntime(
                graph,
                SlotIndex(i),
                self.attempt,
                config,
                connectors,
                restored=restore.operators if restore is not None else (),
                chunks=self._load_chunk,
                now_ms=self.now_ms,
                clock=clock,
                load=load,
                wall_offset_ms=wall_offset_ms,
                entries=entries,
            )
            for i in range(graph.parallelism)
        }

    # What a test does

    def trigger(self, kind: CheckpointKind = CheckpointKind.MANUAL, *, alongside: bool = False) -> CheckpointId:
        """Starts a checkpoint; those still under way are aborted first, unless it is to run ``alongside`` them."""
        if not alongside:
            self.abort()
        checkpoint = CheckpointId(self._next_checkpoint)
        self._next_checkpoint += 1
        self._collecting[checkpoint] = _Collecting(checkpoint)
        if kind is CheckpointKind.FINAL:
            self._final = checkpoint
        self.send(TriggerCheckpoint(attempt=self.attempt, checkpoint=checkpoint, kind=kind))
        return checkpoint

    def abort(self, checkpoint: CheckpointId | None = None) -> None:
        """That one, or all that are under way."""
        for one in [one for one in self._collecting if checkpoint in (None, one)]:
            del self._collecting[one]
            self.send(CheckpointAborted(attempt=self.attempt, checkpoint=one))

    def send(self, message: SlotMessage) -> None:
        """To every slot."""
        for inbox in self._inboxes.values():
            inbox.append(message)

    @property
    def checkpoint_under_way(self) -> bool:
        return bool(self._collecting)

    @property
    def checkpoints_under_way(self) -> tuple[CheckpointId, ...]:
        return tuple(self._collecting)

    @property
    def all_ready(self) -> bool:
        return len(self.ready) == self.graph.parallelism

    @property
    def all_exhausted(self) -> bool:
        return len(self.exhausted) == len(self.graph.scans()) * self.graph.parallelism

    @property
    def looks(self) -> tuple[SplitsDiscovered, ...]:
        """What the driver has heard of looks for input: each that found something, and the first empty one after it."""
        return tuple(self._desk.looks)

    def step(self) -> bool:
        """One random event that is possible now. False: nothing is, until time passes."""
        actions = self._actions()
        if not actions:
            return False
        self.random.choice(actions)()
        self.now_ms += self._step_ms
        return True

    def advance(self, steps: int) -> None:
        """That many steps; time passes when nothing else can happen."""
        for _ in range(steps):
            if not self.step():
                self._pass_time()

    def settle(self, steps_max: int = 200_000, *, until: Callable[[], bool] | None = None) -> None:
        """Runs, letting time pass when nothing else happens, until ``until``; without it, until nothing has moved for a while.

        Raises when that takes more than ``steps_max`` steps, or when nothing moves and ``until`` has not come.
        """
        moved, silent_ms = self._moved(), 0.0
        for _ in range(steps_max):
            if until is not None and until():
                return
            if self.step():
                continue
            if (now := self._moved()) != moved:
                moved, silent_ms = now, 0.0
            if silent_ms >= SILENCE_MS:
                if until is not None:
                    raise Bug(f"nothing moves any more, and what was waited for has not come: {self.describe()}")
                return
            silent_ms += self._pass_time()
        raise Bug(f"still busy after {steps_max} steps: {self.describe()}")

    def _moved(self) -> tuple[int, ...]:
        """Changes whenever rows, barriers or answers move, and not while readers are merely asked again."""
        metrics = [one for runtime in self.slots.values() for one in runtime.progress().metrics]
        rows = sum(one.rows_in + one.rows_out for one in metrics)
        told = len(self.completed), len(self.exhausted), len(self.declined), len(self._desk.looks)
        return rows, len(self.sent), self._delivered, *told

    def checkpoint(self, kind: CheckpointKind = CheckpointKind.MANUAL) -> Snapshot:
        """Takes one and waits for it."""
        self.settle(until=lambda: self.all_ready)
        wanted = self.trigger(kind)
        self.settle(until=lambda: bool(self.completed) and self.completed[-1].checkpoint == wanted)
        return self.completed[-1]

    def finish(self) -> Snapshot:
        """A bounded job to its end: all sources exhausted, final checkpoint, everything committed."""
        self.settle(until=lambda: self.all_exhausted)
        return self.checkpoint(CheckpointKind.FINAL)

    def describe(self) -> str:
        wires = {str(channel): len(queue) for channel, queue in self._wires.items() if queue}
        return f"exhausted {sorted(self.exhausted)}, wires {wires}, collecting {list(self._collecting)}"

    # What can happen

    def _actions(self) -> list[Callable[[], None]]:
        actions: list[Callable[[], None]] = []
        for slot, runtime in self.slots.items():
            if runtime.has_work:
                actions.append(lambda slot=slot: self._turn(slot))
            if self._inboxes[slot]:
                actions.append(lambda slot=slot: self._control(slot))
        for channel, wire in self._wires.items():
            if wire and self._ready_channel(channel):
                actions.append(lambda channel=channel: self._deliver(channel))
        if self._credits:
            actions.append(self._grant)
        if self._persisting:
            actions.append(self._persist)
        actions.extend(lambda act=act: self._post(act(self.now_ms)) for act in self._desk.actions(self.now_ms))
        return actions

    def _post(self, messages: tuple[AssignSplits, ...]) -> None:
        for message in messages:
            self._inboxes[message.subtask].append(message)

    def _turn(self, slot: SlotIndex) -> None:
        for effect in self.slots[slot].turn(self.now_ms):
            self._perform(effect)

    def _control(self, slot: SlotIndex) -> None:
        self.slots[slot].control(self._inboxes[slot].popleft(), self.now_ms)

    def _deliver(self, channel: ChannelId) -> None:
        self._delivered += 1
        sequence, element = self._wires[channel].popleft()
        self.slots[channel.target].deliver(channel, sequence, element)

    def _grant(self) -> None:
        grant = self._credits.popleft()
        self.slots[grant.channel.source].credit(grant.channel, grant.batches, grant.size_bytes)

    def _persist(self) -> None:
        persist = self._persisting.popleft()
        persisted = persist_states(
            persist,
            self._chunk_name,
            lambda name, data: self.store.__setitem__(name, data.joined()),
            inline_bytes_max=0,
        )
        self.slots[persist.subtask.index].stored(
            persist.checkpoint, persist.subtask, persisted.snapshots, uploaded_bytes=persisted.uploaded_bytes
        )

    def _pass_time(self) -> float:
        """To the next timer or look for input, or by 100 ms."""
        wakeups = [at for runtime in self.slots.values() if (at := runtime.next_wakeup_ms) is not None]
        before = self.now_ms
        self.now_ms = max(before + 1.0, min([*wakeups, self._desk.next_look_ms, before + 100.0]))
        for slot in self.slots:
            self._turn(slot)
        return self.now_ms - before

    def _perform(self, effect: SlotEffect) -> None:
        match effect:
            case Send(channel=channel, sequence=sequence, element=element):
                self.sent.append(effect)
                self._wires.setdefault(channel, deque()).append((sequence, element))
            case GrantCredit():
                self._credits.append(effect)
            case Persist():
                self._persisting.append(effect)
            case Tell(message=message):
                self.told.append(message)
                self._on_message(message)
            case Leave():
                self.left.append(effect)

    # The small coordinator

    def _on_message(self, message: DriverMessage) -> None:
        match message:
            case SlotReady(slot=slot):
                self.ready.add(slot)
            case SplitsWanted() | SourceTime():
                self._post(self._desk.heard(message, self.now_ms))
            case SourceExhausted(operator=operator, slot=slot):
                self.exhausted.add((operator, slot))
            case SubtaskAcked():
                self._on_ack(message)
            case SubtaskDeclined(checkpoint=checkpoint):
                self.declined.append(message)
                # As the coordinator does: others may have its barrier already, and would wait for those that never come.
                self.abort(checkpoint)
            case _:
                pass

    def _on_ack(self, message: SubtaskAcked) -> None:
        collecting = self._collecting.get(message.checkpoint)
        if collecting is None:
            return
        collecting.acks[message.subtask] = message
        if len(collecting.acks) == len(self.graph.stages) * self.graph.parallelism:
            final = collecting.checkpoint == self._final
            self._complete(collecting, commit=final or self.random.random() < self._commit_chance)

    def _complete(self, collecting: _Collecting, *, commit: bool) -> None:
        checkpoint = collecting.checkpoint
        del self._collecting[checkpoint]
        for older in [one for one in self._collecting if one < checkpoint]:
            self.abort(older)
        operators = tuple(s for subtask in sorted(collecting.acks) for s in collecting.acks[subtask].snapshots)
        sources = self._desk.fold(operators)
        self._desk.completed(sources)
        self.completed.append(Snapshot(checkpoint, operators, sources))
        self.send(CheckpointCompleted(attempt=self.attempt, checkpoint=checkpoint))
        if not commit:
            return
        for sink in self.graph.sinks():
            committables = tuple(c for s in operators if s.operator == sink.id for c in s.committables)
            self.connectors.commit(sink, committables)
        self.send(CheckpointCommitted(attempt=self.attempt, checkpoint=checkpoint))

    def _chunk_name(self, operator: OperatorId, subtask: SlotIndex, checkpoint: CheckpointId, number: int) -> str:
        return f"{operator}/{self.attempt:06d}-{subtask:05d}-{checkpoint:06d}-{number}"

    def _load_chunk(self, handle: ChunkHandle) -> pl.DataFrame:
        return decode_chunk(handle.data if handle.data is not None else self.store[handle.name], handle.name)
