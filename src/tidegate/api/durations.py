"""Durations as PySpark users write them: ``"1 second"``, ``"500 milliseconds"``, ``"1 minute 30 seconds"``."""

from __future__ import annotations

import re

from tidegate.model.errors import InvalidQuery

_UNITS_MS = {
    "millisecond": 1,
    "ms": 1,
    "second": 1_000,
    "s": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


def parse_duration_ms(text: object, what: str) -> int:
    """Milliseconds of a duration; ``what`` names the option or argument in the error."""
    if isinstance(text, str):
        words = text.strip().lower().removeprefix("interval").strip()
        parts = _PART.findall(words)
        total_ms = 0.0
        # Everything between the parts must be space: "1 second and a half" is an error, not one second.
        readable = bool(parts) and _PART.sub("", words).strip() == ""
        for number, unit in parts:
            factor = _UNITS_MS.get(unit) or _UNITS_MS.get(unit.removesuffix("s"))
            readable = readable and factor is not None
            total_ms += float(number) * (factor or 0)
        if readable and total_ms >= 1:
            return round(total_ms)
    raise InvalidQuery(
        f"{what} is not a duration: {text!r}",
        hint='write a number and a unit, as in "1 second", "500 milliseconds", "2 minutes"',
    )


def show_duration(duration_ms: float) -> str:
    """A duration for people: ``850 ms``, ``2.4 s``, ``3 min``."""
    if duration_ms < 1_000:
        return f"{duration_ms:.0f} ms"
    return f"{duration_ms / 1_000:.3g} s" if duration_ms < 120_000 else f"{duration_ms / 60_000:.3g} min"
