"""What happens to a pipeline, written down for people: the log, the status, the history of checkpoints."""

from __future__ import annotations

import logging

from tidegate.checkpoint.events import AttemptFailed, ClaimWritten, Event, SinksSwept, SlotsFree, SlotsReady
from tidegate.checkpoint.statistics import CheckpointReport, Outcome
from tidegate.model.ids import SlotIndex
from tidegate.spark.history import HistoryKeeper
from tidegate.spark.status import JobStatus

log = logging.getLogger("tidegate.driver")


class Journal:
    """Every phase of a restart is written with its time after the failure was detected."""

    def __init__(self, status: JobStatus, history: HistoryKeeper) -> None:
        self._status = status
        self._history = history

    def on_event(self, event: Event, pids: dict[SlotIndex, int]) -> None:
        """``pids``: of the slots that run now."""
        match event:
            case AttemptFailed(now_ms, attempt, failure):
                log.warning("attempt %s failed: [%s] %s", attempt, failure.code, failure.message.splitlines()[0])
                self._status.on_failure(attempt, failure.message, now_ms)
            case SlotsFree(now_ms):
                self._status.on_recovery_phase("ended", now_ms)
            case ClaimWritten(now_ms, attempt):
                self._status.update(attempt=attempt)
                self._status.on_recovery_phase("claimed", now_ms)
            case SlotsReady(now_ms):
                self._status.on_recovery_phase("restored", now_ms)
                self._status.update(phase="running", pids=pids)
            case SinksSwept(_, attempt, problems):
                for problem in problems:
                    log.warning(
                        "attempt %s cannot clean up after those before it (tried again later): %s", attempt, problem
                    )
            case _:
                pass

    def on_report(self, report: CheckpointReport) -> None:
        log.info("%s", report)
        self._history.on_report(self._status.on_checkpoint(report))
        if report.outcome is Outcome.COMPLETED:
            recovery = self._status.on_recovery_phase("first checkpoint", report.ended_ms)
            if recovery is not None:
                log.info("recovered, %s", recovery)
