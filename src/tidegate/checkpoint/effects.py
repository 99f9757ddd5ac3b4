"""What the coordinator asks its shell to do. The shell performs each effect without blocking the inbox and reports the
outcome as the event named in the docstring. Effects of one step are performed in order.

An effect that is asked for again is safe to perform again; an effect whose coordinator died may still land, late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest, Restored
from tidegate.checkpoint.numbering import UNNUMBERED
from tidegate.checkpoint.statistics import CheckpointReport
from tidegate.model.batch_ids import Numbering
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.messages import SlotMessage
from tidegate.model.snapshot import CommittablesBySink


@dataclass(frozen=True, slots=True)
class WriteClaim:
    """Create ``layout.claim_key(attempt)``. → ClaimWritten, ClaimRefused (after a read-back) or ClaimUnknown."""

    attempt: Attempt
    process: str


@dataclass(frozen=True, slots=True)
class ListLocation:
    """List the location and read what ``recovery.facts_from`` asks for. → LocationListed or ListingFailed."""

    attempt: Attempt
    verify_chunks: bool = False
    """Read all state of the checkpoints, too: one that is damaged is passed over."""
    ask_targets: bool = False
    """Ask the sinks first what their targets remember of this pipeline."""


@dataclass(frozen=True, slots=True)
class WriteRestored:
    """Create ``layout.restored_key(attempt)``. → RestoredWritten, RestoredRefused (after a read-back) or RestoredUnknown."""

    attempt: Attempt
    restored: Restored
    notes: tuple[str, ...] = ()
    """What the user should know about the choice: written to the log, to no document."""


@dataclass(frozen=True, slots=True)
class LookForClaim:
    """Does the claim ``attempt + 1`` exist, and if not, does our own? Sent after everything before it is durable.

    → LookAnswered or LookFailed; without our own claim this is not the location that we know.
    """

    attempt: Attempt
    about: CheckpointId | None


@dataclass(frozen=True, slots=True)
class CommitSinks:
    """Make the committables visible, sink by sink, in order; those that are visible already are skipped.

    The first time these are all that the manifest carries, afterwards those that are not known to be visible.
    → SinksCommitted or SinksFailed, with the same attempt and checkpoint.
    """

    attempt: Attempt
    checkpoint: CheckpointId
    committables: CommittablesBySink
    numbering: Numbering = UNNUMBERED
    """Which batches they are."""


@dataclass(frozen=True, slots=True)
class SweepSinks:
    """Abort what attempts before ``older_than`` prepared and ``keep`` does not name. → SinksSwept."""

    attempt: Attempt
    older_than: Attempt
    keep: CommittablesBySink
    numbering: Numbering = UNNUMBERED
    """Which batches come next."""


@dataclass(frozen=True, slots=True)
class Deploy:
    """Submit the barrier stage, restore enumerators and slots from ``manifest`` (None: from nothing), start discovery.

    → SplitsDiscovered per source, then SlotsReady; or AttemptFailed.
    """

    attempt: Attempt
    manifest: Manifest | None


@dataclass(frozen=True, slots=True)
class SendToSlots:
    """Send a control message; ``slots`` None: to all. Nothing is reported back."""

    message: SlotMessage
    slots: tuple[SlotIndex, ...] | None = None


@dataclass(frozen=True, slots=True)
class StoreManifest:
    """Create ``layout.manifest_key(manifest.ref)``. → ManifestStored, ManifestRefused (after a read-back) or ManifestUnknown."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class MarkCommitted:
    """Create ``layout.committed_key(ref)``. → CommittedMarked or MarkUnknown."""

    ref: ManifestRef


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the keys in this order, for at most ``timeout_ms``. → CleanupDone."""

    attempt: Attempt
    keys: tuple[str, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """Tell all slots to leave, stop discovery, cancel the job group if they do not. → SlotsFree."""

    attempt: Attempt
    clean: bool
    reason: str


@dataclass(frozen=True, slots=True)
class RequestDone:
    """The requested checkpoint is complete and its output is visible."""

    checkpoint: CheckpointId
    savepoint: str = ""
    """Where it was exported to, if it was."""


@dataclass(frozen=True, slots=True)
class RequestFailed:
    failure: Failure


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """Answer a person's ``checkpoint()``. Nothing is reported back."""

    token: str
    outcome: RequestDone | RequestFailed


@dataclass(frozen=True, slots=True)
class ReportCheckpoint:
    """News of a checkpoint for ``statistics.History.add``, the log and the progress display. Nothing is reported back."""

    report: CheckpointReport


@dataclass(frozen=True, slots=True)
class ExportSavepoint:
    """Copy the checkpoint to ``target``, without committables, its manifest last. → SavepointExported or SavepointFailed."""

    attempt: Attempt
    manifest: Manifest
    target: str
    drained: bool = False
    """The end of all input has closed every window: whoever starts from it must know."""


@dataclass(frozen=True, slots=True)
class ForgetSplits:
    """Splits of ``operator`` under ``below`` are done in a checkpoint whose output is visible: its enumerator may forget them.

    Advice, repeated with every commit: nothing is reported back, and an enumerator that keeps everything stays correct.
    """

    attempt: Attempt
    operator: OperatorId
    below: int


@dataclass(frozen=True, slots=True)
class Finished:
    """All input was read and committed."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A person stopped it; the last completed checkpoint is where the next start goes on."""


@dataclass(frozen=True, slots=True)
class Failed:
    failure: Failure


@dataclass(frozen=True, slots=True)
class Fenced:
    """Attempt ``by`` owns the pipeline now."""

    by: Attempt


Outcome: TypeAlias = Finished | Stopped | Failed | Fenced


@dataclass(frozen=True, slots=True)
class Finish:
    """The coordinator is done; it will ask for nothing more. Nothing is reported back."""

    outcome: Outcome


Effect: TypeAlias = (
    WriteClaim
    | ListLocation
    | WriteRestored
    | LookForClaim
    | CommitSinks
    | SweepSinks
    | Deploy
    | SendToSlots
    | StoreManifest
    | MarkCommitted
    | Delete
    | EndAttempt
    | AnswerRequest
    | ReportCheckpoint
    | ForgetSplits
    | ExportSavepoint
    | Finish
)
