"""When generated rows are due: a wall-clock start that survives restarts, read through a monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Pace:
    """Milliseconds since ``started_ms`` (wall clock). The wall clock is asked once: its later jumps change nothing."""

    def __init__(self, started_ms: int, wall: Callable[[], int] = wall_ms) -> None:
        self._elapsed_at_open_ms = max(0, wall() - started_ms)
        self._opened_ms: int | None = None

    def elapsed_ms(self, now_ms: int) -> int:
        if self._opened_ms is None:
            self._opened_ms = now_ms
        return self._elapsed_at_open_ms + now_ms - self._opened_ms
