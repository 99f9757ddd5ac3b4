"""The monotonic clock of one process: its zero is its own, and a suspended machine makes it step forward."""

from __future__ import annotations

from tidegate.testing.simulation.agenda import Agenda

SKEW_MS_MAX = 600_000
JUMP_MS = (2_000, 300_000)


class ProcessClock:
    """Never goes back. Differs from the world's time, and from any other process's, by whatever it likes."""

    def __init__(self, agenda: Agenda, skew_ms: int = 0) -> None:
        self._agenda = agenda
        self._ahead_ms = skew_ms

    def now_ms(self) -> int:
        return self._agenda.now_ms + self._ahead_ms

    def jump(self, forward_ms: int) -> None:
        self._ahead_ms += forward_ms
