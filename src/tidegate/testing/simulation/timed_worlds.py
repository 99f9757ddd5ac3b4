"""A random world of event time: sources, how they meet, and what the query shows of their rows.

Every kind of world has a name; a campaign counts them, and none may be missing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from tidegate.testing.simulation.lateness import Stream
from tidegate.testing.simulation.timed import TimedScript
from tidegate.testing.simulation.timed_files import LONG_BURSTS, Dice, random_files
from tidegate.testing.simulation.timed_logs import quiet_files, quiet_log, random_log

DELAYS_US = (0, 0, 500_000, 2_000_000, 10_000_000)
ORIGINS_US = (0, 1_700_000_000_000_000, -40_000_000)


class Meeting(Enum):
    """How the sources of a query come together."""

    ALONE = "one source"
    UNION_BELOW = "a union below one withWatermark"
    UNION = "a union of streams"
    JOIN = "a join of streams"


MEETINGS = (*[Meeting.ALONE] * 5, Meeting.UNION_BELOW, Meeting.UNION, Meeting.UNION, Meeting.JOIN)


class Shown(Enum):
    """What of the rows leaves the query."""

    ROWS = "deduplication"
    WINDOWS = "windows"
    SESSIONS = "sessions"
    PAIRS = "inner join"
    LEFT_PAIRS = "left join"


@dataclass(frozen=True, slots=True)
class TimedWorld:
    scripts: tuple[TimedScript, ...]
    streams: tuple[Stream, ...]
    meeting: Meeting
    shown: Shown
    bounded: bool
    drain: bool
    idle_timeout_ms: int
    calm: bool
    """Nothing fails in it."""
    steady: bool
    """Files come without a pause for seconds."""
    kinds: frozenset[str]

    @property
    def rests_ms(self) -> int:
        return max(script.rests_ms for script in self.scripts)

    @property
    def has_logs(self) -> bool:
        return any(script.ordered for script in self.scripts)


@dataclass(frozen=True, slots=True)
class _Theme:
    """What a world is about: without it everything would occur, and seldom together with what it takes to do harm."""

    favoured: frozenset[str]
    meetings: tuple[Meeting, ...] = (Meeting.ALONE,)
    logs: float = 0.0


THEMES: dict[str, _Theme] = {
    "limits": _Theme(
        frozenset({"a limit per trigger", "files: a backlog", "times: one time range", "statistics: none"})
    ),
    "statistics": _Theme(frozenset({"statistics: all", "statistics: exact", "files: a backlog"})),
    "bursts": _Theme(frozenset({"files: bursts", "times: one time range", "statistics: none"})),
    "files without a pause": _Theme(frozenset({"nothing fails", "files without a pause"})),
    "a source without time": _Theme(
        frozenset({"a source without time", "files: a backlog", "times: one time range"}),
        (Meeting.UNION, Meeting.JOIN),
    ),
    "logs": _Theme(frozenset({"logs: a pause", "logs: unanswered"}), logs=1.0),
}


LIMITED_BURSTS = _Theme(
    frozenset({"a limit per trigger", "files: bursts", "times: one time range", "statistics: none", LONG_BURSTS})
)
"""Instead of every second world about limits."""


def _theme(seed: int, chance: random.Random) -> _Theme | None:
    theme = THEMES[chance.choice(tuple(THEMES))] if chance.random() < 0.6 else None
    return LIMITED_BURSTS if theme is THEMES["limits"] and seed % 2 else theme


def random_world(seed: int) -> TimedWorld:
    chance = random.Random(seed ^ 0xE7E7)
    theme = _theme(seed, chance)
    dice = Dice(chance, origin_us=chance.choice(ORIGINS_US), favoured=theme.favoured if theme else frozenset())
    meeting = chance.choice(theme.meetings if theme else MEETINGS)
    idle_timeout_ms = chance.choice((400, 1_000))
    calm = dice.kind("nothing fails", 0.35)
    steady = meeting is Meeting.ALONE and calm and dice.kind("files without a pause", 0.05)
    bounded = not steady and dice.kind("a bounded run", 0.2)
    drain = chance.random() < 0.5
    count = {Meeting.ALONE: 1, Meeting.JOIN: 2}.get(meeting, chance.choice((2, 2, 3)))
    delays_us = DELAYS_US[:3] if theme else DELAYS_US
    delay_us = chance.choice(delays_us)
    logs = theme.logs if theme else 0.35
    scripts: list[TimedScript] = []
    for number in range(count):
        if meeting is not Meeting.UNION_BELOW:
            delay_us = chance.choice(delays_us)
        untimed = number == 1 and meeting in (Meeting.UNION, Meeting.JOIN) and dice.kind("a source without time", 0.25)
        scripts.append(
            _source(dice, number, None if untimed else delay_us, bounded, steady, idle_timeout_ms, logs, count)
        )
    if len({script.ordered for script in scripts}) == 2:
        dice.kinds.add("files and logs together")
    if count == 3:
        dice.kinds.add("three sources")
    if meeting is Meeting.UNION_BELOW:
        streams: tuple[Stream, ...] = (Stream(tuple(scripts), delay_us),)
    else:
        streams = tuple(Stream((one,), one.delay_us) for one in scripts if one.delay_us is not None)
    shown = _shown(chance, meeting)
    if shown is Shown.LEFT_PAIRS and any(script.delay_us is None for script in scripts):
        shown = Shown.PAIRS  # Spark refuses it: the left rows would wait for ever.
    dice.kinds.update((meeting.value, f"shown: {shown.value}"))
    if bounded:
        dice.kinds.add("a bounded run, drained" if drain else "a bounded run, not drained")
    return TimedWorld(
        tuple(scripts), streams, meeting, shown, bounded, drain, idle_timeout_ms, calm, steady, frozenset(dice.kinds)
    )


def _source(
    dice: Dice,
    number: int,
    delay_us: int | None,
    bounded: bool,
    steady: bool,
    idle_timeout_ms: int,
    logs_share: float,
    among: int,
) -> TimedScript:
    if bounded or steady:
        return random_files(dice, number, delay_us=delay_us, bounded=bounded, endless=steady)
    logs = dice.chance.random() < logs_share
    if among > 1 and number == among - 1 and delay_us is not None and dice.chance.random() < 0.5:
        if logs:
            return quiet_log(dice, number, delay_us=delay_us, idle_timeout_ms=idle_timeout_ms)
        return quiet_files(dice, number, delay_us=delay_us)
    if logs:
        return random_log(dice, number, delay_us=delay_us, idle_timeout_ms=idle_timeout_ms)
    return random_files(dice, number, delay_us=delay_us, bounded=False)


def _shown(chance: random.Random, meeting: Meeting) -> Shown:
    if meeting is Meeting.JOIN:
        return chance.choice((Shown.PAIRS, Shown.PAIRS, Shown.LEFT_PAIRS))
    return chance.choice((Shown.ROWS, Shown.ROWS, Shown.WINDOWS, Shown.SESSIONS))
