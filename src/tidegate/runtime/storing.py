"""Snapshots handed over to be stored, and how long that may take."""

from __future__ import annotations

from tidegate.model.ids import CheckpointId, SubtaskId
from tidegate.runtime.effects import Persist


class Storing:
    """One entry per ``Persist`` that has not been answered."""

    def __init__(self, timeout_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._until_ms: dict[tuple[CheckpointId, SubtaskId], float] = {}

    def begun(self, persist: Persist, now_ms: float) -> None:
        self._until_ms[persist.checkpoint, persist.subtask] = now_ms + self._timeout_ms

    def answered(self, checkpoint: CheckpointId, subtask: SubtaskId) -> None:
        self._until_ms.pop((checkpoint, subtask), None)

    def overdue(self, now_ms: float) -> tuple[tuple[CheckpointId, SubtaskId], ...]:
        """Those that took too long. Each is reported once: an answer that still comes is too late."""
        late = tuple(one for one, until_ms in self._until_ms.items() if now_ms >= until_ms)
        for one in late:
            del self._until_ms[one]
        return late

    @property
    def next_due_ms(self) -> float:
        return min(self._until_ms.values(), default=float("inf"))
