"""Looks of the Kafka source for partitions, through the discovery of an attempt."""

from __future__ import annotations

import queue
from collections.abc import Collection, Iterator
from typing import cast

import pytest
from tests.unit.connectors.test_kafka_options import parsed

from tidegate.checkpoint.events import AttemptFailed, Event, SplitsDiscovered
from tidegate.connectors.kafka.source import enumerator as looks
from tidegate.connectors.kafka.source.cluster import Cluster, Topic
from tidegate.connectors.kafka.source.enumerator import KafkaEnumerator
from tidegate.connectors.kafka.source.selection import Place
from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, OperatorId
from tidegate.spark.discovery import Discovery

PATIENCE_S = 10
SOURCE = OperatorId("source-0")


class Brokers:
    """One topic of one partition, which can be made again, on brokers that can fall silent."""

    def __init__(self) -> None:
        self.topic_id = "first"
        self.silent = False

    def described(self, names: Collection[str]) -> dict[str, Topic]:
        if self.silent:
            raise Unavailable("no answer from Kafka")
        return {"clicks": Topic("clicks", self.topic_id, (0,))}

    def close(self) -> None:
        pass

    def latest(self, places: Collection[Place]) -> dict[Place, int]:
        return dict.fromkeys(places, 5)


@pytest.fixture(autouse=True)
def every_look_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "LOOK_MS", 0)


@pytest.fixture
def watched() -> Iterator[tuple[Brokers, Discovery, queue.Queue[Event]]]:
    brokers, inbox = Brokers(), queue.Queue[Event]()
    config = parsed(subscribe="clicks", failOnDataLoss="false")
    source = KafkaEnumerator(config, cast("Cluster", brokers), bounded=False)
    discovery = Discovery(Attempt(1), lambda: {SOURCE: source}, None, 1, inbox.put)
    first = inbox.get(timeout=PATIENCE_S)
    assert isinstance(first, SplitsDiscovered) and len(first.splits) == 1
    yield brokers, discovery, inbox
    discovery.stop()


def test_a_topic_made_again_ends_the_attempt_so_that_the_next_one_reads_it_from_its_beginning(
    watched: tuple[Brokers, Discovery, queue.Queue[Event]],
) -> None:
    brokers, _, inbox = watched
    brokers.topic_id = "second"
    while isinstance(event := inbox.get(timeout=PATIENCE_S), SplitsDiscovered):
        assert not event.found
    assert isinstance(event, AttemptFailed)
    assert event.failure.retryable and "after a restart" in event.failure.message


def test_brokers_that_do_not_answer_have_not_said_that_nothing_is_new(
    watched: tuple[Brokers, Discovery, queue.Queue[Event]],
) -> None:
    """T72."""
    brokers, discovery, _ = watched
    brokers.silent = True
    while not discovery.failing():
        discovery.look().wait(0.01)
    asked = discovery.look()
    assert not asked.wait(0.05), "nobody has been told that all partitions are known"
    brokers.silent = False
    assert asked.wait(PATIENCE_S)


def asked(**options: str) -> str | None:
    return KafkaEnumerator(parsed(**options), cast("Cluster", Brokers()), bounded=False).asked


LATEST = {"subscribe": "b,a", "startingOffsets": "latest"}


@pytest.mark.parametrize(
    "other",
    [
        {"startingTimestamp": "7"},
        {"endingOffsets": "latest"},
        {"endingOffsets": '{"a":{"0":5},"b":{"0":5}}'},
        {"endingTimestamp": "7"},
        {"subscribe": "a"},
        {"subscribe": "a,b,c"},
    ],
    ids=str,
)
def test_other_options_are_recognised_when_the_beginning_was_decided_under_the_old_ones(other: dict[str, str]) -> None:
    """T77: an end, or a topic, that is named later counts."""
    assert asked(**LATEST) != asked(**{**LATEST, **other})


def test_every_way_to_choose_partitions_is_an_answer_of_its_own() -> None:
    ways = [{"subscribe": "a-0"}, {"subscribePattern": "a-0"}, {"assign": '{"a":[0]}'}, {"assign": '{"a":[0,1]}'}]
    assert len({asked(**way, startingOffsets="latest") for way in ways}) == len(ways)


def test_the_same_options_in_other_words_are_the_same_answer() -> None:
    assert asked(**LATEST) == asked(subscribe="a, b", startingOffsets=" Latest ")
    one, other = ('{"a":[0,1],"b":[0]}', '{"b": [0], "a": [1, 0]}')
    assert asked(assign=one, startingOffsets="latest") == asked(assign=other, startingOffsets="latest")


def test_an_end_that_moves_is_decided_with_the_beginning_and_a_stream_from_the_earliest_offset_needs_no_decision() -> (
    None
):
    assert asked(subscribe="a", startingOffsets="earliest") is None
    assert asked(subscribe="a", startingOffsets="earliest", endingOffsets="latest") is not None
