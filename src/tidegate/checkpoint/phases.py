"""The phases of a coordinator's life, as values. Every one of them can be hashed, compared and replayed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from tidegate.checkpoint.effects import Outcome
from tidegate.checkpoint.events import CheckpointRequested, SavepointRequested
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.marking import Marking
from tidegate.checkpoint.orders import NO_ORDERS, Orders
from tidegate.checkpoint.recovery import Choice, Refusal
from tidegate.checkpoint.restart import NO_RESTARTS, Restarts
from tidegate.checkpoint.running import Running
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import CommittablesBySink

FIRST_CHECKPOINT = CheckpointId(1)


@dataclass(frozen=True, slots=True)
class Session:
    """What outlives the attempts of one driver process."""

    process: str
    restarts: Restarts = NO_RESTARTS
    requests: tuple[str, ...] = ()
    """People who asked for a checkpoint while none could be taken."""
    orders: Orders = NO_ORDERS
    """Savepoints asked for and not answered, while no attempt runs."""
    accept_duplicates: bool = False
    next_checkpoint: CheckpointId = FIRST_CHECKPOINT
    """Above every number this driver has used, completed or not."""
    compared: bool = False
    """The location agrees with what the targets remember, or the user has accepted that it does not. Restarts do not ask again."""

    def asked(self, event: CheckpointRequested | SavepointRequested) -> Session:
        """Remembered until an attempt runs."""
        match event:
            case CheckpointRequested(_, token):
                return replace(self, requests=tuple(dict.fromkeys((*self.requests, token))))
            case SavepointRequested():
                return replace(self, orders=self.orders.requested(event))


@dataclass(frozen=True, slots=True)
class Retry:
    """Tries so far of the effect that is outstanding; ``at_ms``: its outcome is unknown, ask again then."""

    tries: int = 0
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class New:
    """Nothing has happened."""


@dataclass(frozen=True, slots=True)
class Claiming:
    """The claim of ``attempt`` is being created. ``automatic``: a restart, which may take this number and no other."""

    session: Session
    attempt: Attempt
    automatic: bool
    retry: Retry = Retry()


@dataclass(frozen=True, slots=True)
class Listing:
    """The claim stands. What is in the location now decides what is restored."""

    session: Session
    attempt: Attempt
    retry: Retry = Retry()


@dataclass(frozen=True, slots=True)
class WritingRestored:
    """The choice is made and being written down: from then on all other branches are dead."""

    session: Session
    attempt: Attempt
    choice: Choice
    retry: Retry = Retry()


@dataclass(frozen=True, slots=True)
class LookingFirst:
    """``restored`` stands, or nothing can be restored. Is there a newer claim? A zombie must not cry damage: what it
    misses may have been deleted by its successor."""

    session: Session
    attempt: Attempt
    decision: Choice | Refusal
    retry: Retry = Retry()


@dataclass(frozen=True, slots=True)
class CommittingRestored:
    """Output of the restored checkpoint is made visible: its author may have died before, or while, doing so."""

    session: Session
    attempt: Attempt
    choice: Choice
    retry: Retry = Retry()
    """``at_ms``: no answer until then counts as a failed try; in a pause: its end."""
    left: CommittablesBySink | None = None
    """What is not known to be visible, as the sinks have said. None: they have said nothing."""
    pausing: bool = False
    """The sinks have handed some back and are not being asked."""

    @property
    def owed(self) -> CommittablesBySink:
        """What the sinks still have to make visible."""
        if self.left is not None:
            return self.left
        return self.choice.manifest.committables() if self.choice.manifest is not None else ()


@dataclass(frozen=True, slots=True)
class Sweeping:
    """Transactions of older attempts that the restored checkpoint does not carry are aborted. Where the pipeline is over, what its last
    round of deleting left behind goes, too: no other will come."""

    session: Session
    attempt: Attempt
    choice: Choice
    swept: bool = False
    cleaned: bool = True
    marking: Marking | None = None
    """That the restored output is visible is being recorded."""


@dataclass(frozen=True, slots=True)
class Deploying:
    """Slots start and restore; ``run`` is the attempt as it will begin."""

    session: Session
    run: Running


@dataclass(frozen=True, slots=True)
class Active:
    session: Session
    run: Running


@dataclass(frozen=True, slots=True)
class RestartAt:
    """After a failure: claim the next number, not before this moment."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Ending:
    """The slots are told to leave; nothing new is begun before they are gone."""

    session: Session
    attempt: Attempt
    then: Outcome | RestartAt
    owed: ManifestRef | None = None
    """Its commit is running and worth waiting for: the query ends when its output is visible."""
    marking: Marking | None = None
    """The commit that is being recorded. A target may have forgotten it when the query is started again: then only the marker tells."""
    free: bool = False
    until_ms: int | None = None
    """Neither the commit nor its marker is waited for longer; the next start commits again what no marker names. None: for neither."""


@dataclass(frozen=True, slots=True)
class BackingOff:
    """Between two attempts."""

    session: Session
    attempt: Attempt
    """The one that ended."""
    until_ms: int


@dataclass(frozen=True, slots=True)
class Over:
    """The coordinator has said its last word."""

    outcome: Outcome


Recovering: TypeAlias = Claiming | Listing | WritingRestored | LookingFirst | CommittingRestored | Sweeping
State: TypeAlias = New | Recovering | Deploying | Active | Ending | BackingOff | Over
