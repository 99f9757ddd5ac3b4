"""What sources hear besides questions: what is done, and that the attempt is over."""

from __future__ import annotations

import queue
import threading

import pytest
from tests.unit.spark.test_discovery import PATIENCE_S, SOURCE, Endless

from tidegate.checkpoint.events import AttemptFailed, Event
from tidegate.model.ids import Attempt
from tidegate.spark import letting_go
from tidegate.spark.discovery import Discovery

NEVER_MS = 3_600_000


class Acknowledging(Endless):
    """Writes down what it hears. ``told``: it has told everything with its first look."""

    holds = True

    def __init__(self, *, told: bool = False) -> None:
        super().__init__()
        self.bounded = told
        self.heard: queue.Queue[str] = queue.Queue()
        self.may_close = threading.Event()
        self.may_close.set()

    def forget(self, below: int) -> None:
        self.heard.put(f"done below {below}")

    def close(self) -> None:
        self.may_close.wait(PATIENCE_S)
        self.heard.put("closed")


def discovery_of(source: Endless, inbox: queue.Queue[Event], **options: Discovery) -> Discovery:
    return Discovery(Attempt(1), lambda: {SOURCE: source}, None, NEVER_MS, inbox.put, **options)


def test_a_source_that_has_told_everything_still_hears_what_is_done() -> None:
    source, inbox = Acknowledging(told=True), queue.Queue[Event]()
    discovery = discovery_of(source, inbox)
    inbox.get(timeout=PATIENCE_S)
    for below in (1, 2):
        discovery.forget(SOURCE, below)
        assert source.heard.get(timeout=PATIENCE_S) == f"done below {below}"
    discovery.stop()
    discovery.wait_closed()
    assert source.heard.get_nowait() == "closed"


@pytest.mark.parametrize("told", [False, True])
def test_what_is_done_when_the_attempt_ends_is_heard_before_the_source_is_closed(told: bool) -> None:
    source, inbox = Acknowledging(told=told), queue.Queue[Event]()
    discovery = discovery_of(source, inbox)
    inbox.get(timeout=PATIENCE_S)
    discovery.forget(SOURCE, 7)
    discovery.stop()
    discovery.wait_closed()
    assert [source.heard.get_nowait() for _ in range(2)] == ["done below 7", "closed"]


def test_the_next_attempt_makes_its_sources_when_those_of_the_last_are_closed() -> None:
    first, inbox = Acknowledging(), queue.Queue[Event]()
    first.may_close.clear()
    before = discovery_of(first, inbox)
    inbox.get(timeout=PATIENCE_S)
    before.stop()
    made = threading.Event()

    def make() -> dict[str, Endless]:
        assert first.heard.get_nowait() == "closed"
        made.set()
        return {SOURCE: Endless()}

    after = Discovery(Attempt(2), make, None, NEVER_MS, inbox.put, before=before)  # type: ignore[arg-type]
    first.may_close.set()
    assert made.wait(PATIENCE_S)
    after.stop()


def test_a_source_that_does_not_close_is_named_and_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source, inbox = Acknowledging(), queue.Queue[Event]()
    source.may_close.clear()
    discovery = discovery_of(source, inbox)
    inbox.get(timeout=PATIENCE_S)
    monkeypatch.setattr(letting_go, "CLOSE_S", 0.0)
    discovery.stop()
    discovery.wait_closed()
    assert f"{SOURCE}: not closed" in caplog.text
    source.may_close.set()


def test_a_source_that_cannot_take_what_is_done_fails_the_attempt() -> None:
    class Refusing(Acknowledging):
        def forget(self, below: int) -> None:
            raise OSError("the queue is gone")

    for told in (False, True):
        inbox: queue.Queue[Event] = queue.Queue()
        discovery = discovery_of(Refusing(told=told), inbox)
        inbox.get(timeout=PATIENCE_S)
        discovery.forget(SOURCE, 1)
        if not told:
            discovery.look()
        failed = inbox.get(timeout=PATIENCE_S)
        assert isinstance(failed, AttemptFailed) and "the queue is gone" in failed.failure.message
        discovery.stop()


def test_what_fails_when_the_attempt_is_over_is_logged_and_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(Acknowledging):
        def close(self) -> None:
            raise OSError("the connection was gone already")

    inbox: queue.Queue[Event] = queue.Queue()
    discovery = discovery_of(Stubborn(told=True), inbox)
    inbox.get(timeout=PATIENCE_S)
    discovery.stop()
    discovery.wait_closed()
    assert inbox.empty() and "the connection was gone already" in caplog.text


def test_sources_that_hold_nothing_are_not_waited_for() -> None:
    inbox: queue.Queue[Event] = queue.Queue()
    discovery = discovery_of(Endless(), inbox)
    inbox.get(timeout=PATIENCE_S)
    discovery.wait_closed()
    discovery.stop()
