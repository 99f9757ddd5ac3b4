"""The note of the newest checkpoint, kept by real brokers: before the commit, over restarts, and with an authorizer that forbids it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import polars as pl
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # pyright: ignore[reportPrivateImportUsage]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from tests.e2e.scenario import wait_until
from tests.integration.connectors.kafka_sink_kit import VALUE, HandSink, sink_node, values
from tests.nodes import ByNode
from tests.servers.kafka import PASSWORD, QUIET, USER, Broker, kafka_broker

from tidegate.connectors.kafka.client.groups import Groups
from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Published
from tidegate.model.types import STRING, Field


def published(attempt: int, checkpoint: int) -> Published:
    return Published(Attempt(attempt), CheckpointId(checkpoint))


def test_a_driver_that_dies_between_note_and_commit_leaves_a_checkpoint_that_is_committed_later(
    hand: HandSink, kafka: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand.write("a")
    prepared = hand.prepare(4)

    def dies(*_: object, **__: object) -> dict[object, int]:
        raise Unavailable("killed")

    with monkeypatch.context() as patched, pytest.raises(Unavailable, match="killed"):
        patched.setattr(Transactions, "end_all", dies)
        hand.commit(4, prepared)
    assert values(kafka, topic, 0) == [], "noted, and not visible yet"
    after = HandSink(hand.node, attempt=2)
    assert after.committer.published() == published(1, 4)
    after.commit(4, prepared)
    after.close()
    assert values(kafka, topic, 1) == ["a"]


def test_the_note_lies_where_tools_see_it_and_is_one_per_sink(hand: HandSink, kafka: Broker, topic: str) -> None:
    """A consumer of another library reads it."""
    for checkpoint in (1, 2, 3):
        hand.write("a")
        hand.commit(checkpoint, hand.prepare(checkpoint))
    tool = Consumer({"bootstrap.servers": kafka.bootstrap, **QUIET, "group.id": f"tidegate/{topic}/sink"})
    (first, second) = tool.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], 60)
    tool.close()
    assert (first.offset, first.metadata) == (0, '{"type":"kafka-note/1","attempt":1,"checkpoint":3}')
    assert not second.metadata
    other = HandSink(sink_node(kafka, topic, pipeline=topic, sink="sink-1"))
    assert other.committer.published() is None
    other.close()


def test_rows_for_many_topics_have_a_note_as_well(kafka: Broker) -> None:
    one, two = kafka.topic(), kafka.topic()
    node = sink_node(kafka, None, pipeline=one, schema=(*VALUE, Field("topic", STRING)))
    hand = HandSink(node)
    hand.writer().write(pl.DataFrame({"value": ["a", "b"], "topic": [one, two]}))
    hand.commit(5, hand.prepare(5))
    hand.close()
    assert HandSink(node).committer.published() == published(1, 5)


# --- rights ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that lets its user do what he was given the rights for."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    directory = tmp_path_factory.mktemp("guarded") / "broker"
    with kafka_broker(directory, session_ms=30_000, properties=properties) as broker:
        yield broker


def allow(broker: Broker, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    """Returns when the broker itself knows it."""
    pattern, user, allowed = ResourcePatternType.PREFIXED, f"User:{USER}", AclPermissionType.ALLOW
    asked = {AclBinding(kind, name, pattern, user, "*", operation, allowed) for operation in operations}
    for done in broker.admin.create_acls([*asked]).values():
        done.result(60)
    wanted = AclBindingFilter(kind, name, pattern, user, None, AclOperation.ANY, AclPermissionType.ANY)
    wait_until(lambda: asked <= {*broker.admin.describe_acls(wanted).result(60)}, f"rights on {name}")


def test_a_user_without_the_right_to_note_anything_writes_exactly_once_as_before(
    guarded: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = guarded.topic()
    allow(guarded, ResourceType.TOPIC, topic, AclOperation.WRITE)
    transactions = [AclOperation.WRITE, AclOperation.DESCRIBE]
    allow(guarded, ResourceType.TRANSACTIONAL_ID, "tidegate/", *transactions)
    node = sink_node(
        guarded.sasl_bootstrap,
        topic,
        pipeline=topic,
        kafka_security_protocol="SASL_PLAINTEXT",
        kafka_sasl_mechanism="PLAIN",
        kafka_sasl_username=USER,
        kafka_sasl_password=PASSWORD,
    )
    ByNode().committer(node)
    hand = HandSink(node)
    with caplog.at_level(logging.WARNING, "tidegate"):
        for checkpoint in (1, 2):
            hand.write(f"{checkpoint}")
            hand.commit(checkpoint, hand.prepare(checkpoint))
        assert hand.committer.published() == published(1, 0)
    (said,) = [one.getMessage() for one in caplog.records if "note" in one.getMessage()]
    assert f"GROUP_AUTHORIZATION_FAILED for consumer group tidegate/{topic}/sink" in said and "right Read" in said

    allow(guarded, ResourceType.GROUP, "tidegate/", AclOperation.READ)
    hand.write("3")
    with caplog.at_level(logging.WARNING, "tidegate"):
        hand.commit(3, hand.prepare(3))
    assert "TOPIC_AUTHORIZATION_FAILED" in caplog.text and hand.committer.published() == published(1, 0)
    allow(guarded, ResourceType.TOPIC, topic, AclOperation.READ)
    hand.write("4")
    hand.commit(4, hand.prepare(4))
    assert hand.committer.published() == published(1, 4)
    hand.close()
    assert values(guarded, topic, 4) == ["1", "2", "3", "4"]
    assert Groups({"bootstrap.servers": guarded.bootstrap}).read(f"tidegate/{topic}/sink").keys() == {(topic, 0)}
