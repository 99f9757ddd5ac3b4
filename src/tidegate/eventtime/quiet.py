"""How long a reader has had nothing: what idleness is measured by."""

from __future__ import annotations


class Quiet:
    """Counts from the first time that somebody asked for rows and got none to the last. Time in which nobody asks does not count: behind
    a slow sink rows wait unread, and whoever has some is not idle.
    """

    def __init__(self) -> None:
        self._since_ms: float | None = None
        self._asked_ms = 0.0

    def rows(self) -> None:
        """There were some."""
        self._since_ms = None

    def nothing(self, now_ms: float) -> None:
        """There were none."""
        self._asked_ms = now_ms
        if self._since_ms is None:
            self._since_ms = now_ms

    def always(self) -> None:
        """As if there had been none for ever: idle since before the restore."""
        self._since_ms = float("-inf")

    def lasts(self, timeout_ms: float) -> bool:
        return self._since_ms is not None and self._asked_ms - self._since_ms >= timeout_ms

    def lasts_at_ms(self, timeout_ms: float) -> float:
        """When it will have lasted so long, if nothing comes; infinite while it has not begun."""
        return float("inf") if self._since_ms is None else self._since_ms + timeout_ms
