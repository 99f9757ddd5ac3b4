"""Sets of split numbers as sorted, disjoint, non-adjacent ranges: nearly all of them are done, in order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from tidegate.checkpoint.manifest import Interval

Intervals = tuple[Interval, ...]


def add_numbers(intervals: Intervals, numbers: Iterable[int]) -> Intervals:
    """The interval set with ``numbers`` added."""
    return add_ranges(intervals, ((n, n + 1) for n in set(numbers)))


def add_ranges(intervals: Intervals, ranges: Iterable[tuple[int, int]]) -> Intervals:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted([*((one.start, one.stop) for one in intervals), *ranges]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        elif start < stop:
            merged.append((start, stop))
    return tuple(Interval(start, stop) for start, stop in merged)


def contains(intervals: Intervals, number: int) -> bool:
    at = bisect_right(intervals, number, key=lambda one: one.start) - 1
    return at >= 0 and number < intervals[at].stop


def first_missing(intervals: Intervals, start: int) -> int:
    """The smallest number from ``start`` on that is not in the set."""
    at = bisect_right(intervals, start, key=lambda one: one.start) - 1
    return intervals[at].stop if at >= 0 and start < intervals[at].stop else start


def missing_between(intervals: Intervals, start: int, stop: int) -> Intervals:
    """What of [start, stop) is not in the set."""
    gaps: list[Interval] = []
    for one in intervals:
        if one.start >= stop:
            break
        if start < one.start:
            gaps.append(Interval(start, one.start))
        start = max(start, one.stop)
    if start < stop:
        gaps.append(Interval(start, stop))
    return tuple(gaps)


def done_prefix(done: Intervals) -> int:
    """The first number that is not done: everything under it is."""
    return done[0].stop if done and done[0].start == 0 else 0
