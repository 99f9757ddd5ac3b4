"""From the largest event time that counts to the watermark, as Spark does it: whole milliseconds."""

from __future__ import annotations

from tidegate.model.elements import WATERMARK_MAX_US

MILLISECOND_US = 1_000
LATEST_US = WATERMARK_MAX_US - MILLISECOND_US


def watermark_at(largest_us: int, delay_us: int) -> int:
    """Microseconds below the millisecond do not count: a row 300 µs behind it is still on time.

    No row, however far in the future, makes the watermark that ends a drained stream.
    """
    return min(largest_us // MILLISECOND_US * MILLISECOND_US - delay_us, LATEST_US)
