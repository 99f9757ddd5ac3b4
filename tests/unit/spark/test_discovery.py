"""Discovery between the enumerators of an attempt and its coordinator."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator, Mapping

import pytest

from tidegate.checkpoint.events import AttemptFailed, Event, SplitsDiscovered
from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import Split
from tidegate.ports.source import SplitEnumerator
from tidegate.spark import discovery as discovery_module
from tidegate.spark.discovery import Discovery

SOURCE = OperatorId("source-0")
OTHER = OperatorId("source-1")
ONE_STREAM = dict.fromkeys((SOURCE, OTHER), OperatorId("watermark-0"))
PATIENCE_S = 10


class Endless(SplitEnumerator):
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


class Told(Endless):
    """Does at each look what it is told: a number of splits that it finds, or words of the trouble it has."""

    def __init__(self, *looks: int | str, ordered: bool = False) -> None:
        super().__init__()
        self.looks = list(looks)
        self.ordered = ordered
        self.looked = threading.Semaphore(0)

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        self.looked.release()
        told = self.looks.pop(0) if self.looks else 0
        if isinstance(told, str):
            raise Unavailable(told, hint="look at the network")
        self.stop += told
        return tuple(Split(number=number, payload=b"") for number in range(self.stop - told, self.stop))

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        self.stop = len(known)
        return known


def watch(
    enumerators: Mapping[OperatorId, Endless], interval_ms: int, streams: Mapping[OperatorId, OperatorId] | None = None
) -> tuple[Discovery, queue.Queue[Event]]:
    inbox: queue.Queue[Event] = queue.Queue()
    return Discovery(Attempt(1), lambda: enumerators, None, interval_ms, inbox.put, (streams or {}).get), inbox


def next_found(inbox: queue.Queue[Event]) -> tuple[int, bool]:
    event = inbox.get(timeout=PATIENCE_S)
    assert isinstance(event, SplitsDiscovered)
    return len(event.splits), event.found


def test_the_first_look_that_finds_nothing_more_is_told_and_later_ones_are_not() -> None:
    discovery, inbox = watch({SOURCE: Told(2, 1, 0, 0, 0, 1)}, 1)
    assert [next_found(inbox) for _ in range(5)] == [(2, True), (1, True), (0, False), (1, True), (0, False)]
    discovery.stop()


def test_a_first_look_that_finds_nothing_is_told() -> None:
    discovery, inbox = watch({SOURCE: Told(0, 0, 1, ordered=True)}, 1)
    first = inbox.get(timeout=PATIENCE_S)
    assert isinstance(first, SplitsDiscovered) and not first.found and first.ordered
    assert next_found(inbox) == (1, True)
    discovery.stop()


def test_a_look_that_fails_is_none_and_what_is_there_is_found_by_the_next(caplog: pytest.LogCaptureFixture) -> None:
    """T72: a store that does not list has not said that there is nothing. It is named once, until it answers again."""
    source = Told(2, "cannot list the bucket", "cannot list the bucket", 3, "cannot list the bucket", 0)
    with caplog.at_level(logging.WARNING, "tidegate"):
        discovery, inbox = watch({SOURCE: source}, 1)
        assert [next_found(inbox) for _ in range(3)] == [(2, True), (3, True), (0, False)]
    assert [one for one in caplog.messages if "cannot list the bucket (look at the network)" in one] == caplog.messages
    assert len(caplog.messages) == 2 and not discovery.failing()
    discovery.stop()


def test_who_waits_for_a_look_waits_for_one_that_succeeds_and_can_learn_whose_does_not() -> None:
    class Silent(Told):
        trouble = ""

        def discover(self, now_ms: int) -> tuple[Split, ...]:
            self.looks = [self.trouble] if self.trouble else [1]
            return super().discover(now_ms)

    source = Silent()
    discovery, inbox = watch({SOURCE: source}, 3_600_000)
    assert next_found(inbox) == (1, True)
    source.looked.acquire(timeout=PATIENCE_S)
    source.trouble = "no answer"
    asked: list[threading.Event] = []
    for _ in range(2):  # The second look begins when the first is over.
        asked.append(discovery.look())
        source.looked.acquire(timeout=PATIENCE_S)
    (trouble,) = discovery.failing().values()
    assert trouble.message == "no answer" and not any(one.is_set() for one in asked) and inbox.empty()
    source.trouble = ""
    assert all(one.wait(PATIENCE_S) for one in asked), "it is tried again by itself"
    assert next_found(inbox) == (1, True) and not discovery.failing()
    discovery.stop()


class Gated(Told):
    """Answers when it may."""

    def __init__(self, *looks: int | str) -> None:
        super().__init__(*looks)
        self.may_answer = threading.Event()

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        self.may_answer.wait(PATIENCE_S)
        return super().discover(now_ms)


@pytest.mark.parametrize("streams", [{}, {SOURCE: OperatorId("watermark-0"), OTHER: OperatorId("watermark-1")}])
def test_a_slow_source_keeps_no_source_of_another_stream_waiting(streams: Mapping[OperatorId, OperatorId]) -> None:
    slow, quick = Gated(1), Told(1, 1, 1)
    discovery, inbox = watch({SOURCE: slow, OTHER: quick}, 1, streams)
    looked = discovery.look()
    assert [next_found(inbox) for _ in range(4)] == [(1, True), (1, True), (1, True), (0, False)]
    assert not looked.is_set(), "one source has not answered"
    slow.may_answer.set()
    assert looked.wait(PATIENCE_S)
    discovery.stop()


def next_of(inbox: queue.Queue[Event]) -> tuple[OperatorId, int]:
    event = inbox.get(timeout=PATIENCE_S)
    assert isinstance(event, SplitsDiscovered) and event.found == bool(event.splits)
    return event.operator, len(event.splits)


def test_a_burst_in_two_sources_of_a_stream_is_not_over_while_a_look_from_before_it_is_under_way() -> None:
    """T70: one source's next look finds nothing more; what landed in the other, whose look takes long, is of the same burst."""
    began = threading.Event()

    class Quick(Told):
        def discover(self, now_ms: int) -> tuple[Split, ...]:
            if len(self.looks) == 1:
                began.wait(PATIENCE_S)
            return super().discover(now_ms)

    quick = Quick(0, 1)

    class Slow(Told):
        def discover(self, now_ms: int) -> tuple[Split, ...]:
            new = super().discover(now_ms)
            if len(self.looks) == 1:
                began.set()  # It has listed; now the burst lands. The other one gets a chance to go ahead with all its looks.
                for _ in range(4):
                    quick.looked.acquire(timeout=0.1)
            return new

    discovery, inbox = watch({SOURCE: Slow(0, 0, 1), OTHER: quick}, 1, ONE_STREAM)
    assert [next_of(inbox) for _ in range(2)] == [(SOURCE, 0), (OTHER, 0)]
    assert [next_of(inbox) for _ in range(4)] == [(OTHER, 1), (SOURCE, 1), (OTHER, 0), (SOURCE, 0)]
    discovery.stop()


def test_findings_of_a_stream_are_told_before_looks_that_found_nothing() -> None:
    discovery, inbox = watch({SOURCE: Told(0, 0, 2), OTHER: Told(1, 1, 0)}, 1, ONE_STREAM)
    expected = [(OTHER, 1), (SOURCE, 0), (OTHER, 1), (SOURCE, 2), (OTHER, 0), (SOURCE, 0)]
    assert [next_of(inbox) for _ in range(6)] == expected
    discovery.stop()


def test_while_a_source_of_a_stream_fails_findings_of_the_others_are_told_and_nothing_is_said_to_be_complete() -> None:
    """T72: nobody can say what of the burst lies where nobody can look."""
    failing, fine = Told(1, "no answer", "no answer", 1), Told(1, 1, 0)
    discovery, inbox = watch({SOURCE: failing, OTHER: fine}, 1, ONE_STREAM)
    expected = [(SOURCE, 1), (OTHER, 1), (OTHER, 1), (SOURCE, 1), (OTHER, 0), (SOURCE, 0)]
    assert [next_of(inbox) for _ in range(6)] == expected
    discovery.stop()


def test_who_waits_for_a_look_waits_for_a_round_in_which_no_source_of_a_stream_fails() -> None:
    """Each has succeeded since, in the third and the fourth round: in neither was it known of both what is there."""
    made: queue.Queue[Discovery] = queue.Queue()
    asked: list[threading.Event] = []
    over_before: list[bool] = []

    class Asking(Told):
        def discover(self, now_ms: int) -> tuple[Split, ...]:
            if len(self.looks) == 4:
                asked.append(made.get(timeout=PATIENCE_S).look())
            elif len(self.looks) == 1:
                over_before.append(asked[0].is_set())
                fifth.set()
            return super().discover(now_ms)

    fifth = threading.Event()
    sources = {SOURCE: Asking(0, 0, "no answer", 0, 0), OTHER: Told(0, 0, 0, "no answer", 0)}
    discovery, _ = watch(sources, 1, ONE_STREAM)
    made.put(discovery)
    assert fifth.wait(PATIENCE_S) and asked[0].wait(PATIENCE_S)
    assert over_before == [False]
    discovery.stop()


def test_a_source_of_a_stream_has_told_everything_when_none_of_the_others_fails() -> None:
    class Ending(Told):
        @property
        def bounded(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
            return not self.looks

    discovery, inbox = watch({SOURCE: Told(1, "no answer", "no answer"), OTHER: Ending(1, 1)}, 1, ONE_STREAM)
    events = [inbox.get(timeout=PATIENCE_S) for _ in range(5)]
    told = [(one.operator, one.found, one.bounded) for one in events if isinstance(one, SplitsDiscovered)]
    assert told[:3] == [(SOURCE, True, False), (OTHER, True, False), (OTHER, True, False)]
    assert told[3:] == [(SOURCE, False, False), (OTHER, False, True)]
    assert discovery.look().wait(PATIENCE_S) and inbox.empty()
    discovery.stop()


def test_a_first_look_that_fails_ends_the_attempt_whatever_else_is_slow() -> None:
    slow = Gated(1)
    discovery, inbox = watch({SOURCE: slow, OTHER: Told("no answer")}, 1, ONE_STREAM)
    assert isinstance(inbox.get(timeout=PATIENCE_S), AttemptFailed)
    slow.may_answer.set()
    slow.looked.acquire(timeout=PATIENCE_S)
    assert not discovery.look().is_set() and inbox.empty()


def test_a_later_look_that_fails_for_good_ends_the_attempt() -> None:
    class Broken(Told):
        def discover(self, now_ms: int) -> tuple[Split, ...]:
            if self.stop:
                raise OSError("no such host")
            return super().discover(now_ms)

    discovery, inbox = watch({SOURCE: Broken(1)}, 1)
    assert next_found(inbox) == (1, True)
    assert isinstance(inbox.get(timeout=PATIENCE_S), AttemptFailed)
    assert not discovery.look().is_set()


def test_a_look_that_is_asked_for_does_not_cut_a_burst_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """T70: the look that finds nothing more says that all of a burst is known."""
    monkeypatch.setattr(discovery_module, "BURST_MS", 3_600_000)
    source = Told(0, 1, 1)
    discovery, inbox = watch({SOURCE: source}, 3_600_000)
    assert next_found(inbox) == (0, False)
    assert discovery.look().wait(PATIENCE_S), "nothing has been found that more may follow"
    assert next_found(inbox) == (1, True)
    assert not discovery.look().wait(0.05) and inbox.empty()
    discovery.stop()
