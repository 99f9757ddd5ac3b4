"""Commits to a table that others change at the same time."""

from __future__ import annotations

import pytest

from tidegate.connectors.lake.racing import TRIES_MAX, until_accepted
from tidegate.model.errors import CorruptSnapshot, Unavailable


class Refused(Exception):
    pass


class Table:
    """Refuses so many commits: somebody else was quicker."""

    def __init__(self, refusals: int) -> None:
        self._refusals = refusals
        self.tries = 0

    def commit(self) -> None:
        self.tries += 1
        if self.tries <= self._refusals:
            raise Refused("somebody else was quicker")


def test_a_refused_commit_is_tried_again() -> None:
    table = Table(refusals=TRIES_MAX - 1)
    until_accepted(table.commit, (Refused,), "table t")
    assert table.tries == TRIES_MAX


def test_after_so_many_refusals_the_coordinator_hears_of_it() -> None:
    table = Table(refusals=10**6)
    with pytest.raises(Unavailable, match=f"table t refused {TRIES_MAX} tries to commit: somebody else") as raised:
        until_accepted(table.commit, (Refused,), "table t")
    assert table.tries == TRIES_MAX and "tried again" in raised.value.hint


def test_what_is_no_refusal_is_not_tried_again() -> None:
    tries: list[int] = []

    def commit() -> None:
        tries.append(1)
        raise CorruptSnapshot("a file is gone")

    with pytest.raises(CorruptSnapshot):
        until_accepted(commit, (Refused,), "table t")
    assert len(tries) == 1
