"""Cohorts of whole splits: how far the driver may let event time go.

No row is late because of another row of its cohort. A cohort is an interval of split numbers: what the looks of one burst have found.
Only two are unsettled: the current one, [start, stop), and the next one behind it. The current cohort closes with a look that finds
nothing new, with the fourth look, or where a limit cuts it. It settles when it is closed and all of it has been read; then the times in
it count, at once if nothing more is known, else when the next one has settled: as Spark judges a batch by the watermark of the one before.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from tidegate.checkpoint.intervals import (
    Intervals,
    add_numbers,
    add_ranges,
    contains,
    done_prefix,
    first_missing,
    missing_between,
)
from tidegate.eventtime.delay import MILLISECOND_US, watermark_at
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.snapshot import FinishedSplit, Split

LOOKS_MAX = 4
"""A cohort that every look adds to closes with this one: files that never stop coming must not stop time."""


@dataclass(frozen=True, slots=True)
class Cohorts:
    """What the driver knows of one source with whole splits. ``delay_us`` is None where nobody asks for the time of its rows."""

    delay_us: int | None = None
    lags: bool = False
    """Nothing leaves because event time goes on: then what was read always counts one cohort later, and only makes rows late."""
    start: int = 0
    """All below is settled."""
    stop: int | None = None
    """None: the current cohort is still open to what the next look finds."""
    known: int = 0
    """All numbers below are known."""
    read: Intervals = ()
    """Read to their ends; live, so ahead of what the newest checkpoint has as done."""
    cuts: tuple[int, ...] = ()
    """Behind ``start``: where limits end a cohort."""
    largest_us: int = WATERMARK_MIN_US
    """Largest event time of splits of the current cohort that have been read; …"""
    later: tuple[tuple[int, int], ...] = ()
    """… of each one behind it, by where that begins: what returns after a restore is given out whatever its cohort; …"""
    restored_us: int = WATERMARK_MIN_US
    """… of all that had been read before the restore: counts with the cohort that has the last of it; …"""
    restored_stop: int = 0
    """Behind the last split that had been read before the restore."""
    settled_us: int = WATERMARK_MIN_US
    """… of all settled cohorts."""
    granted_us: int = WATERMARK_MIN_US
    """The watermark that readers may put behind their rows."""
    looks: int = 0
    """Since something of the current cohort is known."""
    quiet: bool = False
    """The last look found nothing."""
    earliest: tuple[tuple[int, int], ...] = ()
    """(Smallest event time, number) of splits for which statistics tell it, by time. Some at its head may have been read."""
    blind: Intervals = ()
    """Splits for which nothing tells it."""

    @property
    def unread(self) -> bool:
        """Something is known and not read."""
        return first_missing(self.read, self.start) < self.known

    @property
    def assignable(self) -> int:
        """Splits of the current cohort and the next are given out: those below this number."""
        begin = self.start if self.stop is None else self.stop
        return self._cut_behind(begin) or self.known

    def looked(self, fresh: tuple[Split, ...], *, found: bool, last: bool = False) -> Cohorts:
        """A look is over. ``fresh``: splits that were not known; ``found``: the look has found something; ``last``: no other follows."""
        known = max([self.known, *(split.number + 1 for split in fresh)])
        empty = self.known == self.start
        now = replace(
            self,
            known=known,
            cuts=tuple(sorted({*self.cuts, *(one.number for one in fresh if one.cut and one.number > self.start)})),
            looks=0 if empty else self.looks + 1,
            quiet=not found or last,
            earliest=_merged(self.earliest, fresh),
            blind=add_numbers(self.blind, (one.number for one in fresh if one.earliest_us is None)),
        )
        if now.stop is None and now.known == now.start:
            return now._nothing_left()
        return now._closed()._settled()

    def absent(self, present: Intervals) -> Cohorts:
        """The first look after a restore knows all there is: what it does not name will never be read."""
        gaps = missing_between(add_ranges(present, _pairs(self.read)), self.start, self.known)
        return replace(self, read=add_ranges(self.read, _pairs(gaps)))._settled() if gaps else self

    def finished(self, splits: tuple[FinishedSplit, ...]) -> Cohorts:
        """Readers have put the last rows of these splits into their channels. Each counts once, however often it is told."""
        new = tuple(one for one in splits if not contains(self.read, one.number))
        if not new:
            return self
        ours = [one.largest_us for one in new if self.stop is None or one.number < self.stop]
        return replace(
            self,
            read=add_numbers(self.read, (one.number for one in new)),
            largest_us=max([self.largest_us, *ours]),
            later=self._with_later(new),
        )._settled()

    def _with_later(self, splits: tuple[FinishedSplit, ...]) -> tuple[tuple[int, int], ...]:
        stop = self.stop
        if stop is None:
            return self.later
        later = dict(self.later)
        for one in splits:
            if one.number >= stop:
                before = bisect_right(self.cuts, one.number)
                begin = max(stop, self.cuts[before - 1]) if before else stop
                later[begin] = max(later.get(begin, WATERMARK_MIN_US), one.largest_us)
        return tuple(sorted(later.items()))

    def _closed(self) -> Cohorts:
        if self.stop is not None or self.known == self.start:
            return self
        cut = self._cut_behind(self.start)
        if cut is not None:
            return replace(self, stop=cut)
        return replace(self, stop=self.known) if self.quiet or self.looks >= LOOKS_MAX else self

    def _settled(self) -> Cohorts:
        now = self
        while now.stop is not None and first_missing(now.read, now.start) >= now.stop:
            before_us = now.settled_us
            settled_us = max(before_us, now.largest_us, now._restored_before(now.stop))
            more = now.known > now.stop
            now = replace(
                now,
                start=now.stop,
                stop=None,
                cuts=tuple(cut for cut in now.cuts if cut > now.stop),
                largest_us=dict(now.later).get(now.stop, WATERMARK_MIN_US),
                later=tuple(one for one in now.later if one[0] > now.stop),
                settled_us=settled_us,
                granted_us=now._granted(before_us if more or now.lags else settled_us),
                looks=0,
            )._closed()
        return now._within_statistics()

    def _nothing_left(self) -> Cohorts:
        """All there is had been read before the restore, or nothing has ever been found."""
        if self.lags:
            return self
        settled_us = max(self.settled_us, self.restored_us)
        return replace(self, settled_us=settled_us, granted_us=self._granted(settled_us))

    def _restored_before(self, number: int) -> int:
        return self.restored_us if self.restored_stop <= number else WATERMARK_MIN_US

    def _granted(self, largest_us: int) -> int:
        if self.delay_us is None or largest_us <= WATERMARK_MIN_US:
            return self.granted_us
        return max(self.granted_us, watermark_at(largest_us, self.delay_us))

    def _within_statistics(self) -> Cohorts:
        """Inside a closed cohort time may go on to where the first split begins that is still to be read; rows at that very time
        stay on time."""
        if not self.earliest or self.lags:
            return self
        read = 0
        while read < len(self.earliest) and contains(self.read, self.earliest[read][1]):
            read += 1
        now = replace(self, earliest=self.earliest[read:]) if read else self
        blind = any(first_missing(now.read, max(one.start, now.start)) < one.stop for one in now.blind)
        if blind or now.stop is None or not now.earliest:
            return now
        seen_us = max(now.settled_us, now.largest_us, now._restored_before(now.stop))
        if now.delay_us is None or seen_us <= WATERMARK_MIN_US:
            return now
        bound_us = min(watermark_at(seen_us, now.delay_us), now.earliest[0][0] - MILLISECOND_US)
        return replace(now, granted_us=max(now.granted_us, bound_us))

    def _cut_behind(self, number: int) -> int | None:
        return next((cut for cut in self.cuts if cut > number), None)


def restored_cohorts(delay_us: int | None, done: Intervals, read_us: int, *, lags: bool = False) -> Cohorts:
    """All that is known and not done is one cohort: only more is kept. ``read_us``: largest event time of what is done."""
    first = done_prefix(done)
    stop = done[-1].stop if done else first
    return Cohorts(
        delay_us=delay_us, lags=lags, start=first, known=stop, read=done, restored_us=read_us, restored_stop=stop
    )


def _merged(earliest: tuple[tuple[int, int], ...], fresh: tuple[Split, ...]) -> tuple[tuple[int, int], ...]:
    told = [(one.earliest_us, one.number) for one in fresh if one.earliest_us is not None]
    return tuple(sorted([*earliest, *told])) if told else earliest


def _pairs(intervals: Intervals) -> list[tuple[int, int]]:
    return [(one.start, one.stop) for one in intervals]
