"""The checkpoints a source subtask was asked for and has not taken yet, oldest first."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass

from tidegate.model.elements import Barrier
from tidegate.model.ids import CheckpointId
from tidegate.runtime.alignment import NO_CHECKPOINT


@dataclass(frozen=True, slots=True)
class Trigger:
    barrier: Barrier
    since_ms: float
    """When this subtask first heard of it, by its own clock."""


class Triggers:
    """Barriers leave in the order of their checkpoints, each at most once, however the triggers are delivered."""

    def __init__(self) -> None:
        self._waiting: list[Trigger] = []
        self._answered: set[CheckpointId] = set()
        """Taken, cancelled or refused, and newer than ``_settled``: asked for again, they change nothing."""
        self._taken = NO_CHECKPOINT
        self._settled = NO_CHECKPOINT

    def add(self, barrier: Barrier, now_ms: float) -> bool:
        """False, once: a newer barrier has left already, so this one never can."""
        checkpoint = barrier.checkpoint
        if checkpoint <= self._settled or checkpoint in self._answered:
            return True
        if checkpoint < self._taken:
            self._answered.add(checkpoint)
            return False
        if all(one.barrier.checkpoint != checkpoint for one in self._waiting):
            insort(self._waiting, Trigger(barrier, now_ms), key=lambda one: one.barrier.checkpoint)
        return True

    @property
    def next(self) -> Trigger | None:
        return self._waiting[0] if self._waiting else None

    def take(self) -> Trigger:
        trigger = self._waiting.pop(0)
        self._taken = trigger.barrier.checkpoint
        self._answered.add(self._taken)
        return trigger

    def cancel(self, checkpoint: CheckpointId) -> bool:
        """Whether its barrier may be out already, so that others have to hear of it."""
        self._waiting = [one for one in self._waiting if one.barrier.checkpoint != checkpoint]
        out = checkpoint in self._answered
        if checkpoint > self._settled:
            self._answered.add(checkpoint)
        return out

    def settle(self, checkpoint: CheckpointId) -> None:
        """It is complete: older ones are over, and nobody asks for it again but by repetition."""
        self._settled = max(self._settled, checkpoint)
        self._answered = {one for one in self._answered if one > self._settled}
        self._waiting = [one for one in self._waiting if one.barrier.checkpoint > self._settled]
