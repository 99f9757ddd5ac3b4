"""Instants and local times in the session's zone, with Java's answers at the gaps and overlaps of daylight saving.

Polars' zone tables end with the year 2099: later summers have no daylight saving time here, and have in Java.
"""

from __future__ import annotations

import re
from functools import cache

import polars as pl

INSTANT = pl.Datetime("us", "UTC")
LOCAL = pl.Datetime("us")
_UTC_NAMES = frozenset({"UTC", "Z", "GMT", "Etc/UTC", "Etc/GMT", "UT", "Zulu", "Universal", "Greenwich"})
_OFFSET = re.compile(r"^(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?$")


@cache
def fixed_offset_us(zone: str) -> int | None:
    """Microseconds east of UTC for zones that never change, None for regions."""
    if zone in _UTC_NAMES:
        return 0
    if (parts := _OFFSET.match(zone)) is None:
        return None
    sign, hours, minutes, seconds = parts.groups()
    total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return (-total if sign == "-" else total) * 1_000_000


@cache
def reason_against(zone: str) -> str | None:
    """Why this session time zone cannot be used, or None."""
    if fixed_offset_us(zone) is not None:
        return None
    try:
        pl.select(pl.lit(0).cast(INSTANT).dt.convert_time_zone(zone))
    except (pl.exceptions.PolarsError, ValueError):
        return f"the time zone {zone!r} is not known"
    return None


def to_local(instant: pl.Expr, zone: str) -> pl.Expr:
    """What a clock on the wall of ``zone`` shows."""
    offset_us = fixed_offset_us(zone)
    if offset_us is None:
        return instant.dt.convert_time_zone(zone).dt.replace_time_zone(None)
    local = instant.dt.replace_time_zone(None)
    return local if offset_us == 0 else local + pl.duration(microseconds=offset_us)


def to_instant(local: pl.Expr, zone: str) -> pl.Expr:
    """The instant of a local time: the earlier one of two, and a time inside a gap moves on by the gap's length."""
    offset_us = fixed_offset_us(zone)
    if offset_us is not None:
        moved = local if offset_us == 0 else local - pl.duration(microseconds=offset_us)
        return moved.dt.replace_time_zone("UTC")
    known = _resolved(local, zone)
    # A gap is at most a few hours wide: the day before still has the offset that Java applies inside it.
    earlier = local - pl.duration(days=1)
    return known.fill_null(_resolved(earlier, zone) + pl.duration(days=1))


def _resolved(local: pl.Expr, zone: str) -> pl.Expr:
    zoned = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return zoned.dt.convert_time_zone("UTC")
