"""A small world around real coordinators, as one hashable value: what is stored, what the sink holds, who lives, and
which effects are still on their way. Nothing in here decides anything about the protocol.

The data plane is abstract: the input is a sequence of epochs 1, 2, 3, … of two rows each; at a checkpoint every subtask
prepares one transaction with its rows of the epoch since the last barrier and uploads one chunk. The sink is a set of
transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Afterwards, Event
from tidegate.checkpoint.manifest import Manifest, Restored
from tidegate.checkpoint.phases import State
from tidegate.checkpoint.plan import CheckpointPlan, Rules
from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId, SlotIndex, StageId, SubtaskId
from tidegate.model.snapshot import (
    Committable,
)
from tidegate.testing.model.interning import Box, Interner

ROWS = 2
"""Rows of an epoch; row r is read by subtask r modulo the parallelism."""
STAGE = StageId(0)
COUNT = OperatorId("count")
INPUT = OperatorId("input")
"""Reads nothing that matters here; it can be told to end."""
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
    hand_backs: int = 0
    """Commits of which the sink makes some visible and hands back the rest."""
    timeouts: int = 0
    """Checkpoints that are prepared but not acknowledged in time."""
    lost_messages: int = 0
    """Triggers, acknowledgements and notices that never arrive."""
    savepoints: int = 0
    """Persons' requests for a savepoint."""
    stops: int = 0
    """Persons who stop a driver."""
    damages: int = 0
    """Manifests that rot and chunks that vanish."""
    losses: int = 0
    """Newest manifests that are gone, as if they had never been."""
    set_backs: int = 0
    """Times that an older copy of the location takes its place."""
    fall_back: bool = False
    """People start with ``onCorruptCheckpoint=fallBack``: rows may come twice, none may be lost."""
    early_copies: bool = False
    """A copy of the location is made before the first start, or never: of nothing at all."""
    repeats: bool = False
    """Rows may come twice: such a world is about rows that are skipped, and numbers that are given out again."""
    forgets: bool = False
    """The target remembers nothing of the pipeline's output: the rules have to hold without it."""
    quiet: bool = False
    """Checkpoints without any output are possible."""
    retained: int = 1
    concurrent: int = 1
    """Checkpoints in flight at once."""
    store_tries_max: int = 1
    parallelism: tuple[int, ...] = (1,)
    """Of the first start, of the second, …, and again from the beginning."""
    pipelines: int = 1
    """The first start is one of pipeline 0, the second one of pipeline 1, …; each has a location in the same store."""
    afterwards: tuple[Afterwards, ...] = (Afterwards.RUN_ON,)
    """What may follow a savepoint."""

    @property
    def loose(self) -> bool:
        """Acknowledgements travel on their own: they may overtake each other, come too late, or be lost."""
        return self.concurrent > 1 or self.lost_messages > 0

    def pipeline_of(self, driver: int) -> int:
        return driver % self.pipelines

    def parallelism_of(self, driver: int) -> int:
        return self.parallelism[driver % len(self.parallelism)]


def plan_for(bounds: Bounds, rules: Rules, parallelism: int = 1, pipeline: int = 0) -> CheckpointPlan:
    return CheckpointPlan(
        pipeline=PipelineId(f"model-{pipeline}"),
        parallelism=parallelism,
        subtasks=tuple(SubtaskId(STAGE, SlotIndex(index)) for index in range(parallelism)),
        sources=(INPUT,),
        stateful=(COUNT, INPUT, SINK),
        sinks=(SINK,),
        config=QueryConfig(
            parallelism=parallelism,
            checkpoint_interval_ms=NEVER_MS,
            checkpoint_timeout_ms=TIMEOUT_MS,
            checkpoint_failures_tolerated=1_000,
            checkpoints_retained=bounds.retained,
            checkpoints_concurrent_max=bounds.concurrent,
            restart_attempts_max=1_000,
            restart_delay_min_ms=0,
            restart_delay_max_ms=0,
            message_repeat_ms=NEVER_MS,
        ),
        rules=rules,
        store_tries_max=bounds.store_tries_max,
    )


PREPARED, COMMITTED, ABORTED, SKIPPED = "prepared", "committed", "aborted", "skipped"
"""What can have become of a transaction. A target that has newer output takes an older transaction for one that it knows."""


class Transaction(NamedTuple):
    """Rows of one epoch, prepared by one subtask of one attempt for one checkpoint."""

    pipeline: int
    attempt: Attempt
    checkpoint: CheckpointId
    epoch: int
    part: int = 0
    parts: int = 1

    def rows(self) -> frozenset[tuple[int, int]]:
        return frozenset((self.epoch, row) for row in range(ROWS) if row % self.parts == self.part)

    def __str__(self) -> str:
        of = f", subtask {self.part} of {self.parts}" if self.parts > 1 else ""
        return f"transaction of attempt {self.attempt} for checkpoint {self.checkpoint} (epoch {self.epoch}{of})"


class Task(NamedTuple):
    """One subtask."""

    carried: tuple[Transaction, ...] = ()
    """Prepared or restored, not known to be committed."""
    chunks: tuple[str, ...] = ()
    """The newest chunks of the last checkpoint known to be complete."""
    stored: tuple[tuple[CheckpointId, str], ...] = ()
    """Chunks of checkpoints not known to be complete."""


class Slot(NamedTuple):
    """The data plane of one attempt."""

    pipeline: int
    attempt: Attempt
    epoch: int
    """The last one that is in its state."""
    tasks: tuple[Task, ...]
    passed: CheckpointId = CheckpointId(0)
    """The newest checkpoint whose barrier has gone by."""


class Driver(NamedTuple):
    """A driver process: its coordinator, what it has asked for and not heard of yet, its slots, and what they said."""

    state: Box[State]
    asked: frozenset[Box[Effect]]
    slot: Slot | None
    said: frozenset[Box[Event]] = frozenset()
    """Acknowledgements on their way."""


class Claimed(NamedTuple):
    process: str
    automatic: bool


class Damaged(NamedTuple):
    """What is left of a manifest that rotted."""


Document: TypeAlias = Claimed | Restored | Manifest | Damaged | None
"""Under a claim: who; under ``restored``: what; under a manifest: itself; under a chunk: None."""
Store: TypeAlias = frozenset[Box[tuple[str, Document]]]
Sink: TypeAlias = frozenset[tuple[Transaction, str]]


class Late(NamedTuple):
    """An effect that nobody waits for any more."""

    pipeline: int
    effect: Box[Effect]


class Budget(NamedTuple):
    starts: int
    crashes: int
    failures: int
    lost_answers: int
    hand_backs: int
    timeouts: int
    damages: int
    losses: int
    set_backs: int
    lost_messages: int
    savepoints: int
    stops: int


class World(NamedTuple):
    drivers: tuple[Box[Driver] | None, ...]
    """By process number; None: dead or done."""
    late: Box[frozenset[Late]]
    """They land some day, or never."""
    store: Box[Store]
    sink: Box[Sink]
    budget: Budget
    copy: Box[Store] | None = None
    """An older copy of the store that somebody has made."""


def first_world(bounds: Bounds, box: Interner) -> World:
    nothing: frozenset[Late] = frozenset()
    empty_store: Store = frozenset()
    empty_sink: Sink = frozenset()
    budget = Budget(**{name: getattr(bounds, name) for name in Budget._fields})
    return World((), box(nothing), box(empty_store), box(empty_sink), budget)


def committable_of(transaction: Transaction) -> Committable:
    payload = b"%d %d %d %d %d %d" % transaction
    return Committable(
        checkpoint=transaction.checkpoint, subtask=SlotIndex(transaction.part), number=0, payload=payload
    )


def transaction_of(committable: Committable) -> Transaction:
    pipeline, attempt, checkpoint, epoch, part, parts = (int(number) for number in committable.payload.split())
    return Transaction(pipeline, Attempt(attempt), CheckpointId(checkpoint), epoch, part, parts)


def epoch_of(manifest: Manifest) -> int:
    return next(int(entry.value) for entry in manifest.operators if entry.operator == COUNT)
