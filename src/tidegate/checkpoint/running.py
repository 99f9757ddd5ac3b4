"""The states of a running attempt, as values: impossible combinations cannot be written down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.marking import Marking
from tidegate.checkpoint.numbering import UNNUMBERED
from tidegate.checkpoint.orders import NO_ORDERS, Orders
from tidegate.checkpoint.restart import Restarts
from tidegate.checkpoint.retention import Retention
from tidegate.checkpoint.sources import SplitAssigner
from tidegate.checkpoint.statistics import CheckpointReport, FailureReason, LateSubtask, Outcome, acked_times
from tidegate.checkpoint.trigger import Trigger
from tidegate.model.batch_ids import Numbering
from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.messages import SubtaskAcked
from tidegate.model.snapshot import CommittablesBySink


@dataclass(frozen=True, slots=True)
class Taken:
    """A checkpoint from its trigger on: what reports and answers need."""

    ref: ManifestRef
    kind: CheckpointKind
    triggered_ms: int
    acks: tuple[SubtaskAcked, ...] = ()
    """Sorted by subtask."""
    requests: tuple[str, ...] = ()
    base: ManifestRef | None = None
    """The newest completed checkpoint at the trigger: snapshots build upon it or upon a later one."""
    delay_ms: int = 0
    """How long it was due before it could start."""

    def report(
        self,
        outcome: Outcome,
        ended_ms: int,
        reason: FailureReason | None = None,
        detail: str = "",
        late: tuple[LateSubtask, ...] = (),
    ) -> CheckpointReport:
        return CheckpointReport(
            checkpoint=self.ref.checkpoint,
            attempt=self.ref.attempt,
            kind=self.kind,
            outcome=outcome,
            triggered_ms=self.triggered_ms,
            ended_ms=ended_ms,
            acks=acked_times(self.acks),
            reason=reason,
            detail=detail,
            late=late,
            trigger_delay_ms=self.delay_ms,
        )


@dataclass(frozen=True, slots=True)
class Collecting:
    """Barriers travel; acknowledgements arrive. The timeout covers exactly this phase."""

    taken: Taken
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Acked:
    """Every subtask has acknowledged; the manifest waits for its turn: manifests are stored in the order of their numbers."""

    taken: Taken


@dataclass(frozen=True, slots=True)
class Storing:
    """The manifest is being created. ``retry_at_ms``: the outcome of the last try is unknown, try again then."""

    taken: Taken
    manifest: Manifest
    tries: int = 1
    retry_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Looking:
    """The manifest exists. Is there a newer claim? Either we see it, or its owner sees our manifest."""

    taken: Taken
    manifest: Manifest
    retry_at_ms: int | None = None


Flight: TypeAlias = Collecting | Acked | Storing | Looking

ALONE = frozenset({CheckpointKind.FINAL, CheckpointKind.SAVEPOINT})
"""Kinds that share the channels with no other checkpoint, so that none can subsume them."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed checkpoint whose output is not confirmed visible yet. No timeout aborts it: it is durable."""

    taken: Taken
    manifest: Manifest
    tries: int = 1
    asked_ms: int | None = None
    """Since when its sinks are being asked; None: they are not."""
    retry_at_ms: int | None = None
    left: CommittablesBySink | None = None
    """What is not known to be visible, as the sinks have said. None: they have said nothing."""

    @property
    def owed(self) -> CommittablesBySink:
        """What its sinks still have to make visible."""
        return self.manifest.committables() if self.left is None else self.left


@dataclass(frozen=True, slots=True)
class Running:
    """An attempt whose slots run. ``base``: the newest completed checkpoint of the lineage, own or restored."""

    attempt: Attempt
    base: Manifest | None
    next_checkpoint: CheckpointId
    trigger: Trigger
    sources: tuple[SplitAssigner, ...]
    retention: Retention
    restarts: Restarts
    flights: tuple[Flight, ...] = ()
    """Checkpoints between trigger and completion, oldest first; at most one of them is being stored or looked after."""
    commits: tuple[Commit, ...] = ()
    """At most two, oldest first: the first one's sinks are being asked, the second one waits."""
    marking: Marking | None = None
    """The commit that is being recorded."""
    cleaning: bool = False
    failures_in_a_row: int = 0
    repeat_at_ms: int = 0
    """When messages without an answer are sent again."""
    far_behind: bool = False
    """Sources say that they lag far behind their input."""
    orders: Orders = NO_ORDERS
    exhausted: frozenset[tuple[OperatorId, SlotIndex]] = frozenset()
    """Source subtasks that have emitted everything there is."""
    numbering: Numbering = UNNUMBERED
    """Of all batches, those in manifests included that may or may not have been stored: an id is given out once."""

    def flight(self, checkpoint: CheckpointId | None) -> Flight | None:
        return next((one for one in self.flights if one.taken.ref.checkpoint == checkpoint), None)

    def moved(self, flight: Flight) -> Running:
        """The same, with that checkpoint in its next phase."""
        ref = flight.taken.ref
        return replace(self, flights=tuple(flight if one.taken.ref == ref else one for one in self.flights))

    def landed(self, ref: ManifestRef) -> Running:
        """The same without that checkpoint: it is decided."""
        return replace(self, flights=tuple(one for one in self.flights if one.taken.ref != ref))

    @property
    def concluded(self) -> bool:
        """The final checkpoint of this attempt is complete: no other one follows it."""
        base = self.base
        return base is not None and base.attempt == self.attempt and base.kind is CheckpointKind.FINAL


@dataclass(frozen=True, slots=True)
class FencedOut:
    """A newer attempt owns the pipeline."""

    by: Attempt


@dataclass(frozen=True, slots=True)
class Broken:
    """The attempt cannot go on."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Complete:
    """The final checkpoint is committed: there is nothing left to do."""


@dataclass(frozen=True, slots=True)
class Redeployed:
    """The next attempt begins at once, with other static data: no failure."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The savepoint to stop with is exported."""


Exit: TypeAlias = FencedOut | Broken | Complete | Suspended
Turn: TypeAlias = tuple[Running, tuple[Effect, ...], Exit | None]
"""What an event does to a running attempt. With an exit the attempt must end, and ``Running`` is as it was last."""
