"""How many rows may be under way in a channel, so that its reader takes them in within a given time.

Credit bounds memory; a reader a thousand times slower than its writer still finds minutes of work in as many bytes, and every barrier
stands behind it. The writer sees how long each batch was under way and how many rows were ahead of it: that is the reader's pace, by one
clock. A light stream is never limited: what it sends comes back at once.
"""

from __future__ import annotations

ROWS_MIN = 64
"""Less would only cost: batches are never cut smaller."""

ROWS_AT_START = 256
"""Until the pace is known. A fast reader doubles it with every batch it takes."""

BATCHES_PER_WINDOW = 4
"""A window of rows travels in at least so many batches: the reader works on one while others are on their way."""


class Window:
    """Grows up to ``rows_max`` while batches are taken in time, and shrinks to what can be taken when they are not."""

    __slots__ = ("_rows_max", "_time_max_ms", "rows")

    def __init__(self, time_max_ms: float, rows_max: int) -> None:
        self._time_max_ms = time_max_ms
        self._rows_max = rows_max
        self.rows = min(ROWS_AT_START, rows_max) if time_max_ms > 0 else rows_max

    @property
    def batch_rows(self) -> int:
        return max(ROWS_MIN, self.rows // BATCHES_PER_WINDOW)

    def consumed(self, rows: int, rows_ahead: int, took_ms: float) -> None:
        """A batch of ``rows`` was taken by its reader ``took_ms`` after it was sent, with ``rows_ahead`` under way before it."""
        if self._time_max_ms <= 0:
            return
        if took_ms > self._time_max_ms:
            in_time = int((rows + rows_ahead) * self._time_max_ms / took_ms)
            self.rows = max(ROWS_MIN, min(self.rows, in_time))
        elif self.rows < self._rows_max:
            # Its own rows count for nothing: they are taken before they are worked on.
            in_time = int(rows_ahead * self._time_max_ms / max(took_ms, 0.001))
            self.rows = min(self._rows_max, max(self.rows, min(2 * self.rows, in_time)))
