"""How many rows to process in one call, so that the loop is soon back: barriers, credit and the driver wait for it meanwhile.

A call is taken to cost so much in itself and so much per row, as seen in the last few calls. The first cost is why a slow call is not
always cut shorter: a function that takes 100 ms however few rows it gets would be called ever more often, for ever fewer rows.
"""

from __future__ import annotations

TARGET_MS = 50.0
"""One call should not take longer."""

ROWS_AT_START = 256
"""Until the pace is known. Fast operators double it with every call."""

MEMORY = 0.5
"""What an observation counts when the next one comes: a few calls later it is forgotten."""

SPREAD_MIN = 0.01
"""Row counts that vary less, relative to their square, say nothing about the cost of a row."""


class Pace:
    """``rows_max``: at most so many rows in the next call. Without measurements it stays at the ceiling."""

    __slots__ = ("_ceiling", "_sum_ms", "_sum_rows", "_sum_rows_ms", "_sum_square", "_weight", "rows_max")

    def __init__(self, rows_ceiling: int, *, measured: bool) -> None:
        self._ceiling = rows_ceiling
        self.rows_max = min(ROWS_AT_START, rows_ceiling) if measured else rows_ceiling
        self._weight = self._sum_rows = self._sum_ms = self._sum_square = self._sum_rows_ms = 0.0

    def observed(self, rows: int, took_ms: float) -> None:
        """A call with ``rows`` (at least one) took so long."""
        self._weight = MEMORY * self._weight + 1
        self._sum_rows = MEMORY * self._sum_rows + rows
        self._sum_ms = MEMORY * self._sum_ms + took_ms
        self._sum_square = MEMORY * self._sum_square + rows * rows
        self._sum_rows_ms = MEMORY * self._sum_rows_ms + rows * took_ms
        # Never more than twice of what was tried: an estimate is no proof.
        most = min(self._ceiling, max(self.rows_max, 2 * rows))
        row_ms = self._row_ms()
        if row_ms * most > 0:
            call_ms = max(0.0, (self._sum_ms - row_ms * self._sum_rows) / self._weight)
            # Where the call itself takes longer than it should, rows take at least as long again: half of the time is for them.
            most = min(most, int(max(TARGET_MS - call_ms, call_ms) / row_ms))
        self.rows_max = max(1, most)

    def _row_ms(self) -> float:
        """Cost of one more row: the slope of a line through the observations, if they tell, and at most the average."""
        average_ms = self._sum_ms / self._sum_rows
        spread = self._weight * self._sum_square - self._sum_rows**2
        if spread < SPREAD_MIN * self._sum_rows**2:
            return average_ms
        slope_ms = (self._weight * self._sum_rows_ms - self._sum_rows * self._sum_ms) / spread
        return min(max(0.0, slope_ms), average_ms)
