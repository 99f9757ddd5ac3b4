"""When ``processAllAvailable`` may return: everything is read, counts, and the slots know what time it is."""

from __future__ import annotations

import logging
import threading
from itertools import count
from typing import Any

import pytest

from tidegate.model.holding import Holder, HoldReason
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.messages import SlotProgress
from tidegate.spark.holding import Hold
from tidegate.spark.settling import SLOW_MS, wait_until_read
from tidegate.spark.status import JobStatus

SOURCE = OperatorId("source-0")


class Looking:
    """A discovery in which every look is over at once."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self) -> threading.Event:
        self.looks += 1
        done = threading.Event()
        done.set()
        return done


class Master:
    """One slot that has read everything. Event time rests after ``rests_after`` looks."""

    def __init__(self, *, rests_after: int) -> None:
        self.ended = threading.Event()
        self.status = JobStatus()
        self.discovery = Looking()
        self.holds = (Hold(Holder(source=SOURCE, reason=HoldReason.LOOK, count=0), 0),)
        self.questions = count(1)
        self.rests_after = rests_after

    def ask_reports(self, *, poll: bool) -> int:
        number = next(self.questions)
        resting = self.discovery.looks >= self.rests_after
        self.status.update(asked=number, unassigned=False, resting=resting)
        answer = SlotProgress(attempt=Attempt(1), slot=SlotIndex(0), idle_sources=(SOURCE,), answers=number)
        self.status.on_progress(answer)
        return number


def settle(master: Any, clock: Any = lambda: 0) -> None:
    wait_until_read(master, frozenset({SOURCE}), 1, clock)


def test_it_looks_again_until_what_was_read_counts() -> None:
    """The look that finds the last file does not know yet that it was the last one."""
    master = Master(rests_after=3)
    settle(master)
    assert master.discovery.looks == 3


def test_one_look_is_enough_where_nothing_is_held() -> None:
    master = Master(rests_after=0)
    settle(master)
    assert master.discovery.looks == 1


def test_when_it_takes_long_it_says_who_keeps_everybody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    moments = count(0, SLOW_MS)
    with caplog.at_level(logging.INFO, "tidegate"):
        settle(Master(rests_after=3), lambda: next(moments))
    assert "processAllAvailable() has waited for 10 s: event time is held back by source-0" in caplog.text
