"""When a reader of logs tells the driver where its event time stands: other streams and sources may go by it."""

from __future__ import annotations

PAUSE_MS = 200.0
REPEAT_MS = 2_000.0
"""A report may be lost: the last one is sent again after this long."""


class TimeReports:
    def __init__(self) -> None:
        self._told: tuple[int, bool] | None = None
        self._told_ms = float("-inf")
        self._changed = False

    def due(self, now: tuple[int, bool] | None, now_ms: float) -> tuple[int, bool] | None:
        """What is to be told now: (watermark, whether there is nothing to tell it by)."""
        if now is None:
            return None
        self._changed = now != self._told
        if now_ms < self.next_ms:
            return None
        self._told, self._told_ms, self._changed = now, now_ms, False
        return now

    @property
    def next_ms(self) -> float:
        """When to ask again, if nothing happens before."""
        if self._told is None:
            return float("-inf") if self._changed else float("inf")
        return self._told_ms + (PAUSE_MS if self._changed else REPEAT_MS)
