"""What a running query looks like from outside: written by the job master's loop, read by any thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace

from tidegate.checkpoint.effects import Outcome
from tidegate.checkpoint.statistics import CheckpointReport, History
from tidegate.model.ids import Attempt, SlotIndex
from tidegate.model.messages import OperatorMetrics, SlotProgress

RECOVERIES_MAX = 100
NO_ATTEMPT = Attempt(0)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The phases of one restart, in milliseconds after the failure was detected; None: not reached yet."""

    attempt: Attempt
    """The attempt that failed."""
    reason: str
    detected_ms: int
    """By the monotonic clock."""
    phases: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"attempt {self.attempt}: " + ", ".join(f"{phase} {after_ms} ms" for phase, after_ms in self.phases)


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """One moment of a query."""

    phase: str = "starting"
    attempt: Attempt = NO_ATTEMPT
    slots: dict[SlotIndex, SlotProgress] = field(default_factory=dict)
    pids: dict[SlotIndex, int] = field(default_factory=dict)
    history: History = field(default_factory=History)
    recoveries: tuple[Recovery, ...] = ()
    restarts: int = 0
    outcome: Outcome | None = None
    asked: int = 0
    """The newest request for reports of all slots."""
    unassigned: bool = True
    """When it was sent, some input was known that no slot had been given, or none had been looked for yet."""
    resting: bool = False
    """When it was sent, everything that was found had been read and counted for event time, and the slots had been told so."""
    taken_s: float = 0.0
    """When the slots last reported, by the wall clock."""

    def operators(self) -> dict[str, OperatorMetrics]:
        """Counters per operator, summed over the slots; the watermark is the minimum, busy time the maximum."""
        merged: dict[str, OperatorMetrics] = {}
        for slot in sorted(self.slots):
            for metrics in self.slots[slot].metrics:
                known = merged.get(metrics.operator)
                merged[metrics.operator] = metrics if known is None else _add(known, metrics)
        return merged


def _add(a: OperatorMetrics, b: OperatorMetrics) -> OperatorMetrics:
    watermarks = [mark for mark in (a.watermark_us, b.watermark_us) if mark is not None]
    return OperatorMetrics(
        operator=a.operator,
        rows_in=a.rows_in + b.rows_in,
        rows_out=a.rows_out + b.rows_out,
        late_rows=a.late_rows + b.late_rows,
        late_rows_restored=a.late_rows_restored + b.late_rows_restored,
        rejected_rows=a.rejected_rows + b.rejected_rows,
        state_rows=a.state_rows + b.state_rows,
        state_bytes=a.state_bytes + b.state_bytes,
        watermark_us=min(watermarks, default=None),
        busy_ms=max(a.busy_ms, b.busy_ms),
        backlog=a.backlog + b.backlog,
    )


class JobStatus:
    """Thread-safe. ``changed`` is notified at every change."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._now = JobSnapshot()
        self._recoveries: deque[Recovery] = deque(maxlen=RECOVERIES_MAX)

    def now(self) -> JobSnapshot:
        with self.changed:
            return self._now

    def peek(self) -> JobSnapshot:
        """The same for whoever holds ``changed`` already."""
        return self._now

    def update(self, **fields: object) -> None:
        with self.changed:
            self._now = replace(self._now, **fields)  # pyright: ignore[reportArgumentType]
            self.changed.notify_all()

    def on_progress(self, progress: SlotProgress) -> None:
        """Slots of one attempt at a time: what those of two have counted must not be added up."""
        with self.changed:
            known = self._now.slots.values()
            if any(one.attempt > progress.attempt for one in known):
                return
            slots = {one.slot: one for one in known if one.attempt == progress.attempt}
            slots[progress.slot] = progress
            self._now = replace(self._now, slots=slots, taken_s=time.time())
            self.changed.notify_all()

    def on_checkpoint(self, report: CheckpointReport) -> CheckpointReport:
        """All that is known of that checkpoint now."""
        with self.changed:
            history = self._now.history.add(report)
            self._now = replace(self._now, history=history)
            self.changed.notify_all()
        of_it = (one for one in reversed(history.reports) if one.checkpoint == report.checkpoint)
        return next((one for one in of_it if one.attempt == report.attempt), report)

    def on_failure(self, attempt: Attempt, reason: str, now_ms: int) -> None:
        """The first reason of an attempt counts: what follows it are consequences."""
        with self.changed:
            if self._recoveries and self._recoveries[-1].attempt == attempt:
                return
            self._recoveries.append(Recovery(attempt, reason, now_ms, (("detected", 0),)))
            self._now = replace(self._now, recoveries=tuple(self._recoveries), phase="recovering", slots={})
            self.changed.notify_all()

    def on_recovery_phase(self, phase: str, now_ms: int) -> Recovery | None:
        """Notes that the restart under way reached ``phase``; None when none is under way or it was there before."""
        with self.changed:
            if not self._recoveries or any(
                name in (phase, "first checkpoint") for name, _ in self._recoveries[-1].phases
            ):
                return None
            last = self._recoveries[-1]
            last = replace(last, phases=(*last.phases, (phase, now_ms - last.detected_ms)))
            self._recoveries[-1] = last
            restarts = self._now.restarts + (phase == "claimed")
            self._now = replace(self._now, recoveries=tuple(self._recoveries), restarts=restarts)
            return last
