"""The worlds that are searched. Each is wide where one kind of trouble lives and narrow elsewhere; together they cover
every fault with every other one that can touch the same rule."""

from __future__ import annotations

from tidegate.checkpoint.events import Afterwards
from tidegate.testing.model.world import Bounds

SMALL = (
    Bounds("one driver", starts=1, attempts=1, checkpoints=3, timeouts=1),
    Bounds("two drivers, a crash", starts=2, attempts=2, checkpoints=2, crashes=1),
    Bounds("two drivers, lost answers", starts=2, attempts=2, checkpoints=1, crashes=1, lost_answers=1),
    Bounds("restarts and a rival", starts=2, attempts=3, checkpoints=1, failures=1),
    Bounds("damage", starts=1, attempts=1, checkpoints=3, damages=1, quiet=True, retained=2),
    Bounds("the newest manifest is lost", starts=2, attempts=2, checkpoints=2, crashes=1, losses=1, retained=2),
    Bounds(
        "the newest manifest is lost, fall back",
        starts=2,
        attempts=2,
        checkpoints=2,
        crashes=1,
        losses=1,
        retained=2,
        fall_back=True,
    ),
    Bounds("an older copy of the location", starts=2, attempts=2, checkpoints=1, crashes=1, set_backs=1),
    Bounds(
        "an older copy of the location, fall back",
        starts=2,
        attempts=3,
        checkpoints=1,
        crashes=1,
        set_backs=1,
        fall_back=True,
    ),
    Bounds("two in flight", starts=1, attempts=1, checkpoints=3, concurrent=2, timeouts=1),
    Bounds("lost messages", starts=1, attempts=1, checkpoints=3, lost_messages=2, timeouts=2),
    Bounds("rescale", starts=2, attempts=2, checkpoints=2, crashes=1, parallelism=(2, 1)),
    Bounds("two pipelines", starts=2, attempts=1, checkpoints=1, pipelines=2),
    Bounds("a sink hands back", starts=1, attempts=1, checkpoints=3, hand_backs=2, timeouts=1, parallelism=(2,)),
    Bounds(
        "a sink hands back, a crash", starts=2, attempts=2, checkpoints=1, crashes=1, hand_backs=2, parallelism=(2,)
    ),
    Bounds("stop", starts=2, attempts=2, checkpoints=1, stops=1),
    Bounds("savepoint", starts=1, attempts=1, checkpoints=2, savepoints=1, afterwards=tuple(Afterwards)),
)
"""Seconds: part of every test run."""

FULL = (
    *SMALL,
    Bounds("late checkpoints", starts=2, attempts=2, checkpoints=3, crashes=1, timeouts=1),
    Bounds("lost answers, give up", starts=2, attempts=2, checkpoints=2, crashes=1, lost_answers=2, timeouts=1),
    Bounds(
        "lost answers, try again", starts=2, attempts=2, checkpoints=2, crashes=1, lost_answers=2, store_tries_max=2
    ),
    Bounds("restarts, crash, zombie", starts=2, attempts=3, checkpoints=2, crashes=1, failures=1),
    Bounds("restarts, lost answers", starts=2, attempts=3, checkpoints=1, failures=1, lost_answers=1),
    Bounds("damage, two drivers", starts=2, attempts=2, checkpoints=2, crashes=1, damages=1, quiet=True, retained=2),
    Bounds("three drivers, a crash", starts=3, attempts=3, checkpoints=1, crashes=1),
    Bounds("two in flight, a crash", starts=2, attempts=2, checkpoints=2, concurrent=2, crashes=1),
    Bounds(
        "two in flight, lost answers", starts=1, attempts=1, checkpoints=3, concurrent=2, lost_answers=1, timeouts=1
    ),
    Bounds("two in flight, restarts", starts=1, attempts=2, checkpoints=3, concurrent=2, failures=1, lost_messages=1),
    Bounds("lost messages, a crash", starts=2, attempts=2, checkpoints=2, crashes=1, lost_messages=1, timeouts=1),
    Bounds("rescale up and down", starts=3, attempts=3, checkpoints=1, crashes=1, parallelism=(1, 2, 1)),
    Bounds("rescale, late checkpoints", starts=2, attempts=2, checkpoints=2, crashes=1, timeouts=1, parallelism=(1, 2)),
    Bounds("two pipelines, restarts", starts=2, attempts=2, checkpoints=1, pipelines=2, failures=1, crashes=1),
    Bounds(
        "savepoint, a crash",
        starts=2,
        attempts=2,
        checkpoints=2,
        crashes=1,
        savepoints=1,
        afterwards=tuple(Afterwards),
    ),
    Bounds(
        "the newest manifest is lost, fall back twice",
        starts=3,
        attempts=3,
        checkpoints=2,
        crashes=1,
        losses=1,
        retained=2,
        fall_back=True,
    ),
    Bounds("an older copy, two checkpoints", starts=2, attempts=2, checkpoints=2, crashes=1, set_backs=1),
    Bounds(
        "an older copy, two checkpoints, fall back",
        starts=2,
        attempts=3,
        checkpoints=2,
        crashes=1,
        set_backs=1,
        fall_back=True,
    ),
    Bounds(
        "an empty copy, restarts, fall back",
        starts=2,
        attempts=3,
        checkpoints=2,
        stops=1,
        failures=1,
        set_backs=1,
        early_copies=True,
        fall_back=True,
    ),
    Bounds(
        "a sink hands back, late checkpoints", starts=2, attempts=2, checkpoints=2, crashes=1, timeouts=1, hand_backs=2
    ),
    Bounds("a sink hands back, restarts, stop", starts=2, attempts=3, checkpoints=1, failures=1, stops=1, hand_backs=2),
    Bounds("savepoint, restarts", starts=1, attempts=2, checkpoints=2, failures=1, savepoints=1, timeouts=1),
)
"""Minutes: ``make model``."""

_HARMFUL = {
    1: Bounds("a zombie commits", starts=2, attempts=2, checkpoints=1, forgets=True),
    2: Bounds("a dead branch", starts=2, attempts=2, checkpoints=1, forgets=True),
    3: Bounds("an answer is lost", starts=1, attempts=1, checkpoints=1, lost_answers=1, forgets=True),
    4: Bounds("a checkpoint times out", starts=1, attempts=1, checkpoints=2, timeouts=1, forgets=True),
    5: Bounds("an abort lands late", starts=2, attempts=2, checkpoints=1, forgets=True),
    6: Bounds("a file vanishes", starts=1, attempts=1, checkpoints=2, damages=1, retained=2, forgets=True),
    7: Bounds("a restart meets a rival", starts=2, attempts=3, checkpoints=1, failures=1, forgets=True),
    8: Bounds("a person asks for a checkpoint", starts=1, attempts=1, checkpoints=1, forgets=True),
    9: Bounds("a chunk is shared", starts=1, attempts=1, checkpoints=2, forgets=True),
}


EMPTY_COPY = Bounds(
    "an empty copy of the location",
    starts=2,
    attempts=2,
    checkpoints=2,
    stops=1,
    failures=1,
    set_backs=1,
    early_copies=True,
    repeats=True,
)
"""Attempts and numbers would be given out again: a target that compares them would skip rows."""
LOST_MANIFEST = next(one for one in SMALL if one.name == "the newest manifest is lost, fall back")


def harmful(rule: int) -> Bounds:
    """The smallest world in which the absence of the rule does harm. A target that remembers would turn some of it into a refusal."""
    return _HARMFUL[rule]
