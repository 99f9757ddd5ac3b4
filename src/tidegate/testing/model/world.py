"""A small world around real coordinators, as one hashable value: what is stored, what the sink holds, who lives, and
which effects are still on their way. Nothing in here decides anything about the protocol.

The data plane is abstract: the input is a sequence of epochs 1, 2, 3, …; a checkpoint prepares one transaction with the
epoch since the last barrier and uploads one chunk. The sink is a set of transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.layout import chunk_name
from tidegate.checkpoint.manifest import Manifest, Restored
from tidegate.checkpoint.phases import State
from tidegate.checkpoint.plan import CheckpointPlan, Rules
from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId, SlotIndex, StageId, SubtaskId
from tidegate.model.messages import SubtaskAcked
from tidegate.model.snapshot import ChunkHandle, Committable, KeyGroupRange, OperatorSnapshot, PhaseTimes
from tidegate.testing.model.interning import Box, Interner

SUBTASK = SubtaskId(StageId(0), SlotIndex(0))
COUNT = OperatorId("count")
SINK = OperatorId("sink")

NEVER_MS = 1 << 40
"""Nothing periodic happens in the model: a checkpoint starts when the search says so."""
TIMEOUT_MS = 1_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of everything one world may contain. Each number is a budget of the whole run."""

    name: str
    starts: int
    """Persons' starts, so also driver processes."""
    attempts: int
    checkpoints: int
    crashes: int = 0
    """Drivers that die; what they sent may still land."""
    failures: int = 0
    """Attempts that fail while their driver lives: automatic restarts."""
    lost_answers: int = 0
    """Writes whose outcome stays unknown: landed, or landing later, or never."""
    timeouts: int = 0
    """Checkpoints that are prepared but not acknowledged in time."""
    damages: int = 0
    """Manifests that rot and chunks that vanish."""
    quiet: bool = False
    """Checkpoints without any output are possible."""
    retained: int = 1
    store_tries_max: int = 1


def plan_for(bounds: Bounds, rules: Rules) -> CheckpointPlan:
    return CheckpointPlan(
        pipeline=PipelineId("model"),
        parallelism=1,
        subtasks=(SUBTASK,),
        sources=(),
        stateful=(COUNT, SINK),
        sinks=(SINK,),
        config=QueryConfig(
            parallelism=1,
            checkpoint_interval_ms=NEVER_MS,
            checkpoint_timeout_ms=TIMEOUT_MS,
            checkpoint_failures_tolerated=1_000,
            checkpoints_retained=bounds.retained,
            restart_attempts_max=1_000,
            restart_delay_min_ms=0,
            restart_delay_max_ms=0,
        ),
        rules=rules,
        store_tries_max=bounds.store_tries_max,
    )


PREPARED, COMMITTED, ABORTED = "prepared", "committed", "aborted"
"""What can have become of a transaction."""


class Transaction(NamedTuple):
    """Output of one epoch, prepared by one attempt for one checkpoint."""

    attempt: Attempt
    checkpoint: CheckpointId
    epoch: int


class Slot(NamedTuple):
    """The data plane of one attempt."""

    attempt: Attempt
    epoch: int
    """The last one that is in its state."""
    carried: tuple[Transaction, ...]
    """Prepared, not known to be committed."""
    chunk: str | None
    """The newest chunk of the last checkpoint known to be complete."""
    stored: tuple[tuple[CheckpointId, str], ...] = ()
    """Chunks of checkpoints not known to be complete."""


class Driver(NamedTuple):
    """A driver process: its coordinator, what it has asked for and not heard of yet, and its slots."""

    state: Box[State]
    asked: frozenset[Box[Effect]]
    slot: Slot | None


class Claimed(NamedTuple):
    process: str
    automatic: bool


class Damaged(NamedTuple):
    """What is left of a manifest that rotted."""


Document: TypeAlias = Claimed | Restored | Manifest | Damaged | None
"""Under a claim: who; under ``restored``: what; under a manifest: itself; under a chunk: None."""
Store: TypeAlias = frozenset[Box[tuple[str, Document]]]
Sink: TypeAlias = frozenset[tuple[Transaction, str]]


class Budget(NamedTuple):
    starts: int
    crashes: int
    failures: int
    lost_answers: int
    timeouts: int
    damages: int


class World(NamedTuple):
    drivers: tuple[Box[Driver] | None, ...]
    """By process number; None: dead or done."""
    late: Box[frozenset[Box[Effect]]]
    """Effects whose driver does not wait for them any more: they land some day, or never."""
    store: Box[Store]
    sink: Box[Sink]
    budget: Budget


def first_world(bounds: Bounds, box: Interner) -> World:
    nothing: frozenset[Box[Effect]] = frozenset()
    empty_store: Store = frozenset()
    empty_sink: Sink = frozenset()
    budget = Budget(
        bounds.starts, bounds.crashes, bounds.failures, bounds.lost_answers, bounds.timeouts, bounds.damages
    )
    return World((), box(nothing), box(empty_store), box(empty_sink), budget)


# --- the data plane ------------------------------------------------------------------------------------------------


def restored_slot(attempt: Attempt, manifest: Manifest | None) -> Slot:
    if manifest is None:
        return Slot(attempt, 0, (), None)
    chunks = [handle.name for entry in manifest.operators for handle in entry.chunks]
    carried = tuple(transaction_of(one) for _, ones in manifest.committables() for one in ones)
    return Slot(attempt, epoch_of(manifest), carried, chunks[-1])


def barrier(slot: Slot, checkpoint: CheckpointId, *, quiet: bool) -> tuple[Slot, tuple[Transaction, ...], str]:
    """The barrier passes: one epoch more is in the state, its output is prepared, a chunk is uploaded."""
    chunk = chunk_name(COUNT, slot.attempt, SUBTASK.index, checkpoint, 0)
    stored = (*slot.stored, (checkpoint, chunk))
    if quiet:
        return slot._replace(stored=stored), (), chunk
    transaction = Transaction(slot.attempt, checkpoint, slot.epoch + 1)
    after = slot._replace(epoch=slot.epoch + 1, carried=(*slot.carried, transaction), stored=stored)
    return after, (transaction,), chunk


def acknowledge(slot: Slot, checkpoint: CheckpointId, chunk: str) -> SubtaskAcked:
    """State is the chunk known to be stored and the new one: each chunk is shared by two checkpoints, then leaves."""
    names = (slot.chunk, chunk) if slot.chunk is not None else (chunk,)
    handles = tuple(
        ChunkHandle(name=name, groups=KeyGroupRange(0, 1), rows=1, size_bytes=1, checksum=0) for name in names
    )
    return SubtaskAcked(
        attempt=slot.attempt,
        slot=SUBTASK.index,
        subtask=SUBTASK,
        checkpoint=checkpoint,
        snapshots=(
            OperatorSnapshot(operator=COUNT, subtask=SUBTASK.index, chunks=handles, value=b"%d" % slot.epoch),
            OperatorSnapshot(
                operator=SINK,
                subtask=SUBTASK.index,
                committables=tuple(committable_of(transaction) for transaction in slot.carried),
            ),
        ),
        times=PhaseTimes(),
    )


def completed(slot: Slot, checkpoint: CheckpointId) -> Slot:
    known = [chunk for of, chunk in slot.stored if of == checkpoint]
    if not known:
        return slot
    return slot._replace(chunk=known[0], stored=tuple(one for one in slot.stored if one[0] > checkpoint))


def confirmed(slot: Slot, checkpoint: CheckpointId) -> Slot:
    return slot._replace(carried=tuple(one for one in slot.carried if one.checkpoint > checkpoint))


def committable_of(transaction: Transaction) -> Committable:
    payload = b"%d %d %d" % transaction
    return Committable(checkpoint=transaction.checkpoint, subtask=SUBTASK.index, number=0, payload=payload)


def transaction_of(committable: Committable) -> Transaction:
    attempt, checkpoint, epoch = (int(part) for part in committable.payload.split())
    return Transaction(Attempt(attempt), CheckpointId(checkpoint), epoch)


def epoch_of(manifest: Manifest) -> int:
    return next(int(entry.value) for entry in manifest.operators if entry.operator == COUNT)
