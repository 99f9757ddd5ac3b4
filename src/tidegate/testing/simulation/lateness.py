"""The judge of lateness: which rows may be called late, told from the world alone, never from what the engine believes.

A row may be called late only because of rows of its own stream that certainly came before it. See docs/concepts/event-time.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.testing.simulation.chronicle import Chronicle, Emptiness, SourceNotes
from tidegate.testing.simulation.timed import TimedScript

LOOKS_MAX = 4
"""So many looks in a row that find something end a cohort all the same."""


@dataclass(frozen=True, slots=True)
class TimedRow:
    script: TimedScript
    split: int
    row: int

    @property
    def at_us(self) -> int | None:
        return self.script.splits[self.split].times_us[self.row]


def floored(at_us: int, delay_us: int) -> int:
    """The watermark that rows up to ``at_us`` allow: in whole milliseconds, as Spark's."""
    return at_us // 1_000 * 1_000 - delay_us


@dataclass(frozen=True, slots=True)
class Stream:
    """What lies below one ``withWatermark``, as the user wrote it."""

    scripts: tuple[TimedScript, ...]
    delay_us: int

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(script.number for script in self.scripts)

    @property
    def watermark_us(self) -> int:
        """Where its event time stands when everything has been read."""
        largest_us = max(script.largest_us for script in self.scripts)
        return floored(largest_us, self.delay_us) if largest_us > WATERMARK_MIN_US else WATERMARK_MIN_US


@dataclass(frozen=True, slots=True)
class _Horizon:
    """Rows that were handed out before ``at_ms``. In other slots than ``slot`` one learns of it ``slack_ms`` later."""

    at_ms: float
    slack_ms: int
    slot: str

    def covers(self, notes: SourceNotes, place: tuple[int, int]) -> bool:
        slack_ms = 0 if notes.handed_by[place] == self.slot else self.slack_ms
        # In one moment either may have been the first.
        return notes.handed_ms[place] <= self.at_ms + slack_ms


@dataclass
class Lateness:
    """``look_ms``: between two looks. ``slack_ms``: how long news may be on its way, in a channel or from a reader to the driver and back."""

    chronicle: Chronicle
    streams: tuple[Stream, ...]
    look_ms: int
    idle_timeout_ms: int
    slack_ms: int

    def may_be_late(self, row: TimedRow, deadline_us: int) -> bool:
        if row.at_us is None or not self.streams:
            return False
        own = next((stream for stream in self.streams if row.script.number in stream.numbers), None)
        if own is None:
            # The user has not said that it tells the time: it is late only for what was read before its turn came.
            horizon = self._horizon(row)
            return all(self._handed_before(stream, horizon, deadline_us) for stream in self.streams)
        others = (stream for stream in self.streams if stream is not own)
        return all(self._ever(one, deadline_us) for one in others) and self._late_in(own, row, deadline_us)

    def _late_in(self, stream: Stream, row: TimedRow, deadline_us: int) -> bool:
        for script in stream.scripts:
            if script is not row.script:
                continue
            reach = set(self._reaching(stream, script, deadline_us))
            if script.ordered:
                if any(split == row.split and at < row.row for split, at in reach):
                    return True
            elif any(self._before(stream, script, split, row.split) for split in {split for split, _ in reach}):
                return True
        horizon = self._horizon(row)
        foreign = (script for script in stream.scripts if script is not row.script or script.ordered)
        return any(self._handed(stream, script, horizon, deadline_us) for script in foreign)

    # --- whole splits -------------------------------------------------------------------------------------------------

    def _before(self, stream: Stream, script: TimedScript, first: int, then: int) -> bool:
        """Whole split ``first`` certainly came before ``then``."""
        notes = self.chronicle.of(script.source)
        if first == then or first not in notes.reported or then not in notes.reported:
            return False
        one, other = notes.reported[first], notes.reported[then]
        if one > other:
            return False
        alone = len(stream.scripts) == 1 and len(notes.numbers) == 1
        if script.limit and alone:
            return _batches_apart(notes, first, then, script.limit) >= 2 or (one < other and _busy_until(notes, one))
        if script.limit and _apart(notes, first, then) >= script.limit + 1:
            return True
        waited_ms = script.splits[then].appears_ms - script.splits[first].appears_ms
        return one < other and (waited_ms >= self.look_ms or _busy_until(notes, one))

    # --- what was handed out ------------------------------------------------------------------------------------------

    def _reaching(self, stream: Stream, script: TimedScript, deadline_us: int) -> Iterator[tuple[int, int]]:
        """Rows whose time allows a watermark at the deadline."""
        for split, row, at_us in self._told(script):
            if floored(at_us, stream.delay_us) >= deadline_us:
                yield split, row

    @cached_property
    def _times(self) -> dict[str, list[tuple[int, int, int]]]:
        return {
            script.source: [
                (number, row, at_us)
                for number, split in enumerate(script.splits)
                for row, at_us in enumerate(split.counted_us)
                if at_us is not None
            ]
            for stream in self.streams
            for script in stream.scripts
        }

    def _told(self, script: TimedScript) -> list[tuple[int, int, int]]:
        return self._times[script.source]

    def _handed(self, stream: Stream, script: TimedScript, horizon: _Horizon, deadline_us: int) -> bool:
        notes = self.chronicle.of(script.source)
        reach = self._reaching(stream, script, deadline_us)
        return any(place in notes.handed_ms and horizon.covers(notes, place) for place in reach)

    def _handed_before(self, stream: Stream, horizon: _Horizon, deadline_us: int) -> bool:
        return any(self._handed(stream, script, horizon, deadline_us) for script in stream.scripts)

    def _ever(self, stream: Stream, deadline_us: int) -> bool:
        return self._handed_before(stream, _Horizon(float("inf"), 0, ""), deadline_us)

    # --- from when on a row holds others back -------------------------------------------------------------------------

    def _horizon(self, row: TimedRow) -> _Horizon:
        """What other splits had handed out before this moment may have come before the row."""
        notes = self.chronicle.of(row.script.source)
        if not row.script.ordered:
            return _Horizon(self._current_ms(row.script, row.split), self.slack_ms, "")
        if row.script.delay_us is None:
            return _Horizon(float("inf"), 0, "")  # A log that tells no time holds nothing back.
        moments = [float(notes.opened_ms.get(row.split, 0))]
        for one in notes.empty[row.split]:
            if one.position <= row.row and self._is_idle(notes, row.split, one):
                # It stays idle until it has rows, or until it has not been heard of for as long again.
                silent_ms = one.last_ms + self.idle_timeout_ms
                moments.append(silent_ms if one.until_ms is None else min(one.until_ms, silent_ms))
        return _Horizon(max(moments), self.slack_ms, notes.handed_by.get((row.split, row.row), ""))

    def _is_idle(self, notes: SourceNotes, split: int, now: Emptiness) -> bool:
        """It has been empty for long enough; or it had been in an attempt before, in the same place, and says so again."""
        same = (one for one in notes.empty[split] if one.position == now.position and one.first_ms <= now.first_ms)
        return any(one.last_ms - one.first_ms >= self.idle_timeout_ms for one in same)

    def _current_ms(self, script: TimedScript, split: int) -> float:
        """When the cohort of a whole split has become the current one, at the latest."""
        notes = self.chronicle.of(script.source)
        if split not in notes.reported:
            return 0.0
        earlier = [
            n
            for n, look in notes.reported.items()
            if look < notes.reported[split] or (script.limit and _apart(notes, n, split) >= 1)
        ]
        read_ms = max((notes.last_handed_ms.get(n, 0) for n in earlier), default=0)
        return max(notes.looks[notes.reported[split]].at_ms, read_ms)


def _apart(notes: SourceNotes, first: int, then: int) -> int:
    """How far apart their numbers were in any attempt."""
    return max(
        (numbers[then] - numbers[first] for numbers in notes.numbers.values() if first in numbers and then in numbers),
        default=0,
    )


def _batches_apart(notes: SourceNotes, first: int, then: int, limit: int) -> float:
    """Between how many batches of one attempt lie two splits. Batches are full, and begin with the first file that a burst brings."""
    one, other = notes.reported[first], notes.reported[then]
    if not all(look.found for look in notes.looks[one:other]):
        return float("inf")
    begun = one
    while begun and notes.looks[begun - 1].found:
        begun -= 1
    (numbers,) = notes.numbers.values()
    begins = min(numbers[split] for split, look in notes.reported.items() if look >= begun)
    return (numbers[then] - begins) // limit - (numbers[first] - begins) // limit


def _busy_until(notes: SourceNotes, look: int) -> bool:
    """This look of an attempt and those before it all found something."""
    attempt = notes.looks[look].attempt
    last = [one.found for one in notes.looks[: look + 1] if one.attempt == attempt][-LOOKS_MAX:]
    return len(last) == LOOKS_MAX and all(last)
