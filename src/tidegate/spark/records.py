"""What became of one checkpoint, for people: everything the coordinator knows of it, in words and with wall-clock times.

Unlike ``CheckpointReport`` it can be stored, and read by a process that knows nothing of the query.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from tidegate.checkpoint.statistics import CheckpointReport
from tidegate.model.ids import Attempt, CheckpointId, SubtaskId
from tidegate.model.snapshot import PhaseTimes

RECORDS_MAX = 200


class SubtaskRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The snapshot of one subtask that acknowledged."""

    subtask: str
    """Stage and slot, ``1/0``."""
    start_delay_ms: float = 0.0
    """From the trigger until the first barrier arrived."""
    alignment_ms: float = 0.0
    """From the first barrier to the last."""
    sync_ms: float = 0.0
    async_ms: float = 0.0
    uploaded_bytes: int = 0
    state_bytes: int = 0
    in_flight_bytes: int = 0
    unaligned: bool = False


class LateRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A subtask that had not acknowledged when the checkpoint was given up."""

    subtask: str
    phase: str


class CheckpointRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One checkpoint. Durations of subtasks are summed up by their longest, sizes by their sum."""

    id: CheckpointId
    attempt: Attempt
    kind: str
    state: str
    """``completed``, ``committed`` or ``failed``."""
    reason: str = ""
    """Of a failure, in words."""
    triggered_at: str
    """By the driver's wall clock, ISO 8601, UTC."""
    trigger_delay_ms: int = 0
    """From the moment it was due to its trigger."""
    duration_ms: int
    """From the trigger until it was complete or given up."""
    commit_ms: int | None = None
    """From then until its output was visible; None: that has not happened, or not been seen."""
    start_delay_ms: float = 0.0
    alignment_ms: float = 0.0
    sync_ms: float = 0.0
    async_ms: float = 0.0
    state_bytes: int = 0
    uploaded_bytes: int = 0
    in_flight_bytes: int = 0
    unaligned: bool = False
    """Of at least one subtask."""
    subtasks: tuple[SubtaskRecord, ...] = ()
    late: tuple[LateRecord, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values: fit for JSON and data frames."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return {**plain, "subtasks": list(plain["subtasks"]), "late": list(plain["late"])}


def record_of(report: CheckpointReport, wall_ms: float, now_ms: int) -> CheckpointRecord:
    """``wall_ms`` and ``now_ms``: one moment on the wall clock and on the coordinator's monotonic one."""
    times = [times for _, times in report.acks]
    reason = "" if report.reason is None else report.reason.value + (f" ({report.detail})" if report.detail else "")
    return CheckpointRecord(
        id=report.checkpoint,
        attempt=report.attempt,
        kind=report.kind.value,
        state=report.outcome.value,
        reason=reason,
        triggered_at=iso(wall_ms + report.triggered_ms - now_ms),
        trigger_delay_ms=report.trigger_delay_ms,
        duration_ms=report.duration_ms,
        commit_ms=report.commit_ms,
        start_delay_ms=max((one.start_delay_ms for one in times), default=0.0),
        alignment_ms=max((one.alignment_ms for one in times), default=0.0),
        sync_ms=max((one.sync_ms for one in times), default=0.0),
        async_ms=max((one.async_ms for one in times), default=0.0),
        state_bytes=report.state_bytes,
        uploaded_bytes=report.uploaded_bytes,
        in_flight_bytes=sum(one.in_flight_bytes for one in times),
        unaligned=any(one.unaligned for one in times),
        subtasks=tuple(_subtask(subtask, one) for subtask, one in report.acks),
        late=tuple(LateRecord(subtask=str(one.subtask), phase=one.phase.value) for one in report.late),
    )


def merged(records: Iterable[CheckpointRecord]) -> tuple[CheckpointRecord, ...]:
    """At most ``RECORDS_MAX``, the newest, oldest first; of several about one checkpoint the last one counts."""
    by_ref: dict[tuple[Attempt, CheckpointId], CheckpointRecord] = {}
    for record in records:
        by_ref[record.attempt, record.id] = record
    # By attempt first: a fenced attempt may have used numbers that its successor used again.
    return tuple(by_ref[ref] for ref in sorted(by_ref))[-RECORDS_MAX:]


def iso(wall_ms: float) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _subtask(subtask: SubtaskId, times: PhaseTimes) -> SubtaskRecord:
    return SubtaskRecord(subtask=str(subtask), **msgspec.structs.asdict(times))
