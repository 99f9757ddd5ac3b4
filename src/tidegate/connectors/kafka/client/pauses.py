"""How long to wait before something is tried again."""

from __future__ import annotations

FIRST_SECONDS, SECONDS_MAX = 0.02, 1.0


class Pauses:
    """Each is twice as long as the one before it, up to a limit."""

    def __init__(self, seconds_max: float = SECONDS_MAX) -> None:
        self._seconds_max = seconds_max
        self.begin_again()

    def begin_again(self) -> None:
        """It went well: the next trouble is a new one."""
        self._next_s = FIRST_SECONDS

    def next_s(self) -> float:
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._seconds_max)
        return pause_s
