"""Hash → rows, any number of them per hash, each at a point in time: what a join looks up partners in.

Entries lie in tiers, each sorted by hash and time and at least twice as large as the next. A batch is a new tier, and tiers merge
like the digits of a counter: a row is moved a logarithmic number of times, and a lookup is a binary search per tier. Within one
hash a range of times is found by a second one, so that a key with half of all rows costs what its range holds.

The index trusts no hash, and nobody tells it that a row has gone: the caller compares keys, and ``alive`` says which rows are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidegate.state.columns import Mask, Rows
from tidegate.state.index import Hashes

Times = NDArray[np.int64]
Pairs = tuple[Rows, Rows]
"""Positions in what was looked up, and for each a row."""

PAIRS_MAX = 1 << 15
"""Most pairs handed out at once: one row may have every other as its partner, and back-pressure needs bounded steps."""
_FANOUT = 2
_FEW = 8
"""So many entries of one hash are looked at rather than searched."""


@dataclass(frozen=True, slots=True)
class _Tier:
    """Sorted by hash, then by time."""

    hashes: Hashes
    times_us: Times
    rows: Rows

    @classmethod
    def of(cls, hashes: Hashes, times_us: Times, rows: Rows) -> _Tier:
        order = np.lexsort((times_us, hashes))
        return cls(hashes[order], times_us[order], rows[order])

    def only(self, kept: Mask) -> _Tier:
        return self if kept.all() else _Tier(self.hashes[kept], self.times_us[kept], self.rows[kept])

    def merged(self, other: _Tier) -> _Tier:
        return _Tier.of(
            np.concatenate([self.hashes, other.hashes]),
            np.concatenate([self.times_us, other.times_us]),
            np.concatenate([self.rows, other.rows]),
        )


class RowIndex:
    """Row numbers are the table's, and move only with ``rebuild``."""

    def __init__(self, alive: Callable[[Rows], Mask]) -> None:
        self._alive = alive
        self._tiers: list[_Tier] = []

    def add(self, hashes: Hashes, times_us: Times, rows: Rows) -> None:
        if not len(rows):
            return
        tiers = self._tiers
        tiers.append(_Tier.of(hashes, times_us, rows))
        while len(tiers) > 1 and len(tiers[-2].rows) < _FANOUT * len(tiers[-1].rows):
            last, before = tiers.pop(), tiers.pop()
            merged = before.only(self._alive(before.rows)).merged(last.only(self._alive(last.rows)))
            if len(merged.rows):
                tiers.append(merged)

    def rebuild(self, keep: Rows) -> None:
        """Row ``keep[i]`` is now row ``i``; all others are gone. ``keep`` rises."""
        tiers: list[_Tier] = []
        for tier in self._tiers:
            places = np.searchsorted(keep, tier.rows)
            there = places < len(keep)
            there[there] = keep[places[there]] == tier.rows[there]
            if there.any():
                tiers.append(_Tier(tier.hashes[there], tier.times_us[there], places[there].astype(np.int64)))
        self._tiers = tiers

    def lookup(self, hashes: Hashes, low_us: Times | None, high_us: Times | None) -> Iterator[Pairs]:
        """Live rows with the same hash as position i and a time within ``low_us[i] … high_us[i]``: at most ``PAIRS_MAX`` at a time.

        Rows may be removed between two portions: no later portion holds them.
        """
        waiting: list[Pairs] = []
        count = 0
        for tier in self._tiers:
            for positions, rows in _pairs(tier, *_stretches(tier, hashes, low_us, high_us)):
                if count + len(rows) > PAIRS_MAX:
                    yield from self._portion(waiting)
                    waiting, count = [], 0
                waiting.append((positions, rows))
                count += len(rows)
        yield from self._portion(waiting)

    @property
    def size_bytes(self) -> int:
        return sum(24 * len(tier.rows) for tier in self._tiers)

    def _portion(self, pairs: list[Pairs]) -> Iterator[Pairs]:
        if not pairs:
            return
        positions = np.concatenate([one for one, _ in pairs]) if len(pairs) > 1 else pairs[0][0]
        rows = np.concatenate([one for _, one in pairs]) if len(pairs) > 1 else pairs[0][1]
        alive = self._alive(rows)
        if not alive.all():
            positions, rows = positions[alive], rows[alive]
        if len(rows):
            yield positions, rows


def _stretches(tier: _Tier, hashes: Hashes, low_us: Times | None, high_us: Times | None) -> tuple[Rows, Rows]:
    """Of each position where its entries begin, and how many they are."""
    starts = np.searchsorted(tier.hashes, hashes, side="left")
    ends = np.searchsorted(tier.hashes, hashes, side="right")
    many = np.flatnonzero(ends - starts > _FEW)
    if len(many) and low_us is not None:
        starts[many] = _first(tier.times_us, starts[many], ends[many], low_us[many])
    if len(many) and high_us is not None:
        # Times are whole microseconds: beyond ``high`` means at least one more.
        ends[many] = _first(tier.times_us, starts[many], ends[many], high_us[many] + 1)
    return starts, ends - starts


def _first(times_us: Times, starts: Rows, ends: Rows, wanted_us: Times) -> Rows:
    """The first place in each stretch with a time ≥ the wanted one: all binary searches at once."""
    low, high = starts.copy(), ends.copy()
    for _ in range(int((ends - starts).max()).bit_length()):
        middle = (low + high) >> 1
        open_ = low < high
        below = open_ & (times_us.take(middle, mode="clip") < wanted_us)
        low = np.where(below, middle + 1, low)
        high = np.where(open_ & ~below, middle, high)
    return low


def _pairs(tier: _Tier, starts: Rows, counts: Rows) -> Iterator[Pairs]:
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for first in range(0, total, PAIRS_MAX):
        number = np.arange(first, min(first + PAIRS_MAX, total))
        positions = np.searchsorted(ends, number, side="right")
        yield positions, tier.rows[starts[positions] + number - (ends[positions] - counts[positions])]
