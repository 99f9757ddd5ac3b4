"""How many rows to process in one call, so that the loop is soon back: barriers, credit and the driver wait for it meanwhile.

A call is taken to cost so much in itself and so much per row, as seen in the last few calls. The first cost is why a slow call is not
always cut shorter: a function that takes 100 ms however few rows it gets would be called ever more often, for ever fewer rows.
"""

from __future__ import annotations

TARGET_MS = 50.0
"""One call should not take longer."""

ROWS_AT_START = 8
"""Until the pace is known. Fast operators double it with every call."""

ROWS_REMEMBERED = 256
"""So many are tried again at once, if so many were fast before, however few came lately."""

MEMORY = 0.5
"""What an observation counts when the next one comes: a few calls later it is forgotten."""

SPREAD_MIN = 0.01
"""Row counts that vary less, relative to their mean, say nothing about the cost of a row."""

ALONE_MAX = 50
"""After so many calls with a single row two are tried: calls of one size never tell what another row would cost, and a few slow
calls on a busy machine would make it one row at a time for ever."""


class Pace:
    """``rows_max``: at most so many rows in the next call. Without measurements it stays at the ceiling."""

    __slots__ = ("_alone", "_ceiling", "_sum_ms", "_sum_rows", "_sum_rows_ms", "_sum_square", "_weight", "rows_max")

    def __init__(self, rows_ceiling: int, *, measured: bool) -> None:
        self._ceiling = rows_ceiling
        self.rows_max = min(ROWS_AT_START, rows_ceiling) if measured else rows_ceiling
        self._alone = 0
        self._weight = self._sum_rows = self._sum_ms = self._sum_square = self._sum_rows_ms = 0.0

    def observed(self, rows: int, took_ms: float) -> None:
        """A call with ``rows`` (at least one) took so long."""
        # Relative errors count, so a large call of long ago does not outweigh the small ones since.
        weight = 1.0 / (rows * rows)
        self._weight = MEMORY * self._weight + weight
        self._sum_rows = MEMORY * self._sum_rows + weight * rows
        self._sum_ms = MEMORY * self._sum_ms + weight * took_ms
        self._sum_square = MEMORY * self._sum_square + weight * rows * rows
        self._sum_rows_ms = MEMORY * self._sum_rows_ms + weight * rows * took_ms
        # Never more than twice of what was tried, and not for ever what was tried once: an estimate is no proof.
        most = min(self._ceiling, max(2 * rows, self.rows_max // 2, min(self.rows_max, ROWS_REMEMBERED)))
        row_ms = self._row_ms()
        if row_ms * most > 0:
            call_ms = max(0.0, (self._sum_ms - row_ms * self._sum_rows) / self._weight)
            # Where the call itself takes longer than it should, rows take at least as long again: half of the time is for them.
            most = min(most, int(max(TARGET_MS - call_ms, call_ms) / row_ms))
        self._alone = self._alone + 1 if rows == 1 else 0
        self.rows_max = min(self._ceiling, max(2 if self._alone and self._alone % ALONE_MAX == 0 else 1, most))

    def _row_ms(self) -> float:
        """Cost of one more row: the slope of a line through the observations, if they tell, and at most the average."""
        average_ms = self._sum_ms / self._sum_rows
        spread = self._weight * self._sum_square - self._sum_rows**2
        if spread < SPREAD_MIN * self._sum_rows**2:
            return average_ms
        slope_ms = (self._weight * self._sum_rows_ms - self._sum_rows * self._sum_ms) / spread
        return min(max(0.0, slope_ms), average_ms)
