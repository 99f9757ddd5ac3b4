"""How long a log has had nothing: what idleness is measured by."""

from __future__ import annotations


class Quiet:
    """Counts from the first time that the answer was "nothing" to the last. Time in which nobody asks, or nobody answers, does not
    count: behind a slow sink rows wait unread, and a silent broker has said nothing about what it has.
    """

    def __init__(self) -> None:
        self._since_ms: float | None = None
        self._answered_ms: float | None = None
        self.longest_pause_ms = 0.0
        """Between two of these answers."""

    def rows(self) -> None:
        """There were some."""
        self._since_ms = self._answered_ms = None
        self.longest_pause_ms = 0.0

    def nothing(self, now_ms: float) -> None:
        """The answer was that there are none."""
        if self._answered_ms is not None:
            self.longest_pause_ms = max(self.longest_pause_ms, now_ms - self._answered_ms)
        self._answered_ms = now_ms
        if self._since_ms is None:
            self._since_ms = now_ms

    def expect(self) -> None:
        """There were none for long before the restore: one answer is enough."""
        self._since_ms = float("-inf")

    def lasts(self, timeout_ms: float) -> bool:
        since_ms, answered_ms = self._since_ms, self._answered_ms
        return since_ms is not None and answered_ms is not None and answered_ms - since_ms >= timeout_ms
