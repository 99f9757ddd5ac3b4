"""Moments of event time as text. A watermark can lie outside the years that Python's ``datetime`` knows: one row whose milliseconds were
taken for seconds is enough."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_CYCLE_YEARS = 400
_CYCLE_US = 146_097 * 86_400 * 1_000_000
"""After this long the calendar repeats."""
_START = datetime(2000, 1, 1, tzinfo=UTC)
_START_US = 946_684_800 * 1_000_000


def iso_moment(us: int) -> str:
    """ISO 8601 in UTC, to the millisecond. Years before 0 and after 9999 have a sign, as in Java: ``+55840-01-01T00:00:00.000Z``."""
    year, at = _year_and_rest(us)
    return f"{year}-{at:%m-%dT%H:%M:%S}.{at.microsecond // 1_000:03}Z"


def short_moment(us: int) -> str:
    """To the second, for people: ``2015-07-15 00:00:06``."""
    year, at = _year_and_rest(us)
    return f"{year}-{at:%m-%d %H:%M:%S}"


def _year_and_rest(us: int) -> tuple[str, datetime]:
    cycles, rest_us = divmod(us - _START_US, _CYCLE_US)
    at = _START + timedelta(microseconds=rest_us)
    year = at.year + cycles * _CYCLE_YEARS
    return (f"{year:04}" if 0 <= year <= 9_999 else f"{year:+05}"), at
