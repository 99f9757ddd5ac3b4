"""What became of each checkpoint: when, how long, how big, and who was late. Built by the coordinator, kept by the shell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from tidegate.model.elements import CheckpointKind
from tidegate.model.ids import Attempt, CheckpointId, StageId, SubtaskId
from tidegate.model.messages import SubtaskAcked
from tidegate.model.snapshot import PhaseTimes

HISTORY_MAX = 100


class Outcome(Enum):
    COMPLETED = "completed"
    """The manifest is stored and passed its look; commits may still run."""
    COMMITTED = "committed"
    FAILED = "failed"


class FailureReason(Enum):
    """Why a checkpoint was given up. ``counts``: towards the failures in a row that end an attempt."""

    TIMED_OUT = "not every subtask acknowledged in time"
    DECLINED = "a subtask was not ready"
    UPLOAD_FAILED = "a subtask could not store its snapshot"
    UNCONFIRMED_CHUNK = "a subtask named a chunk of a checkpoint it should not build upon"
    STORE_UNKNOWN = "the store did not say whether the manifest was written"
    SUBSUMED = "a later checkpoint overtook it"
    ATTEMPT_ENDED = "the attempt ended"

    @property
    def counts(self) -> bool:
        match self:
            case FailureReason.TIMED_OUT | FailureReason.UPLOAD_FAILED | FailureReason.STORE_UNKNOWN:
                return True
            # A subtask that starts slowly, or that has not heard of a completion yet, is no sign of trouble.
            case FailureReason.DECLINED | FailureReason.UNCONFIRMED_CHUNK:
                return False
            case FailureReason.SUBSUMED | FailureReason.ATTEMPT_ENDED:
                return False


class Phase(Enum):
    """How far a subtask without acknowledgement got, as seen from the others."""

    WAITS_FOR_BARRIER = "waits for barriers of a late subtask upstream"
    SNAPSHOT_OR_UPLOAD = "has all barriers on their way; aligning, taking or uploading its snapshot"


@dataclass(frozen=True, slots=True)
class LateSubtask:
    subtask: SubtaskId
    phase: Phase

    def __str__(self) -> str:
        return f"subtask {self.subtask}: {self.phase.value}"


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """One checkpoint. Reports of the same checkpoint follow each other: completed, then committed."""

    checkpoint: CheckpointId
    attempt: Attempt
    kind: CheckpointKind
    outcome: Outcome
    triggered_ms: int
    ended_ms: int
    """When it reached ``outcome``, on the same monotonic clock."""
    acks: tuple[tuple[SubtaskId, PhaseTimes], ...] = ()
    reason: FailureReason | None = None
    detail: str = ""
    late: tuple[LateSubtask, ...] = ()
    committed_ms: int | None = None
    trigger_delay_ms: int = 0
    """From the moment it was due to its trigger."""

    @property
    def duration_ms(self) -> int:
        return self.ended_ms - self.triggered_ms

    @property
    def commit_ms(self) -> int | None:
        """From completion until the output was visible; None: not yet."""
        return None if self.committed_ms is None else self.committed_ms - self.ended_ms

    @property
    def uploaded_bytes(self) -> int:
        return sum(times.uploaded_bytes for _, times in self.acks)

    @property
    def state_bytes(self) -> int:
        return sum(times.state_bytes for _, times in self.acks)

    @property
    def in_flight_bytes(self) -> int:
        """Rows that unaligned barriers overtook."""
        return sum(times.in_flight_bytes for _, times in self.acks)

    @property
    def unaligned(self) -> bool:
        """At some subtask the barrier overtook rows."""
        return any(times.unaligned for _, times in self.acks)

    def __str__(self) -> str:
        head = f"checkpoint {self.checkpoint} ({self.kind.value}) {self.outcome.value} after {self.duration_ms} ms"
        if self.reason is None:
            return f"{head}, {self.state_bytes} bytes of state, {self.uploaded_bytes} uploaded"
        late = "; ".join(str(one) for one in self.late)
        return (
            f"{head}: {self.reason.value}"
            + (f" ({self.detail})" if self.detail else "")
            + (f"; {late}" if late else "")
        )


@dataclass(frozen=True, slots=True)
class History:
    """The last checkpoints, oldest first, and totals since the driver started."""

    reports: tuple[CheckpointReport, ...] = ()
    completed: int = 0
    failed: int = 0
    undeletable: int = 0

    def add(self, report: CheckpointReport) -> History:
        match report.outcome:
            case Outcome.COMMITTED:
                return replace(self, reports=tuple(_merge(old, report) for old in self.reports))
            case Outcome.COMPLETED:
                return replace(self, reports=(*self.reports, report)[-HISTORY_MAX:], completed=self.completed + 1)
            case Outcome.FAILED:
                # One that was overtaken by a better one is no failure.
                failed = 0 if report.reason is FailureReason.SUBSUMED else 1
                return replace(self, reports=(*self.reports, report)[-HISTORY_MAX:], failed=self.failed + failed)

    def last_completed(self) -> CheckpointReport | None:
        return next((report for report in reversed(self.reports) if report.outcome is not Outcome.FAILED), None)


def _merge(old: CheckpointReport, news: CheckpointReport) -> CheckpointReport:
    if (old.checkpoint, old.attempt) != (news.checkpoint, news.attempt):
        return old
    return replace(old, outcome=Outcome.COMMITTED, committed_ms=news.ended_ms)


def acked_times(acks: tuple[SubtaskAcked, ...]) -> tuple[tuple[SubtaskId, PhaseTimes], ...]:
    return tuple((ack.subtask, ack.times) for ack in acks)


def late_subtasks(
    subtasks: tuple[SubtaskId, ...],
    upstream: tuple[tuple[StageId, tuple[StageId, ...]], ...],
    acks: tuple[SubtaskAcked, ...],
) -> tuple[LateSubtask, ...]:
    """Who has not acknowledged, and whether it is to blame or only waits for somebody upstream that is."""
    arrived = {ack.subtask for ack in acks}
    late = tuple(subtask for subtask in subtasks if subtask not in arrived)
    late_stages = {subtask.stage for subtask in late}
    feeds = dict(upstream)
    return tuple(
        LateSubtask(
            subtask,
            Phase.WAITS_FOR_BARRIER
            if late_stages.intersection(feeds.get(subtask.stage, ()))
            else Phase.SNAPSHOT_OR_UPLOAD,
        )
        for subtask in late
    )
