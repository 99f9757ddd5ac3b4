"""Sizes and durations in options, spelled as Spark's settings spell them: ``128m``, ``64 MB``, ``10s``, ``15 minutes``."""

from __future__ import annotations

import re

from tidegate.connectors.options import Options

_NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MILLISECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


def size_bytes(options: Options, name: str, default: int) -> int:
    """Units of 1,024, as everywhere in Spark; a plain number counts bytes."""
    text = options.text(name)
    if text is None:
        return default
    found = _NUMBER_AND_UNIT.fullmatch(text.strip().lower())
    unit = re.sub(r"i?b$", "", found[2]) if found else "?"
    if found is None or unit not in _BYTES:
        raise options.invalid(name, text, "a size such as 128m or 1g (0: none)")
    return int(float(found[1]) * _BYTES[unit])


def duration_ms(options: Options, name: str) -> int | None:
    """None: the option is not set. A number needs its unit: there is no telling seconds from milliseconds."""
    text = options.text(name)
    if text is None:
        return None
    found = _NUMBER_AND_UNIT.fullmatch(text.strip().lower())
    if found is None or found[2] not in _MILLISECONDS:
        raise options.invalid(name, text, "a duration such as 30s, 15 minutes or 7d")
    length_ms = int(float(found[1]) * _MILLISECONDS[found[2]])
    if length_ms <= 0:
        raise options.invalid(name, text, "longer than nothing")
    return length_ms
