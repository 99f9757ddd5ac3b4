"""Discovery between the enumerators of an attempt and its coordinator."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from tidegate.checkpoint.events import AttemptFailed, Event, SplitsDiscovered
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import Split
from tidegate.spark.discovery import Discovery

SOURCE = OperatorId("source-0")
PATIENCE_S = 10


class Endless:
    """One more split at every look; a snapshot names the first and the last that are remembered."""

    bounded = False

    def __init__(self) -> None:
        self.first = 0
        self.stop = 0

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        self.stop += 1
        return (Split(number=self.stop - 1, payload=b""),)

    def snapshot(self) -> bytes:
        return b"%d %d" % (self.first, self.stop)

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        raise NotImplementedError

    def forget(self, below: int) -> None:
        self.first = below


@pytest.fixture
def posted() -> Iterator[tuple[Discovery, queue.Queue[Event]]]:
    inbox: queue.Queue[Event] = queue.Queue()
    discovery = Discovery(Attempt(1), lambda: {SOURCE: Endless()}, None, 1, inbox.put)
    yield discovery, inbox
    discovery.stop()


def test_a_forgotten_split_is_missing_from_later_snapshots_only(
    posted: tuple[Discovery, queue.Queue[Event]],
) -> None:
    discovery, inbox = posted
    first = inbox.get(timeout=PATIENCE_S)
    assert isinstance(first, SplitsDiscovered)
    assert first.state == b"0 1"
    discovery.forget(SOURCE, 1)
    for _ in range(1_000):
        event = inbox.get(timeout=PATIENCE_S)
        assert isinstance(event, SplitsDiscovered)
        if event.state.startswith(b"1 "):
            return
    pytest.fail("the source still remembers what it was told to forget")


def test_a_look_on_demand_finds_what_was_there_without_waiting_for_the_interval() -> None:
    inbox: queue.Queue[Event] = queue.Queue()
    discovery = Discovery(Attempt(1), lambda: {SOURCE: Endless()}, None, 3_600_000, inbox.put)
    inbox.get(timeout=PATIENCE_S)
    for number in range(1, 4):
        assert discovery.look().wait(PATIENCE_S)
        found = inbox.get_nowait()
        assert isinstance(found, SplitsDiscovered)
        assert [split.number for split in found.splits] == [number], "posted before the look is said to be over"
    discovery.stop()


def test_a_look_at_a_source_that_has_told_everything_is_over_at_once() -> None:
    class Finite(Endless):
        bounded = True

    inbox: queue.Queue[Event] = queue.Queue()
    discovery = Discovery(Attempt(1), lambda: {SOURCE: Finite()}, None, 3_600_000, inbox.put)
    assert discovery.look().wait(PATIENCE_S)
    assert discovery.look().wait(PATIENCE_S)
    assert inbox.qsize() == 1


def test_a_look_is_never_over_when_discovery_fails() -> None:
    class Broken(Endless):
        def discover(self, now_ms: int) -> tuple[Split, ...]:
            raise OSError("no such host")

    inbox: queue.Queue[Event] = queue.Queue()
    discovery = Discovery(Attempt(1), lambda: {SOURCE: Broken()}, None, 1, inbox.put)
    looked = discovery.look()
    assert isinstance(inbox.get(timeout=PATIENCE_S), AttemptFailed)
    assert not looked.is_set() and not discovery.look().is_set()
