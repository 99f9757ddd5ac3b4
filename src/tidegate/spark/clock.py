"""The one clock of the shell. It never goes back and says nothing about the time of day."""

from __future__ import annotations

import time


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
