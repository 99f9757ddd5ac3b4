"""When a checkpoint starts: on the interval, on request, or because all input has ended. Pure, on a monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.model.config import QueryConfig
from tidegate.model.elements import CheckpointKind

PAUSE_AFTER_FAILURE_MS = 1_000


@dataclass(frozen=True, slots=True)
class Trigger:
    """``due_ms``: when the next periodic checkpoint starts. ``requests``: people waiting for one that starts after they asked."""

    due_ms: int
    requests: tuple[str, ...] = ()
    not_before_ms: int | None = None
    """After a failed checkpoint nothing starts before this moment, whatever is due: a subtask that declines must not be stormed."""
    pause_until_ms: int | None = None
    """After any checkpoint no periodic one starts before this moment: the rest of the time belongs to the rows."""

    def requested(self, token: str) -> Trigger:
        return self if token in self.requests else replace(self, requests=(*self.requests, token))

    def kind_due(
        self, now_ms: int, interval_ms: int, *, all_exhausted: bool, savepoint: bool = False, min_pause_ms: int = 0
    ) -> CheckpointKind | None:
        """What should start now, if anything may. The final one answers every request as well, and so does a savepoint."""
        # A clock that steps back must not stall anything: no moment lies further ahead than one interval.
        ahead_ms = now_ms + interval_ms
        if self.not_before_ms is not None and now_ms < self.not_before_ms <= ahead_ms:
            return None
        if all_exhausted:
            return CheckpointKind.FINAL
        if savepoint:
            return CheckpointKind.SAVEPOINT
        if self.requests:
            return CheckpointKind.MANUAL
        if self.pause_until_ms is not None and now_ms < self.pause_until_ms <= now_ms + min_pause_ms:
            return None
        return CheckpointKind.PERIODIC if now_ms >= self.due_ms or self.due_ms > ahead_ms else None

    def triggered(self, now_ms: int, interval_ms: int) -> Trigger:
        """A checkpoint started: it answers all requests so far, and all missed ticks collapse into it."""
        on_grid_ms = self.due_ms + interval_ms
        return Trigger(on_grid_ms if now_ms < on_grid_ms <= now_ms + interval_ms else now_ms + interval_ms)

    def ended(self, now_ms: int, min_pause_ms: int) -> Trigger:
        """A checkpoint completed or failed: the least pause is counted from its end, however long it took."""
        return replace(self, pause_until_ms=now_ms + min_pause_ms) if min_pause_ms else self

    def failed(self, now_ms: int, interval_ms: int) -> Trigger:
        return replace(self, not_before_ms=now_ms + min(interval_ms, PAUSE_AFTER_FAILURE_MS))

    def repaced(self, before_ms: int, after_ms: int) -> Trigger:
        """The interval has changed; it is counted from the last trigger as if it had been the new one all along."""
        return replace(self, due_ms=self.due_ms + after_ms - before_ms)

    def delay_ms(self, now_ms: int, kind: CheckpointKind) -> int:
        """For how long a periodic checkpoint that starts now has been due."""
        return max(now_ms - self.due_ms, 0) if kind is CheckpointKind.PERIODIC else 0


def interval_ms(config: QueryConfig, *, far_behind: bool) -> int:
    """Time between two periodic triggers. While sources catch up, checkpoints may be rarer: rows matter more."""
    return (config.backlog_checkpoint_interval_ms if far_behind else 0) or config.checkpoint_interval_ms


def at_start(now_ms: int, interval_ms: int, requests: tuple[str, ...], *, restored: bool) -> Trigger:
    """After a restore the first checkpoint follows at once: the sooner it completes, the less a second failure replays."""
    return Trigger(now_ms if restored else now_ms + interval_ms, requests)
