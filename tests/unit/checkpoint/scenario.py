"""Drives a coordinator through scenarios: events go in by name, effects come out and are remembered.

``Scenario`` plays a well-behaved world: ``run_up`` answers everything until the attempt runs, ``complete`` takes a
checkpoint from trigger to commit. Tests step in wherever the story differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint import layout
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Afterwards, Event, Failure
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.lifecycle import step
from tidegate.checkpoint.manifest import Manifest, encode
from tidegate.checkpoint.phases import Active, New, State
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.recovery import facts_from
from tidegate.checkpoint.running import Running
from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId, SlotIndex, StageId, SubtaskId
from tidegate.model.messages import SourceExhausted, SubtaskAcked, SubtaskDeclined, TriggerCheckpoint
from tidegate.model.snapshot import (
    ChunkHandle,
    Committable,
    KeyGroupRange,
    OperatorSnapshot,
    PhaseTimes,
    SourceProgress,
)

SOURCE, COUNT, SINK = OperatorId("source-0"), OperatorId("aggregate-0"), OperatorId("sink-0")
READ = tuple(SubtaskId(StageId(0), SlotIndex(slot)) for slot in range(2))
WRITE = tuple(SubtaskId(StageId(1), SlotIndex(slot)) for slot in range(2))
SLOT_LOST = Failure("SLOT_LOST", "slot 1 died")
ONE = Attempt(1)

PLAN = CheckpointPlan(
    pipeline=PipelineId("pipeline"),
    parallelism=2,
    subtasks=(*READ, *WRITE),
    sources=(SOURCE,),
    stateful=(COUNT, SINK, SOURCE),
    sinks=(SINK,),
    upstream=((StageId(0), ()), (StageId(1), (StageId(0),))),
    config=QueryConfig(
        parallelism=2,
        checkpoint_interval_ms=1_000,
        checkpoint_timeout_ms=10_000,
        checkpoints_retained=2,
        checkpoint_failures_tolerated=2,
        restart_delay_min_ms=100,
        restart_attempts_max=3,
    ),
)

E = TypeVar("E", bound=Effect)


def chunk(subtask: int, checkpoint: int, attempt: int = 1) -> ChunkHandle:
    name = layout.chunk_name(COUNT, Attempt(attempt), SlotIndex(subtask), CheckpointId(checkpoint), 0)
    return ChunkHandle(
        name=name, groups=KeyGroupRange(16 * subtask, 16 * subtask + 16), rows=1, size_bytes=10, checksum=0
    )


def committable(checkpoint: int, subtask: int, attempt: int = 1) -> Committable:
    payload = f"{attempt}-{checkpoint}-{subtask}".encode()
    return Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(subtask), number=0, payload=payload)


def ack(
    checkpoint: int,
    subtask: SubtaskId,
    *,
    attempt: int = 1,
    progress: SourceProgress | None = None,
    chunks: Iterable[ChunkHandle] = (),
    committables: Iterable[Committable] | None = None,
    operators: Iterable[OperatorId] = (COUNT, SINK),
) -> SubtaskAcked:
    """What a subtask of stage 0 (source) or stage 1 (count, sink) sends."""
    if subtask.stage == 0:
        snapshots = (OperatorSnapshot(operator=SOURCE, subtask=subtask.index, source=progress or SourceProgress()),)
    else:
        outputs = (committable(checkpoint, subtask.index, attempt),) if committables is None else tuple(committables)
        entries = {
            COUNT: OperatorSnapshot(operator=COUNT, subtask=subtask.index, chunks=tuple(chunks)),
            SINK: OperatorSnapshot(operator=SINK, subtask=subtask.index, committables=outputs),
        }
        snapshots = tuple(entries[operator] for operator in operators)
    return SubtaskAcked(
        attempt=Attempt(attempt),
        slot=subtask.index,
        subtask=subtask,
        checkpoint=CheckpointId(checkpoint),
        snapshots=snapshots,
        times=PhaseTimes(alignment_ms=1.0, state_bytes=10),
    )


class Scenario:
    """One coordinator, its effects so far, and the store they would have made."""

    def __init__(self, plan: CheckpointPlan = PLAN, store: dict[str, bytes] | None = None, process: str = "me") -> None:
        self.plan = plan
        self.state: State = New()
        self.now_ms = 0
        self.effects: list[Effect] = []
        self.store: dict[str, bytes] = {} if store is None else store
        self.process = process

    # --- events ---------------------------------------------------------------------------------------------------

    def feed(self, *events: Event) -> tuple[Effect, ...]:
        """The effects of these events, in order."""
        out: list[Effect] = []
        for event in events:
            self.state, effects = step(self.plan, self.state, event)
            hash(self.state)  # Every state is a value: it can be compared, stored and searched.
            out.extend(effects)
        self.effects.extend(out)
        return tuple(out)

    def tick(self, after_ms: int = 0) -> tuple[Effect, ...]:
        self.now_ms += after_ms
        return self.feed(ev.ClockTicked(self.now_ms))

    def start(self, **options: bool) -> tuple[Effect, ...]:
        attempts = [key.attempt for key in map(layout.parse, self.store) if isinstance(key, layout.ClaimKey)]
        newest = Attempt(max(attempts, default=0))
        return self.feed(ev.Started(self.now_ms, self.process, newest, **options))

    def said(self, *messages: SubtaskAcked | SubtaskDeclined | SourceExhausted) -> tuple[Effect, ...]:
        return self.feed(*(ev.SlotSaid(self.now_ms, message) for message in messages))

    def savepoint(self, token: str = "please", afterwards: Afterwards = Afterwards.RUN_ON) -> tuple[Effect, ...]:
        return self.feed(ev.SavepointRequested(self.now_ms, token, f"/to/{token}", afterwards))

    def exhaust(self) -> tuple[Effect, ...]:
        """Every source subtask has emitted its last row."""
        attempt = self.run.attempt
        return self.said(*(SourceExhausted(attempt=attempt, slot=slot, operator=SOURCE) for slot in self.plan.slots))

    def restart(self) -> None:
        """The attempt fails, and the next one of the same driver runs."""
        self.answer(*self.fail())
        self.answer(*self.tick(100))
        assert isinstance(self.state, Active), self.state

    def fail(self, failure: Failure = SLOT_LOST) -> tuple[Effect, ...]:
        return self.feed(ev.AttemptFailed(self.now_ms, self.run.attempt, failure))

    # --- a well-behaved world -------------------------------------------------------------------------------------

    def answer(self, *effects: Effect) -> tuple[Effect, ...]:
        """Perform these effects perfectly, and whatever follows from them."""
        out: list[Effect] = []
        queue = list(effects)
        while queue:
            event = self.perform(queue.pop(0))
            if event is not None:
                more = self.feed(event)
                out.extend(more)
                queue.extend(more)
        return tuple(out)

    def perform(self, effect: Effect) -> Event | None:
        match effect:
            case ef.WriteClaim(attempt, process):
                key = layout.claim_key(attempt)
                if key in self.store:
                    return ev.ClaimRefused(self.now_ms, attempt, self.store[key].decode())
                self.store[key] = process.encode()
                return ev.ClaimWritten(self.now_ms, attempt)
            case ef.ListLocation(attempt):
                facts = facts_from(self.plan, attempt, self.store, self.store.get)
                return ev.LocationListed(self.now_ms, attempt, facts)
            case ef.WriteRestored(attempt, restored):
                self.store[layout.restored_key(attempt)] = encode(restored)
                return ev.RestoredWritten(self.now_ms, attempt)
            case ef.LookForClaim(attempt, about):
                newer = layout.claim_key(Attempt(attempt + 1)) in self.store
                return ev.LookAnswered(self.now_ms, attempt, about, newer)
            case ef.CommitSinks(attempt, checkpoint):
                return ev.SinksCommitted(self.now_ms, attempt, checkpoint)
            case ef.SweepSinks(attempt):
                return ev.SinksSwept(self.now_ms, attempt)
            case ef.Deploy(attempt):
                return ev.SlotsReady(self.now_ms, attempt)
            case ef.StoreManifest(manifest):
                for key in manifest.chunk_keys():
                    self.store.setdefault(key, b"chunk")
                self.store[layout.manifest_key(manifest.ref)] = encode(manifest)
                return ev.ManifestStored(self.now_ms, manifest.ref)
            case ef.MarkCommitted(ref):
                self.store[layout.committed_key(ref)] = b"committed"
                return ev.CommittedMarked(self.now_ms, ref)
            case ef.Delete(attempt, keys):
                for key in keys:
                    self.store.pop(key, None)
                return ev.CleanupDone(self.now_ms, attempt)
            case ef.EndAttempt(attempt):
                return ev.SlotsFree(self.now_ms, attempt)
            case ef.ExportSavepoint(attempt, manifest, target):
                return ev.SavepointExported(self.now_ms, attempt, manifest.checkpoint, target)
            case ef.SendToSlots() | ef.AnswerRequest() | ef.ReportCheckpoint() | ef.ForgetSplits() | ef.Finish():
                return None

    def run_up(self, **options: bool) -> Scenario:
        """From a person's start to running slots."""
        self.answer(*self.start(**options))
        assert isinstance(self.state, Active), self.state
        return self

    def trigger(self) -> CheckpointId:
        """Let time pass until a checkpoint starts, or name the one in flight."""
        if self.triggered() is None:
            self.tick(self.plan.config.checkpoint_interval_ms)
        checkpoint = self.triggered()
        assert checkpoint is not None, self.state
        return checkpoint

    def triggered(self) -> CheckpointId | None:
        flights = self.run.flights
        return flights[0].taken.ref.checkpoint if flights else None

    def acks(
        self, checkpoint: CheckpointId, change: Callable[[SubtaskAcked], SubtaskAcked] = lambda one: one
    ) -> tuple[Effect, ...]:
        attempt = self.run.attempt
        return self.said(*(change(ack(checkpoint, subtask, attempt=attempt)) for subtask in self.plan.subtasks))

    def complete(self, *, chunks: bool = False) -> CheckpointId:
        """One checkpoint from trigger to commit and cleanup. With ``chunks``, each is shared with the next checkpoint."""
        checkpoint = self.trigger()
        attempt, base = self.run.attempt, self.run.base
        for subtask in self.plan.subtasks:
            handles: list[ChunkHandle] = []
            if chunks and subtask.stage == 1:
                before = base.operators if base is not None else ()
                old = [
                    one
                    for entry in before
                    if entry.operator == COUNT and entry.subtask == subtask.index
                    for one in entry.chunks
                ]
                handles = [*old[-1:], chunk(subtask.index, checkpoint, attempt)]
            effects = self.said(ack(checkpoint, subtask, attempt=attempt, chunks=handles))
        self.answer(*effects)
        return checkpoint

    # --- what came out --------------------------------------------------------------------------------------------

    @property
    def run(self) -> Running:
        assert isinstance(self.state, Active), self.state
        return self.state.run

    def all(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def last(self, kind: type[E]) -> E:
        return self.all(kind)[-1]

    def triggers(self) -> list[int]:
        """Numbers of the checkpoints that were started; repeats go to single slots and are no new start."""
        sent = [effect.message for effect in self.all(ef.SendToSlots) if effect.slots is None]
        return [message.checkpoint for message in sent if isinstance(message, TriggerCheckpoint)]

    def manifests(self) -> list[Manifest]:
        return [effect.manifest for effect in self.all(ef.StoreManifest)]

    def stored_refs(self) -> list[ManifestRef]:
        return sorted(key.ref for key in map(layout.parse, self.store) if isinstance(key, layout.ManifestKey))

    def successor(self, process: str = "successor", plan: CheckpointPlan | None = None) -> Scenario:
        """Another driver on the same location."""
        other = Scenario(plan or self.plan, self.store, process)
        other.now_ms = self.now_ms
        return other


def only(effects: Iterable[Effect], kind: type[E]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def with_config(plan: CheckpointPlan = PLAN, **changes: object) -> CheckpointPlan:
    values = {name: getattr(plan.config, name) for name in plan.config.__struct_fields__}
    return replace(plan, config=QueryConfig(**{**values, **changes}))  # type: ignore[arg-type]
