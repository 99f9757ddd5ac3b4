"""What PostgreSQL and Kafka's brokers remember of a sink's output: asked at every start, by whoever starts."""

from __future__ import annotations

import psycopg
import pytest
from tests.integration.connectors.kafka_sink_kit import HandSink, sink_node
from tests.integration.connectors.postgres_sinks import committer, numbers, sink_to, wrote
from tests.servers.kafka import Broker
from tests.servers.postgres import Server
from tests.servers.processes import free_ports

from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.model.errors import TidegateError, Unavailable
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Published


def published(attempt: int, checkpoint: int) -> Published:
    return Published(Attempt(attempt), CheckpointId(checkpoint))


@pytest.mark.parametrize("strategy", ["prepared", "staged"])
def test_a_ledger_remembers_the_newest_attempt_and_checkpoint(postgres: Server, strategy: str) -> None:
    """T74"""
    sink = sink_to(postgres.database(), commitStrategy=strategy)
    to = committer(sink)
    assert to.published() is None
    first = wrote(sink, numbers(1), 12, attempt=1)
    assert to.published() is None, "prepared is not published"
    to.commit(first)
    assert to.published() == published(1, 12)
    to.commit(wrote(sink, numbers(2), 9, attempt=3) + wrote(sink, numbers(3), 10, attempt=3))
    assert to.published() == published(3, 10), "a later attempt goes on where an earlier one was"
    assert committer(sink_to(sink.options["url"], pipeline="p2")).published() is None
    assert committer(sink_to(sink.options["url"], sink="sink-1")).published() is None


def test_a_ledger_that_cannot_be_read_is_an_error_and_not_an_empty_memory(postgres: Server) -> None:
    sink = sink_to(postgres.database())
    to = committer(sink)
    with psycopg.connect(sink.options["url"], autocommit=True) as connection:
        connection.execute("DROP TABLE tidegate_ledger")
    with pytest.raises(TidegateError, match="cannot read the ledger"):
        to.published()


def test_brokers_remember_attempts_whatever_became_of_their_transactions(hand: HandSink, kafka: Broker) -> None:
    """T74: committed, aborted, or initialised again after a commit: in all of these states the attempt may have published something."""
    assert hand.committer.published() is None, "a sink that was only checked has none"
    hand.write("a")
    hand.commit(1, hand.prepare(1))
    assert hand.committer.published() == published(1, 1), "with the note of its checkpoint"
    later = HandSink(hand.node, attempt=12)
    later.write("b")
    later.close()
    assert hand.committer.published() == published(12, 0), "aborted"
    for name in hand.wire.known_ids(hand.names.prefix):
        hand.wire.initialise(name, 60_000)
    assert hand.committer.published() == published(12, 0), "without a transaction"
    other = HandSink(sink_node(kafka, "any", pipeline="another"))
    assert other.committer.published() is None
    other.close()


def test_brokers_that_do_not_answer_are_an_error_and_not_an_empty_memory(hand: HandSink) -> None:
    (nobody,) = free_ports(1)
    hand.committer._wire = Transactions({**hand.config.client, "bootstrap.servers": f"127.0.0.1:{nobody}"}, 0.5)
    with pytest.raises(Unavailable, match="does not answer"):
        hand.committer.published()
