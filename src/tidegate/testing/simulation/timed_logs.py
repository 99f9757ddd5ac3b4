"""Random partitions of logs: they pause, are empty, do not answer, appear while others are read."""

from __future__ import annotations

from tidegate.testing.simulation.timed import TimedScript, TimedSplit
from tidegate.testing.simulation.timed_files import FUTURE_US, Dice

STEP_US = 1_000_000
LATER_US = 60_000_000


def random_log(dice: Dice, number: int, *, delay_us: int | None, idle_timeout_ms: int) -> TimedScript:
    """Every partition has a pace and a time of its own; some are far behind."""
    chance = dice.chance
    disorder_us = chance.choice((0, (delay_us or 0) // 2, 5 * STEP_US))
    dice.kinds.add(
        "logs: disorder beyond the delay" if disorder_us > (delay_us or 0) else "logs: disorder below the delay"
    )
    splits: list[TimedSplit] = []
    for partition in range(chance.choice((1, 2, 3, 4))):
        appears_ms = chance.randint(500, 3_000) if partition and dice.kind("logs: a partition appears", 0.2) else 0
        if partition and dice.kind("logs: an empty partition", 0.15):
            splits.append(TimedSplit(appears_ms, ()))
            continue
        behind_us = chance.choice((0, 0, 5 * STEP_US, 30 * STEP_US))
        splits.append(_partition(dice, appears_ms, -behind_us, disorder_us, idle_timeout_ms))
    return TimedScript(
        number=number,
        splits=tuple(splits),
        ordered=True,
        delay_us=delay_us,
        latency_ms=chance.choice((0, 0, 30, 150)),
        keys=chance.choice((1, 3)),
    )


def _partition(dice: Dice, appears_ms: int, offset_us: int, disorder_us: int, idle_timeout_ms: int) -> TimedSplit:
    chance = dice.chance
    count = chance.randint(3, 14)
    pauses = {chance.randrange(count), chance.randrange(count)} if dice.kind("logs: a pause", 0.6) else set[int]()
    moment_ms = appears_ms
    times: list[int | None] = []
    ready: list[int] = []
    unanswered: list[tuple[int, int]] = []
    base_us = dice.origin_us + offset_us
    for row in range(count):
        moment_ms += chance.choice((0, 20, 100, 250))
        if row in pauses:
            moment_ms += chance.choice((idle_timeout_ms // 2, 2 * idle_timeout_ms, 4 * idle_timeout_ms))
            if chance.random() < 0.5:
                base_us -= 2 * STEP_US  # It comes back where it was, or before that.
        base_us += chance.randint(0, 4 * STEP_US)
        times.append(base_us + (chance.randint(-disorder_us, 0) if disorder_us else 0))
        ready.append(moment_ms)
    if dice.kind("logs: unanswered", 0.4):
        since_ms = chance.choice(ready)
        unanswered.append((since_ms, since_ms + chance.choice((2, 4)) * idle_timeout_ms))
    split = TimedSplit(appears_ms, tuple(times), tuple(ready), tuple(unanswered))
    if dice.kind("logs: a future row behind a filter", 0.1):
        split = TimedSplit(
            appears_ms,
            (dice.origin_us + FUTURE_US, *times),
            (appears_ms, *ready),
            tuple(unanswered),
            filtered=(0,),
        )
    return split


def quiet_log(dice: Dice, number: int, *, delay_us: int | None, idle_timeout_ms: int) -> TimedScript:
    """A stream that brings some rows, then nothing for long, then goes on where it was."""
    chance = dice.chance
    dice.kinds.add("a quiet stream")
    before = chance.randint(0, 4)
    after = chance.randint(1, 4)
    back_ms = 1_000 + 4 * idle_timeout_ms
    times = [dice.origin_us + n * STEP_US for n in range(before + after)]
    ready = [n * 50 for n in range(before)] + [back_ms + n * 50 for n in range(after)]
    split = TimedSplit(0, tuple(times), tuple(ready))
    return TimedScript(number=number, splits=(split,), ordered=True, delay_us=delay_us)


def quiet_files(dice: Dice, number: int, *, delay_us: int | None) -> TimedScript:
    """The same with files."""
    chance = dice.chance
    dice.kinds.add("a quiet stream")
    early = TimedSplit(0, tuple(dice.origin_us + n * STEP_US for n in range(chance.randint(0, 3))))
    late_us = dice.origin_us + 4 * STEP_US
    late = TimedSplit(chance.randint(3_000, 5_000), tuple(late_us + n * STEP_US for n in range(chance.randint(1, 4))))
    return TimedScript(number=number, splits=(early, late), delay_us=delay_us)
