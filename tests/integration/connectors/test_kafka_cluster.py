"""Several brokers: transactions are kept by others than the one we know, and move when one dies."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.integration.connectors.kafka_reading import ENDLESS, Reading, fill, kafka_scan
from tests.integration.connectors.kafka_sink_kit import HandSink, sink_node, values
from tests.servers.kafka import Broker, kafka_cluster
from tests.servers.processes import free_ports
from tests.servers.proxy import proxy_to

from tidegate.connectors.kafka.client.groups import Groups
from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.connectors.kafka.protocol.requests import Address
from tidegate.connectors.kafka.sink.names import decode
from tidegate.model.errors import TidegateError, Unavailable
from tidegate.model.ids import Attempt
from tidegate.model.snapshot import Committable

SUBTASKS = 8
SECONDS_MAX = 120.0


def commit_as_a_driver(hand: HandSink, committables: tuple[Committable, ...]) -> None:
    """Again and again, as long as the error says that it may pass; what was handed back alone."""
    until = time.monotonic() + SECONDS_MAX
    while True:
        trouble: TidegateError
        try:
            handed_back = hand.committer.commit(committables)
            if handed_back is None:
                return
            committables, trouble = handed_back
        except Unavailable as error:
            trouble = error
        if time.monotonic() > until:
            raise trouble


def prepared(hand: HandSink, checkpoint: int) -> tuple[Committable, ...]:
    for subtask in range(SUBTASKS):
        hand.write(f"{checkpoint}-{subtask}", subtask=subtask)
    return tuple(one for subtask in range(SUBTASKS) for one in hand.prepare(checkpoint, subtask))


def keepers(hand: HandSink, committables: tuple[Committable, ...]) -> dict[str, int]:
    """Transactional id → port of its coordinator."""
    names = [decode(one.payload).transactional_id for one in committables]
    return {name: hand.wire._coordinator(name).port for name in names}


def port_of(broker: Broker) -> int:
    return int(broker.bootstrap.rpartition(":")[2])


def test_a_coordinator_that_has_moved_is_looked_for_again(kafka: Broker) -> None:
    """Others may still name the one that died: what they said is forgotten when it does not answer."""
    topic = kafka.topic()
    hand = HandSink(sink_node(kafka, topic, pipeline=topic))
    hand.write("a")
    committables = hand.prepare(1)
    (nobody,) = free_ports(1)
    hand.committer._wire._coordinators = {name: Address("127.0.0.1", nobody) for name in keepers(hand, committables)}
    hand.commit(1, committables)
    assert values(kafka, topic, 1) == ["a"]
    hand.close()


def test_the_brokers_that_the_options_name_may_die_once_the_others_are_known(kafka: Broker) -> None:
    topic = kafka.topic()
    with proxy_to(port_of(kafka)) as named:
        wire = Transactions({"bootstrap.servers": f"127.0.0.1:{named.port}"}, patience_s=20.0)
        assert wire.initialise(f"{topic}-1", 60_000).epoch == 0
    assert wire.initialise(f"{topic}-2", 60_000).epoch == 0
    wire.close()


def test_a_note_is_kept_also_when_the_brokers_that_the_options_name_have_died(kafka: Broker) -> None:
    topic = kafka.topic()
    with proxy_to(port_of(kafka)) as named:
        groups = Groups({"bootstrap.servers": f"127.0.0.1:{named.port}"}, patience_s=5.0)
        groups.write(f"{topic}-1", (topic, 0), "first")
    groups.close()
    groups.write(f"{topic}-2", (topic, 0), "second")
    assert [groups.read(f"{topic}-{n}")[topic, 0] for n in (1, 2)] == ["first", "second"]
    groups.close()


@pytest.mark.soak
def test_transactions_prepared_before_their_coordinator_died_are_committed_by_the_next_one(tmp_path: Path) -> None:
    """And the broker that died is the only one the options name."""
    with kafka_cluster(tmp_path) as (controller, named, other):
        topic = controller.topic(partitions=3, replicas=3)
        hand = HandSink(sink_node(named, topic))
        first = prepared(hand, 1)
        kept_by = keepers(hand, first)
        assert set(kept_by.values()) - {port_of(named)}, "some are kept by a broker that the options do not name"
        assert port_of(named) in kept_by.values(), "some are kept by the one that dies"
        hand.commit(1, first)
        second = prepared(hand, 2)
        # As a committer that has asked before: it knows who kept them, and has connections.
        hand.committer._wire = Transactions(hand.config.client, patience_s=1.0)
        for name in keepers(hand, second):
            hand.committer._wire.describe(name)
        named.kill()
        commit_as_a_driver(hand, second)
        expected = sorted(f"{checkpoint}-{subtask}" for checkpoint in (1, 2) for subtask in range(SUBTASKS))
        assert values(controller, topic, len(expected), seconds=SECONDS_MAX) == expected
        hand.committer.sweep(Attempt(2), ())
        assert hand.committer._wire.open_ids(hand.names.prefix) == ()
        hand.close()
        assert other.is_up()


@pytest.mark.soak
def test_a_source_goes_on_when_the_leader_of_some_partitions_dies(tmp_path: Path) -> None:
    """And it is the only broker that the options name."""
    partitions, rows = 6, 100
    with kafka_cluster(tmp_path) as (controller, named, other):
        topic = controller.topic(partitions=partitions, replicas=3)
        reading = Reading(kafka_scan(named, ("partition", "value"), subscribe=topic), ENDLESS)
        for round_number in range(2):
            for partition in range(partitions):
                fill(controller, topic, range(round_number * rows, (round_number + 1) * rows), partition)
            reading.until((round_number + 1) * rows * partitions)
            if not round_number:
                named.kill()
        for partition in range(partitions):
            found = [value for number, value in reading.rows if number == partition]
            assert found == [b"%d" % n for n in range(2 * rows)], "each once, and in order"
        reading.stop()
        assert other.is_up()
