"""Random files: when they appear, which times they hold, what is known of them before they are read."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from msgspec.structs import replace

from tidegate.testing.simulation.lateness import floored
from tidegate.testing.simulation.timed import TimedScript, TimedSplit

FAVOURED = 0.9
RANGE_US = 20_000_000
"""Rows of one file lie as far apart: far beyond any delay."""
FUTURE_US = 3_600_000_000
LONG_BURSTS = "bursts of several batches"
BURST_MS = 200
"""Shorter than the time between two looks: nothing in it certainly came before anything else in it."""


@dataclass(slots=True)
class Dice:
    """The chance of one world, and the names of what it has rolled."""

    chance: random.Random
    kinds: set[str] = field(default_factory=set)
    origin_us: int = 0
    favoured: frozenset[str] = frozenset()
    """What this world is about: nearly always so."""

    @property
    def shows_much(self) -> bool:
        """The world is about something: rows are many and slow, and nothing hides what happens to them."""
        return bool(self.favoured)

    def kind(self, name: str, probability: float) -> bool:
        happens = self.chance.random() < (FAVOURED if name in self.favoured else probability)
        if happens:
            self.kinds.add(name)
        return happens

    def pattern(self, what: str, *patterns: str) -> str:
        wanted = [one for one in patterns if f"{what}: {one}" in self.favoured]
        chosen = self.chance.choice(wanted if wanted and self.chance.random() < FAVOURED else patterns)
        self.kinds.add(f"{what}: {chosen}")
        return chosen


def random_files(dice: Dice, number: int, *, delay_us: int | None, bounded: bool, endless: bool = False) -> TimedScript:
    """``endless``: for seconds a new one with every look."""
    chance = dice.chance
    some = (8, 12) if LONG_BURSTS in dice.favoured else (4, 5, 6, 8)
    count = chance.choice(some) if dice.shows_much else chance.choice((1, 2, 3, 3, 4, 5, 6, 8, 12, 20))
    arrivals = _steady(chance) if endless else _arrivals(dice, count)
    if bounded:
        arrivals = [0] * len(arrivals)
    arrivals.sort()
    splits = [TimedSplit(appears_ms, times) for appears_ms, times in zip(arrivals, _times(dice, arrivals), strict=True)]
    if delay_us is not None and dice.kind("times at the edge of the watermark", 0.4):
        splits = _with_edges(chance, splits, delay_us)
    if dice.kind("a future row behind a filter", 0.15):
        at = chance.randrange(len(splits))
        splits[at] = _with_future_row(splits[at], dice.origin_us + FUTURE_US)
    if any(not one.times_us for one in splits):
        dice.kinds.add("an empty split")
    if any(one.times_us and all(at is None for at in one.times_us) for one in splits):
        dice.kinds.add("a split of nulls")
    if len(splits) >= 10:
        dice.kinds.add("many splits per reader")
    # A limit would end cohorts that nothing else ends.
    limit = chance.randint(1, 3) if not endless and dice.kind("a limit per trigger", 0.25) else 0
    if limit and LONG_BURSTS in dice.favoured:
        limit = max(2, limit)
    return TimedScript(
        number=number,
        splits=tuple(_with_statistics(dice, splits)),
        delay_us=delay_us,
        limit=limit,
        pace_ms=0 if endless else chance.choice((60, 120, 250) if dice.shows_much else (0, 0, 30, 120, 250)),
        bounded=bounded,
        keys=chance.choice((1, 3)),
    )


def _steady(chance: random.Random) -> list[int]:
    """So close that no look is without one."""
    apart_ms = chance.randint(120, 200)
    return [number * apart_ms for number in range(55)]


def _arrivals(dice: Dice, count: int) -> list[int]:
    chance = dice.chance
    match dice.pattern("files", "a backlog", "singles", "bursts", "a burst after silence", "at random"):
        case "a backlog":
            return [0] * count
        case "singles":
            return [n * 700 + chance.randint(0, 200) for n in range(min(count, 8))]
        case "bursts":
            moment, found = 0, list[int]()
            several = LONG_BURSTS in dice.favoured
            if several:
                dice.kinds.add(LONG_BURSTS)
            while len(found) < count:
                size = chance.randint(1, 7) if several else chance.randint(2, 4)
                found += [moment + chance.randint(0, BURST_MS) for _ in range(size)]
                moment += chance.choice((900, 2_000) if several else (400, 900, 2_000))
            return found[:count]
        case "a burst after silence":
            first = chance.randint(0, count // 2)
            return [0] * first + [2_500 + chance.randint(0, BURST_MS) for _ in range(count - first)]
        case _:
            return [chance.randint(0, 4_000) for _ in range(count)]


def _times(dice: Dice, arrivals: list[int]) -> list[tuple[int | None, ...]]:
    """One tuple per file, its rows in random order."""
    chance = dice.chance
    pattern = dice.pattern("times", "one time range", "rising", "old files late", "at random")
    fine = dice.kind("times with microseconds", 0.6)
    few = dice.kind("equal times", 0.2)
    nulls = 0.0 if dice.shows_much else chance.choice((0.0, 0.0, 0.1, 0.3))
    found: list[tuple[int | None, ...]] = []
    for number, appears_ms in enumerate(arrivals):
        match pattern:
            case "one time range":
                base_us = 0
            case "rising":
                base_us = number * RANGE_US // 2
            case "old files late":
                base_us = 0 if number > len(arrivals) // 2 else 3 * RANGE_US
            case _:
                base_us = chance.choice((0, appears_ms * 10_000, chance.randint(0, 4 * RANGE_US)))
        times: list[int | None] = []
        for _ in range(chance.choice((1, 2, 4, 6, 8) if dice.shows_much else (0, 1, 2, 3, 4, 5, 6))):
            offset_us = chance.randint(0, 3) * RANGE_US // 4 if few else chance.randint(0, RANGE_US)
            at_us = dice.origin_us + base_us + offset_us
            times.append(None if chance.random() < nulls else at_us if fine else at_us // 1_000 * 1_000)
        if times and chance.random() < nulls / 2:
            times = [None] * len(times)
        found.append(tuple(times))
    return found


def _with_edges(chance: random.Random, splits: list[TimedSplit], delay_us: int) -> list[TimedSplit]:
    """Some rows stand where the watermark of another file will stand, or within a millisecond of it."""
    tops = [one.largest_us for one in splits if any(at is not None for at in one.times_us)]
    edged: list[TimedSplit] = []
    for one in splits:
        if tops and chance.random() < 0.5:
            at_us = floored(chance.choice(tops), delay_us) + chance.choice((-1, 0, 1, 300, 999, 1_000))
            one = replace(one, times_us=(*one.times_us, at_us))
        edged.append(one)
    return edged


def _with_future_row(split: TimedSplit, at_us: int) -> TimedSplit:
    return replace(split, times_us=(at_us, *split.times_us), filtered=(0,))


def _with_statistics(dice: Dice, splits: list[TimedSplit]) -> list[TimedSplit]:
    chance = dice.chance
    known = {"none": 0.0, "all": 1.0, "some": 0.7}[dice.pattern("statistics", "none", "all", "some")]
    below_us = 0 if known and dice.kind("statistics: exact", 0.4) else chance.choice((1, 5_000, 5_000_000))
    found: list[TimedSplit] = []
    for one in splits:
        times = [at for at in one.times_us if at is not None]
        told = times and chance.random() < known
        found.append(replace(one, earliest_us=min(times) - below_us) if told else one)
    return found
