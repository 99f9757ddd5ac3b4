"""The states of a running attempt, as values: impossible combinations cannot be written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.restart import Restarts
from tidegate.checkpoint.retention import Retention
from tidegate.checkpoint.sources import SplitAssigner
from tidegate.checkpoint.trigger import Trigger
from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.messages import SubtaskAcked


@dataclass(frozen=True, slots=True)
class Taken:
    """A checkpoint from its trigger on: what reports and answers need."""

    ref: ManifestRef
    kind: CheckpointKind
    triggered_ms: int
    acks: tuple[SubtaskAcked, ...] = ()
    """Sorted by subtask."""
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Idle:
    """No checkpoint is in flight."""


@dataclass(frozen=True, slots=True)
class Collecting:
    """Barriers travel; acknowledgements arrive. The timeout covers exactly this phase."""

    taken: Taken
    deadline_ms: int


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


Flight: TypeAlias = Idle | Collecting | Storing | Looking


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed checkpoint whose output is not confirmed visible yet. No timeout aborts it: it is durable."""

    taken: Taken
    manifest: Manifest
    tries: int = 1
    retry_at_ms: int | None = None


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
    flight: Flight = Idle()
    commits: tuple[Commit, ...] = ()
    """At most two, oldest first: the first one's sinks are being asked, the second one waits."""
    cleaning: bool = False
    failures_in_a_row: int = 0
    exhausted: frozenset[tuple[OperatorId, SlotIndex]] = frozenset()
    """Source subtasks that have emitted everything there is."""

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


Exit: TypeAlias = FencedOut | Broken | Complete
Turn: TypeAlias = tuple[Running, tuple[Effect, ...], Exit | None]
"""What an event does to a running attempt. With an exit the attempt must end, and ``Running`` is as it was last."""
