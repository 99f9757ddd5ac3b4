"""From the largest event time that counts to the watermark, as Spark does it: whole milliseconds."""

from __future__ import annotations

MILLISECOND_US = 1_000


def watermark_at(largest_us: int, delay_us: int) -> int:
    """Microseconds below the millisecond do not count: a row 300 µs behind it is still on time."""
    return largest_us // MILLISECOND_US * MILLISECOND_US - delay_us
