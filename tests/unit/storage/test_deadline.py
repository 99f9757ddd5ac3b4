"""A call that never returns is given up in time; so is one step of many, and none after it begins."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tidegate.storage.deadline import Late, each_within, within


def test_answers_and_errors_pass() -> None:
    assert within(20, lambda: 7) == 7
    with pytest.raises(KeyError):
        within(20, lambda: {}["x"])


def test_a_call_that_does_not_return_is_late() -> None:
    never = threading.Event()
    with pytest.raises(Late):
        within(0.05, never.wait)
    never.set()


def test_each_step_has_the_whole_time() -> None:
    done: list[int] = []

    def steps() -> Iterator[None]:
        for number in range(5):
            threading.Event().wait(0.01)
            done.append(number)
            yield

    each_within(20, steps())
    assert done == [0, 1, 2, 3, 4]


def test_after_a_late_step_no_other_begins() -> None:
    go_on, ended, done = threading.Event(), threading.Event(), []

    def steps() -> Iterator[None]:
        try:
            done.append("first")
            yield
            go_on.wait()
            done.append("late")
            yield
            done.append("never")
        finally:
            ended.set()

    with pytest.raises(Late):
        each_within(0.1, steps())
    go_on.set()
    assert ended.wait(20)
    assert done == ["first", "late"]
