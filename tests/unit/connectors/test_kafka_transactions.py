"""Names of Kafka transactions, when they are free again, and how we log in: without a broker."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.nodes import planned_sink, scan_node

from tidegate.connectors.kafka.client.brokers import addresses
from tidegate.connectors.kafka.protocol.codec import MalformedAnswer, Reader, string, varint
from tidegate.connectors.kafka.protocol.login import NotTrusted, scram
from tidegate.connectors.kafka.protocol.metadata import find_coordinator
from tidegate.connectors.kafka.protocol.requests import Address
from tidegate.connectors.kafka.sink.id_pool import IdPool
from tidegate.connectors.kafka.sink.names import TransactionNames
from tidegate.connectors.legacy import PIPELINE, Sink
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.types import STRING, Field
from tidegate.plan.identity import pin_all

VALUE = (Field("value", STRING),)
INPUT = scan_node("rate", {}, VALUE)


def node(pipeline: str, sink: str) -> Sink:
    return Sink(
        id=OperatorId(sink),
        format="kafka",
        options={PIPELINE: pipeline},
        columns=(("value", "value"),),
        schema=VALUE,
    )


def names(pipeline: str, sink: str) -> TransactionNames:
    return TransactionNames.of(node(pipeline, sink), "tidegate")


def test_no_two_sinks_share_a_name() -> None:
    """T55: whatever their ids are made of, no prefix begins another."""
    pairs = [("p", "s"), ("p", "s/1"), ("p/s", "1"), ("p", "s-1"), ("p", "s%2F1"), ("ps", ""), ("p", "s ")]
    prefixes = [names(*pair).prefix for pair in pairs]
    for one in prefixes:
        assert [other for other in prefixes if other.startswith(one)] == [one]


def test_two_sinks_of_one_pipeline_cannot_be_given_one_name() -> None:
    """T55: refused before anything runs; they would commit and abort each other's transactions."""
    sinks = (
        planned_sink(replace(node("p", name), options={"kafka.bootstrap.servers": "b:1", "topic": "t"}))
        for name in ("one", "two")
    )
    plans = tuple(replace(sink, inputs=(INPUT,)) for sink in sinks)
    with pytest.raises(InvalidQuery, match="two operators would be called 'same'"):
        pin_all(plans, {"one": "same", "two": "same"})


def test_a_name_says_whose_attempt_it_is() -> None:
    ours = names("pipeline", "sink")
    assert ours.attempt_of(ours.name(Attempt(7), SlotIndex(3), 2)) == 7
    assert ours.attempt_of(ours.name(Attempt(12_345_678), SlotIndex(3), 2)) == 12_345_678
    assert ours.attempt_of(ours.probe) is None
    for foreign in ("", "tidegate/pipeline/sink/1/2", "tidegate/pipeline/sink/1/2/x", "other/pipeline/sink/1/2/3"):
        assert ours.attempt_of(foreign) is None


def test_an_id_is_free_when_a_checkpoint_without_it_is_committed() -> None:
    """Its own commit being known is not enough: the marker may be missing, and recovery commits once more."""
    pool = IdPool()
    first = pool.take()
    pool.barrier(CheckpointId(1))
    pool.prepared(first, CheckpointId(1))
    pool.barrier(CheckpointId(2))  # The snapshot of 2 is taken before anybody hears of the commit of 1: it carries it.
    pool.committed(CheckpointId(1))
    assert pool.take() == 1
    pool.committed(CheckpointId(2))
    assert pool.take() == 2
    pool.barrier(CheckpointId(3))
    pool.committed(CheckpointId(3))
    assert pool.take() == first


def test_a_pool_stays_small_and_a_lost_notice_is_made_up_for() -> None:
    pool = IdPool()
    for checkpoint in range(1, 200):
        k = pool.take()
        pool.barrier(CheckpointId(checkpoint))
        pool.prepared(k, CheckpointId(checkpoint))
        if checkpoint % 3:
            pool.committed(CheckpointId(checkpoint))
    assert pool.size <= 5


def test_an_id_of_a_checkpoint_that_failed_is_not_free() -> None:
    pool = IdPool()
    taken = [pool.take() for _ in range(3)]
    for checkpoint, k in enumerate(taken, 1):
        pool.barrier(CheckpointId(checkpoint))
        pool.prepared(k, CheckpointId(checkpoint))
    assert pool.take() == 3  # None of the three was ever committed.


def test_scram_is_the_standards() -> None:
    """The example of RFC 7677."""
    conversation = scram("user", "pencil", "sha256", nonce="rOprNGfwEbeRWgbNEkqO")
    assert next(conversation) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert conversation.send(challenge).endswith(proof)
    with pytest.raises(StopIteration):
        conversation.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=somebody else's,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=nonce and more,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        b"r=nonce and more,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999",
        b"nonsense",
    ],
)
def test_a_broker_that_is_not_to_be_trusted_gets_no_proof(challenge: bytes) -> None:
    conversation = scram("user", "pencil", "sha256", nonce="nonce")
    next(conversation)
    with pytest.raises(NotTrusted):
        conversation.send(challenge)


def test_a_broker_has_to_prove_that_it_knows_the_password() -> None:
    conversation = scram("user", "pencil", "sha256", nonce="nonce")
    next(conversation)
    conversation.send(b"r=nonce and more,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(NotTrusted):
        conversation.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_an_answer_that_is_cut_short_is_malformed() -> None:
    for data in (b"", b"\x00\x00\x00\x01", b"\x00\x00\x00\x01\x00" + b"\x00" * 4 + varint(2) + string("id")):
        with pytest.raises(MalformedAnswer):
            find_coordinator("id").decode(data)
    with pytest.raises(MalformedAnswer):
        Reader(varint(3) + b"\xff\xfe").text()


def test_bootstrap_servers_are_read_as_librdkafka_does() -> None:
    assert addresses("a:1, b:2,c") == (Address("a", 1), Address("b", 2), Address("c", 9092))
    assert addresses("[::1]:9093,PLAINTEXT://d:4") == (Address("::1", 9093), Address("d", 4))
    for wrong in ("a:b", ":1"):
        with pytest.raises(InvalidQuery):
            addresses(wrong)
