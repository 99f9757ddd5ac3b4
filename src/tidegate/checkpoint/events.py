"""Everything that can happen to a pipeline's coordinator. Delivery is at-least-once and may be late: each event says
which attempt and checkpoint it is about, and ``step`` ignores what no longer matters.

``now_ms`` is the shell's *monotonic* clock at the moment the event entered the inbox; the core knows no other time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest, Restored
from tidegate.model.ids import Attempt, CheckpointId, OperatorId
from tidegate.model.messages import SourceExhausted, SourceTime, SplitsWanted, SubtaskAcked, SubtaskDeclined
from tidegate.model.snapshot import CommittablesBySink, Published, Split

NO_CLAIM = Attempt(0)
"""Attempts count from 1."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something ended, as a value: ``code`` is that of an error class of ``model.errors``."""

    code: str
    message: str
    hint: str = ""
    operator: str = ""
    position: str = ""
    """Where in the input the failing row stands, when known."""
    retryable: bool = True
    """False: starting again cannot help."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What stands in the location, read after our claim was written. ``recovery.facts_from`` builds it."""

    claims: tuple[Attempt, ...] = ()
    restored: dict[Attempt, Restored] = field(default_factory=dict[Attempt, Restored])
    """Of the attempts in the chain back from the newest one that wrote it."""
    manifests: tuple[ManifestRef, ...] = ()
    """Every manifest that exists, dead branches included, sorted."""
    committed: frozenset[ManifestRef] = frozenset()
    readable: dict[ManifestRef, Manifest] = field(default_factory=dict[ManifestRef, Manifest])
    """Decoded manifests of the lineage, newest first, as far back as was needed."""
    damaged: dict[ManifestRef, str] = field(default_factory=dict[ManifestRef, str])
    """Manifests of the lineage that cannot be decoded, with the reason."""
    keys: tuple[str, ...] = ()
    """All keys of the location."""
    published: tuple[tuple[OperatorId, Published], ...] = ()
    """The newest output that each sink's target remembers, where it remembers any and has been asked."""


# --- start and time ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """A person started the pipeline. ``process`` is random and new for every driver process."""

    now_ms: int
    process: str
    newest_claim: Attempt = NO_CLAIM
    """Highest attempt number seen in the location; 0: none. May be out of date: a refused claim tries the next."""
    accept_duplicates: bool = False
    """The person allows falling back past a checkpoint that may have been committed."""


@dataclass(frozen=True, slots=True)
class ClockTicked:
    """Time passed. Ticks may be missed or come in bursts; the shell sends one at least every 100 ms."""

    now_ms: int


# --- claim, list, restored, look ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClaimWritten:
    now_ms: int
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """The claim exists; ``process`` is what a read-back found in it."""

    now_ms: int
    attempt: Attempt
    process: str


@dataclass(frozen=True, slots=True)
class ClaimUnknown:
    now_ms: int
    attempt: Attempt
    failure: Failure | None = None
    """What the store said, if it said anything. Not retryable: asking again cannot help."""


@dataclass(frozen=True, slots=True)
class LocationListed:
    now_ms: int
    attempt: Attempt
    facts: Facts


@dataclass(frozen=True, slots=True)
class ListingFailed:
    now_ms: int
    attempt: Attempt
    failure: Failure


@dataclass(frozen=True, slots=True)
class RestoredWritten:
    now_ms: int
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class RestoredRefused:
    """The file exists; ``holds`` is what a read-back found in it."""

    now_ms: int
    attempt: Attempt
    holds: Restored


@dataclass(frozen=True, slots=True)
class RestoredUnknown:
    now_ms: int
    attempt: Attempt
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class LookAnswered:
    """``newer``: the claim after ours exists. ``about``: the checkpoint the look is for; None: the restore."""

    now_ms: int
    attempt: Attempt
    about: CheckpointId | None
    newer: bool


@dataclass(frozen=True, slots=True)
class LookFailed:
    now_ms: int
    attempt: Attempt
    about: CheckpointId | None
    failure: Failure | None = None


# --- sinks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SinksCommitted:
    """Everything of ``CommitSinks`` is visible. ``attempt`` is the one that asked, not the manifest's."""

    now_ms: int
    attempt: Attempt
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class SinksFailed:
    """Some of ``CommitSinks`` is not visible, or nobody knows."""

    now_ms: int
    attempt: Attempt
    checkpoint: CheckpointId
    failure: Failure
    left: CommittablesBySink | None = None
    """What is not known to be visible: what one sink handed back, and all that another one was asked for and raised. The rest of what
    was asked for is visible. None: of nothing it is known."""


@dataclass(frozen=True, slots=True)
class SinksSwept:
    """The sweep is over; ``problems`` are reported and stop nothing."""

    now_ms: int
    attempt: Attempt
    problems: tuple[str, ...] = ()


# --- slots and sources --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlotsReady:
    """All slots of the attempt have restored and are connected."""

    now_ms: int
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class SlotSaid:
    """A control message of a slot. Registration, progress, failure and heartbeats stay with the shell."""

    now_ms: int
    message: SubtaskAcked | SubtaskDeclined | SplitsWanted | SourceExhausted | SourceTime


@dataclass(frozen=True, slots=True)
class SplitsDiscovered:
    """A look for new splits of a source is over, with the enumerator's snapshot taken *after* it: the two always agree.

    After a Deploy the first one holds every split the restored enumerator knows. Sent when something was found, and once more when
    the next look finds nothing. A look that failed is none.
    """

    now_ms: int
    attempt: Attempt
    operator: OperatorId
    splits: tuple[Split, ...]
    state: bytes
    """``SplitEnumerator.snapshot()``; goes into the next manifest as it is."""
    bounded: bool = False
    """Discovery will never bring anything new."""
    endless: bool = False
    """These splits have no end (partitions of a log): deal them out at once, do not wait to be asked."""
    ordered: bool = False
    """Order inside a split counts: each tells its own time. Otherwise they are whole, and make up cohorts."""
    found: bool = True
    """The look brought something new."""
    complete: bool = True
    """So did, or did not, the looks into all sources of its stream. Otherwise some of them failed: what they would have found may belong
    to the same burst, and event time waits."""


# --- checkpoint storage -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ManifestStored:
    now_ms: int
    ref: ManifestRef


@dataclass(frozen=True, slots=True)
class ManifestRefused:
    """A file stands there already. ``ours``: a read-back found exactly our bytes."""

    now_ms: int
    ref: ManifestRef
    ours: bool


@dataclass(frozen=True, slots=True)
class ManifestUnknown:
    now_ms: int
    ref: ManifestRef
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class CommittedMarked:
    """The marker stands: it was written, or was there."""

    now_ms: int
    ref: ManifestRef


@dataclass(frozen=True, slots=True)
class MarkUnknown:
    """The marker may stand, or not."""

    now_ms: int
    ref: ManifestRef


@dataclass(frozen=True, slots=True)
class CleanupDone:
    """A cleanup round ended: everything was tried, or its time was up."""

    now_ms: int
    attempt: Attempt
    undeletable: tuple[tuple[str, str], ...] = ()
    """Key and reason; tried again in the next round."""
    untried: tuple[str, ...] = ()
    """Left over when the time was up; first in the next round."""


# --- people and failures ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """A person wants a checkpoint; answered with ``AnswerRequest(token, …)`` once it is decided."""

    now_ms: int
    token: str


class Afterwards(Enum):
    """What follows a savepoint."""

    RUN_ON = "run on"
    SUSPEND = "suspend"
    """End the query; windows stay open in the savepoint."""
    DRAIN = "drain"
    """Read nothing more, close all windows, then take the savepoint as the final checkpoint and end the query."""


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """A person wants a savepoint at ``target``; answered with ``AnswerRequest(token, …)`` once it is exported or failed."""

    now_ms: int
    token: str
    target: str
    afterwards: Afterwards = Afterwards.RUN_ON


@dataclass(frozen=True, slots=True)
class SavepointExported:
    now_ms: int
    attempt: Attempt
    checkpoint: CheckpointId
    target: str
    """Tells two exports of one checkpoint apart."""


@dataclass(frozen=True, slots=True)
class SavepointFailed:
    now_ms: int
    attempt: Attempt
    checkpoint: CheckpointId
    target: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class BacklogSeen:
    """Sources are far behind their input, or no longer. Sent when it changes."""

    now_ms: int
    attempt: Attempt
    far_behind: bool


@dataclass(frozen=True, slots=True)
class StopRequested:
    now_ms: int


@dataclass(frozen=True, slots=True)
class RedeployRequested:
    """The slots are to start anew from the last complete checkpoint: static data was read again."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """A slot, a channel, user code or the deploy failed. Repeats of one attempt are ignored."""

    now_ms: int
    attempt: Attempt
    failure: Failure


@dataclass(frozen=True, slots=True)
class SlotsFree:
    """Nothing of the attempt's Spark job holds a task slot any more."""

    now_ms: int
    attempt: Attempt


Event: TypeAlias = (
    Started
    | ClockTicked
    | ClaimWritten
    | ClaimRefused
    | ClaimUnknown
    | LocationListed
    | ListingFailed
    | RestoredWritten
    | RestoredRefused
    | RestoredUnknown
    | LookAnswered
    | LookFailed
    | SinksCommitted
    | SinksFailed
    | SinksSwept
    | SlotsReady
    | SlotSaid
    | SplitsDiscovered
    | ManifestStored
    | ManifestRefused
    | ManifestUnknown
    | CommittedMarked
    | MarkUnknown
    | CleanupDone
    | CheckpointRequested
    | SavepointRequested
    | SavepointExported
    | SavepointFailed
    | BacklogSeen
    | StopRequested
    | RedeployRequested
    | AttemptFailed
    | SlotsFree
)
