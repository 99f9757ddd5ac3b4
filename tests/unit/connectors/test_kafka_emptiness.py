"""When a Kafka partition counts as empty: only a broker's answer says so, and only for the place up to which rows were handed out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tidegate.connectors.kafka.client import partition_leaders
from tidegate.connectors.kafka.client.brokers import Brokers
from tidegate.connectors.kafka.client.exchange import Outcome
from tidegate.connectors.kafka.client.feeds import NO_LOG, SILENT_SECONDS, Feed, LogEnd
from tidegate.connectors.kafka.client.fetcher import Fetcher
from tidegate.connectors.kafka.client.partition_leaders import APPEAR_SECONDS, PartitionLeaders
from tidegate.connectors.kafka.client.stream import Stream
from tidegate.connectors.kafka.protocol.errors import Code
from tidegate.connectors.kafka.protocol.fetching import Fetch, FetchedPartition, Limits
from tidegate.connectors.kafka.protocol.metadata import TopicLeaders
from tidegate.connectors.kafka.protocol.requests import Address
from tidegate.connectors.kafka.source import emptiness
from tidegate.connectors.kafka.source.emptiness import SLACK_SECONDS, Emptiness
from tidegate.connectors.kafka.source.selection import Place
from tidegate.connectors.kafka.source.splits import EARLIEST

PLACE: Place = ("orders", 3)


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (emptiness, partition_leaders):
        monkeypatch.setattr(module, "time", made)
    return made


# --- what a reader makes of answers ----------------------------------------------------------------------------------


def test_only_answers_count_and_each_of_them_once(clock: Clock) -> None:
    feed = Feed(PLACE)
    of = Emptiness(feed)
    of.nothing(7)
    assert of.answers == 0, "nobody has answered"
    feed.log_end = LogEnd(7, clock.now_s)
    for _ in range(3):
        of.nothing(7)
    assert of.answers == 1, "one answer, however often the reader is asked"
    clock.now_s += 0.1
    feed.log_end = LogEnd(7, clock.now_s)
    of.nothing(7)
    assert of.answers == 2


@pytest.mark.parametrize("end", [6, 8, 1_000])
def test_an_answer_about_another_place_says_nothing(clock: Clock, end: int) -> None:
    """Behind it: rows are known that have not been handed out. Before it: a broker that lags, or has lost its end."""
    feed = Feed(PLACE)
    of = Emptiness(feed)
    feed.log_end = LogEnd(end, clock.now_s)
    of.nothing(7)
    assert of.answers == 0
    assert of.awaits_rows(7) is (end > 7)


def test_an_answer_that_was_given_while_nobody_asked_for_rows_does_not_speak_for_the_time_since(clock: Clock) -> None:
    """The slot is held up for a minute. The broker answered once in its first moment, and then fell silent."""
    feed = Feed(PLACE)
    of = Emptiness(feed)
    feed.log_end = LogEnd(7, clock.now_s)
    of.nothing(7)
    clock.now_s += 0.1
    feed.log_end = LogEnd(7, clock.now_s)
    clock.now_s += 60.0
    of.nothing(7)
    assert of.answers == 1
    feed.log_end = LogEnd(7, clock.now_s)
    of.nothing(7)
    assert of.answers == 2, "the one after it speaks for the whole minute: a log only grows"


def test_a_slot_that_always_comes_late_sees_answers_all_the_same(clock: Clock) -> None:
    """Every batch takes it five seconds: between two answers it seems to be quiet as long as between the looks at them."""
    feed = Feed(PLACE)
    of = Emptiness(feed)
    for seen in range(1, 5):
        feed.log_end = LogEnd(7, clock.now_s)
        clock.now_s += 5.0
        of.nothing(7)
        assert of.answers == seen
    of.rows()
    feed.log_end = LogEnd(9, clock.now_s)
    of.nothing(9)
    feed.log_end = LogEnd(9, clock.now_s)
    clock.now_s += SLACK_SECONDS + 0.1
    of.nothing(9)
    assert of.answers == 5, "measured anew after rows"


def test_who_says_nothing_is_named_after_a_while_and_awaited_from_then_on(clock: Clock) -> None:
    """T72."""
    feed = Feed(PLACE)
    of = Emptiness(feed)
    of.nothing(7)
    assert (of.unanswered(7), of.awaits_rows(7)) == ("", False)
    clock.now_s += SILENT_SECONDS + 0.1
    of.nothing(7)
    assert (of.unanswered(7), of.awaits_rows(7)) == ("no answer", True)
    feed.log_end = LogEnd(7, clock.now_s)
    of.nothing(7)
    assert (of.unanswered(7), of.awaits_rows(7)) == ("", False)
    feed.trouble = "no leader"
    assert (of.unanswered(7), of.awaits_rows(7)) == ("no leader", True)


def test_while_rows_come_nobody_is_silent(clock: Clock) -> None:
    """Brokers are asked about ends only where nothing comes."""
    feed = Feed(PLACE)
    of = Emptiness(feed)
    of.rows()
    clock.now_s += 600.0
    assert of.unanswered(7) == ""
    of.nothing(7)
    assert of.unanswered(7) == "", "asked a moment ago"


def test_rows_of_an_open_transaction_are_there(clock: Clock) -> None:
    """Readable up to 7, written up to 9."""
    feed = Feed(PLACE, end=7)
    of = Emptiness(feed)
    feed.log_end = LogEnd(9, clock.now_s)
    of.nothing(7)
    assert of.answers == 0
    assert of.awaits_rows(7)
    assert of.unanswered(7) == "a transaction is open at offset 7"


def test_a_log_that_is_gone_has_nothing_wherever_its_reader_stands(clock: Clock) -> None:
    for offset in (EARLIEST, 0, 17):
        of = Emptiness(Feed(PLACE, log_end=LogEnd(NO_LOG, clock.now_s)))
        of.nothing(offset)
        assert of.answers == 1
        assert not of.awaits_rows(offset)


# --- the fetcher -----------------------------------------------------------------------------------------------------


class FetcherAlone:
    """What a fetcher makes of answers, its thread asleep."""

    def __init__(self, **options: bool) -> None:
        limits = Limits(wait_ms=100, bytes_min=1, bytes_max=1_000, partition_bytes_max=1_000)
        servers = {"bootstrap.servers": "127.0.0.1:1"}
        self.fetcher = Fetcher(servers, Brokers(servers), limits, 1_000, committed_only=True, **options)
        self.stream = Stream(PLACE)
        self.stream.begin(7)
        self.now_s = 0.0

    def hear(self, answer: Fetch | dict[Place, tuple[int, int]] | None) -> None:
        self.now_s += 1.0
        self.fetcher._heed(Outcome({PLACE: (self.stream, self.stream.version)}, answer, "cut off"), self.now_s)

    def fetched(self, *, end: int, high_watermark: int | None = None, error: int = 0) -> None:
        part = FetchedPartition(
            error, end, end if high_watermark is None else high_watermark, (), (0, 0), diverges=False
        )
        self.hear(Fetch(0, {PLACE: part}, b""))

    def ends_at(self, offset: int, error: int = 0) -> None:
        self.hear({PLACE: (error, offset)})


@pytest.fixture
def alone() -> Iterator[FetcherAlone]:
    made = FetcherAlone()
    yield made
    made.fetcher.close()


def test_a_leader_says_first_that_it_knows_where_the_log_ends(alone: FetcherAlone) -> None:
    """One that leads since a moment ago answers as if nothing were there; asked where the log ends, it refuses."""
    alone.fetched(end=7)
    assert alone.stream.log_end is None and alone.stream.asks_end
    alone.ends_at(-1, Code.OFFSET_NOT_AVAILABLE)
    assert alone.stream.log_end is None and not alone.stream.is_sure
    alone.fetched(end=7)
    alone.ends_at(7)
    assert alone.stream.log_end == LogEnd(7, alone.now_s)
    alone.fetched(end=7)
    assert alone.stream.log_end == LogEnd(7, alone.now_s) and not alone.stream.asks_end


@pytest.mark.parametrize("error", [Code.NOT_LEADER, Code.LEADER_NOT_AVAILABLE, Code.FENCED_LEADER_EPOCH])
def test_after_trouble_an_empty_answer_does_not_count_before_it_is_confirmed(alone: FetcherAlone, error: Code) -> None:
    alone.fetched(end=7)
    alone.ends_at(7)
    confirmed = alone.stream.log_end
    alone.fetched(end=7, error=error)
    assert alone.stream.trouble == error.name
    alone.fetched(end=7)
    assert alone.stream.log_end == confirmed and alone.stream.trouble == ""
    alone.ends_at(9)
    assert alone.stream.log_end == LogEnd(9, alone.now_s), "rows that the former leader had shown to others"


def test_an_answer_that_is_lost_is_none(alone: FetcherAlone) -> None:
    alone.hear(None)
    assert alone.stream.log_end is None and alone.stream.trouble == "cut off"


def test_records_that_cannot_be_read_yet_are_behind_the_end(alone: FetcherAlone) -> None:
    alone.fetched(end=7)
    alone.ends_at(7)
    alone.fetched(end=7, high_watermark=12)
    assert alone.stream.log_end == LogEnd(12, alone.now_s)


def test_a_broker_that_knows_less_than_has_been_read_has_not_answered(alone: FetcherAlone) -> None:
    alone.fetched(end=7)
    alone.ends_at(7)
    alone.fetched(end=5)
    of = Emptiness(alone.stream)
    of.nothing(7)
    assert of.answers == 0


def test_reading_anew_forgets_what_was_said(alone: FetcherAlone) -> None:
    alone.fetched(end=7)
    alone.ends_at(7)
    alone.stream.begin(3)
    assert alone.stream.log_end is None and not alone.stream.is_sure


class Metadata(Brokers):
    """Says of every topic the same."""

    def __init__(self, topic: TopicLeaders) -> None:
        self.topic = topic

    def topics(self, names: Iterable[str]) -> dict[str, TopicLeaders]:
        return dict.fromkeys(names, self.topic)


def test_a_partition_that_nobody_leads_is_named_until_somebody_does(clock: Clock) -> None:
    brokers = Metadata(TopicLeaders(0, {3: None, 4: Address("a", 1)}))
    leaders = PartitionLeaders(brokers)
    assert (leaders.of(PLACE), leaders.why_none(PLACE)) == (None, "")
    leaders.look(clock.now_s)
    assert (leaders.of(PLACE), leaders.why_none(PLACE)) == (None, "no leader")
    brokers.topic = TopicLeaders(0, {3: Address("a", 1)})
    clock.now_s += 60.0
    leaders.look(clock.now_s)
    assert (leaders.of(PLACE), leaders.why_none(PLACE)) == (Address("a", 1), "")


def test_a_topic_is_gone_when_brokers_have_said_so_for_long(clock: Clock) -> None:
    leaders = PartitionLeaders(Metadata(TopicLeaders(Code.UNKNOWN_TOPIC_OR_PARTITION, {})))
    leaders.of(PLACE)
    leaders.look(clock.now_s)
    assert (leaders.why_none(PLACE), leaders.gone_s("orders")) == ("no such topic", None)
    clock.now_s += APPEAR_SECONDS
    assert leaders.gone_s("orders") is None, "nobody has said so since"
    leaders.of(PLACE)
    leaders.look(clock.now_s)
    assert leaders.gone_s("orders") == clock.now_s


@pytest.mark.parametrize("without", [True, False])
def test_a_topic_that_is_gone_is_awaited_unless_the_query_goes_on_without_it(clock: Clock, without: bool) -> None:
    alone = FetcherAlone(without_lost_topics=without)
    alone.fetcher.close()
    leaders = PartitionLeaders(Metadata(TopicLeaders(Code.UNKNOWN_TOPIC_OR_PARTITION, {})))
    alone.fetcher._leaders = leaders
    for _ in range(2):
        leaders.of(PLACE)
        leaders.look(clock.now_s)
        clock.now_s += APPEAR_SECONDS
    alone.fetcher._tell_who_leads(alone.stream)
    of = Emptiness(alone.stream)
    of.nothing(7)
    assert of.answers == without
    assert of.unanswered(7) == ("" if without else "no such topic")
