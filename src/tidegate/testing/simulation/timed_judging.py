"""Whether the output of a query over event time has every row that may not be late, and no row twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from tidegate.testing.simulation.lateness import Lateness, TimedRow
from tidegate.testing.simulation.relations import WINDOW_US
from tidegate.testing.simulation.timed import TimedScript, id_of
from tidegate.testing.simulation.timed_queries import APART_US, GAP_US
from tidegate.testing.simulation.timed_worlds import Shown, TimedWorld


def window_end_us(at_us: int) -> int:
    return at_us - at_us % WINDOW_US + WINDOW_US


@dataclass
class TimedJudge:
    """``closed_us``: what waits for its time has left up to here; None: all of it, the query was drained."""

    world: TimedWorld
    lateness: Lateness
    closed_us: int | None

    def violations(self, found: pl.DataFrame) -> Iterator[str]:
        match self.world.shown:
            case Shown.ROWS:
                yield from self._rows(found, extra_us=None)
            case Shown.SESSIONS:
                yield from self._rows(found, extra_us=GAP_US)
            case Shown.WINDOWS:
                yield from self._windows(found)
            case Shown.PAIRS | Shown.LEFT_PAIRS:
                yield from self._pairs(found)

    @cached_property
    def all_rows(self) -> list[TimedRow]:
        """Those that the user does not filter away."""
        return [
            TimedRow(script, number, row)
            for script in self.world.scripts
            for number, split in enumerate(script.splits)
            for row in range(len(split.times_us))
            if row not in split.filtered
        ]

    @property
    def late(self) -> int:
        """How many rows may be late: a judge for whom all may be would say nothing."""
        return sum(row.at_us is not None and self.lateness.may_be_late(row, row.at_us) for row in self.all_rows)

    def _is_out(self, deadline_us: int) -> bool:
        return self.closed_us is None or deadline_us <= self.closed_us

    def _rows(self, found: pl.DataFrame, extra_us: int | None) -> Iterator[str]:
        """``extra_us``: what waits for its time to pass leaves so much later; None: rows leave at once."""
        seen = Counter(found.get_column("id").to_list())
        for row in self.all_rows:
            name, at_us = _id(row), row.at_us
            times = seen.pop(name, 0)
            if times > 1:
                yield f"row {name} is shown {times} times"
            if extra_us is not None and at_us is None:
                if times:
                    yield f"row {name} has no time and is shown"
                continue
            deadline_us = 0 if at_us is None else at_us + (extra_us or 0)
            must = extra_us is None or self._is_out(deadline_us)
            if not times and must and not self.lateness.may_be_late(row, deadline_us):
                yield f"row {name} of time {at_us} may not be late and is missing"
            if times and not must:
                yield f"row {name} of time {at_us} is out before its time"
        if seen:
            yield f"rows {sorted(seen)[:3]} come from nowhere"

    def _windows(self, found: pl.DataFrame) -> Iterator[str]:
        most, least = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for row in self.all_rows:
            if row.at_us is None:
                continue
            end_us = window_end_us(row.at_us)
            group = end_us, _id(row) % row.script.keys
            most[group] += 1
            least[group] += not self.lateness.may_be_late(row, end_us)
        seen: dict[tuple[int, int], int] = {}
        for end_us, key, n in found.rows():
            if (end_us, key) in seen:
                yield f"window {(end_us, key)} is shown twice"
            seen[end_us, key] = n
        for group, all_of_it in most.items():
            n = seen.pop(group, 0)
            if n > all_of_it:
                yield f"window {group} has {n} rows of {all_of_it}"
            if n and not self._is_out(group[0]):
                yield f"window {group} is out before its time"
            if n < least[group] and self._is_out(group[0]):
                yield f"window {group} has {n} rows, and {least[group]} of its {all_of_it} may not be late"
        if seen:
            yield f"windows {sorted(seen)[:3]} come from nowhere"

    def _pairs(self, found: pl.DataFrame) -> Iterator[str]:
        seen = Counter[tuple[int, int | None]](found.rows())
        left, right = (self._side(script) for script in self.world.scripts)
        windowed = self.world.scripts[1].delay_us is None
        keep = {row: not self.lateness.may_be_late(row, _deadline_us(row, windowed)) for row in (*left, *right)}
        for one in left:
            met = [other for other in right if _meet(one, other, windowed)]
            for other in met:
                times = seen.pop((_id(one), _id(other)), 0)
                if times > 1:
                    yield f"pair {_id(one), _id(other)} is shown {times} times"
                if not times and keep[one] and keep[other]:
                    yield f"pair {_id(one), _id(other)} is missing, and neither row may be late"
            if self.world.shown is Shown.LEFT_PAIRS:
                alone = seen.pop((_id(one), None), 0)
                certain = keep[one] and any(keep[other] for other in met)
                if alone > 1 or (alone and certain):
                    yield f"row {_id(one)} leaves alone {alone} times"
                assert one.at_us is not None
                if not alone and not met and keep[one] and self._is_out(one.at_us + APART_US):
                    yield f"row {_id(one)} has no partner and does not leave"
        if seen:
            yield f"pairs {sorted(seen, key=str)[:3]} come from nowhere"

    def _side(self, script: TimedScript) -> list[TimedRow]:
        return [row for row in self.all_rows if row.script is script and row.at_us is not None]


def _id(row: TimedRow) -> int:
    return id_of(row.script, row.split, row.row)


def _deadline_us(row: TimedRow, windowed: bool) -> int:
    assert row.at_us is not None
    return window_end_us(row.at_us) if windowed else row.at_us


def _meet(one: TimedRow, other: TimedRow, windowed: bool) -> bool:
    assert one.at_us is not None
    assert other.at_us is not None
    if _id(one) % one.script.keys != _id(other) % other.script.keys:
        return False
    if windowed:
        return window_end_us(one.at_us) == window_end_us(other.at_us)
    return abs(one.at_us - other.at_us) <= APART_US
