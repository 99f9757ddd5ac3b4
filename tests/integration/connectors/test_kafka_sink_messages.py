"""What becomes of columns, options and mistakes: the Kafka sink against a real broker, through the registry as queries use it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import polars as pl
import pytest
from tests.integration.connectors.kafka_sink_kit import VALUE, HandSink, rows, sink_node, values
from tests.nodes import ByNode
from tests.servers.kafka import PASSWORD, USER, Broker

from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.connectors.kafka.sink.columns import HEADERS
from tidegate.connectors.kafka.sink_config import parse_sink
from tidegate.connectors.legacy import Sink
from tidegate.connectors.options import COMMIT_WITHIN
from tidegate.model.errors import DataError, InvalidQuery, TidegateError, Unavailable
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.snapshot import Committable
from tidegate.model.types import BINARY, INTEGER, STRING, Field, Schema

CONNECTORS = ByNode()
HEADER = pl.List(pl.Struct({"key": pl.String, "value": pl.Binary}))


def published(node: Sink, *batches: pl.DataFrame) -> None:
    """Start, write, checkpoint, commit."""
    committer = CONNECTORS.committer(node)
    writer = CONNECTORS.sink(node).writer(node, Attempt(1), SlotIndex(0))
    try:
        for batch in batches:
            writer.write(batch)
        payloads = writer.prepare(CheckpointId(1))
        writer.settle(CheckpointId(1))
        committer.commit(
            tuple(
                Committable(checkpoint=CheckpointId(1), subtask=SlotIndex(0), number=n, payload=payload)
                for n, payload in enumerate(payloads)
            )
        )
    finally:
        writer.close()


@pytest.fixture
def topic(kafka: Broker) -> Iterator[str]:
    return kafka.topic(partitions=3)


def test_key_value_partition_topic_and_headers_arrive_as_they_were(kafka: Broker) -> None:
    one, two = kafka.topic(partitions=3), kafka.topic(partitions=3)
    schema: Schema = (
        Field("key", BINARY),
        Field("value", STRING),
        Field("topic", STRING),
        Field("partition", INTEGER),
        Field("headers", HEADERS),
        Field("not written", INTEGER),
    )
    batch = pl.DataFrame(
        {
            "key": [b"k\x00\xff", None, b"", b"k"],
            "value": ["grün", "", None, "plain"],
            "topic": [one, two, one, two],
            "partition": [2, 1, 0, None],
            "headers": [
                [{"key": "h", "value": b"\x01"}, {"key": "h", "value": None}, {"key": "", "value": b""}],
                None,
                [],
                None,
            ],
            "not written": [1, 2, 3, 4],
        },
        schema_overrides={"headers": HEADER, "partition": pl.Int32},
    )
    published(sink_node(kafka, None, pipeline=one, schema=schema), batch)
    first = {m.partition(): m for m in kafka.read(one, 2)}
    second = {m.value(): m for m in kafka.read(two, 2)}
    assert (first[2].key(), first[2].value()) == (b"k\x00\xff", "grün".encode())
    assert first[2].headers() == [("h", b"\x01"), ("h", None), ("", b"")]
    assert (first[0].key(), first[0].value(), first[0].headers()) == (b"", None, None)
    assert (second[b""].key(), second[b""].partition()) == (None, 1)
    assert second[b"plain"].key() == b"k"


def test_whole_columns_keep_nulls_apart_from_empty(kafka: Broker, topic: str) -> None:
    """The same without headers, which goes another way: a block at a time."""
    schema: Schema = (Field("key", STRING), Field("value", BINARY))
    batch = pl.DataFrame({"key": ["a", "", None, None], "value": [b"", None, b"\x00", None]})
    published(sink_node(kafka, topic, pipeline=topic, schema=schema), batch.slice(0, 1), batch.slice(1, 3))
    found = sorted(((m.key(), m.value()) for m in kafka.read(topic, 4)), key=str)
    assert found == sorted([(b"a", b""), (b"", None), (None, b"\x00"), (None, None)], key=str)


def test_a_key_goes_to_the_partition_that_java_clients_choose(kafka: Broker, topic: str) -> None:
    """Hashes of Kafka's own test of its partitioner."""
    murmur2 = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}
    schema: Schema = (Field("key", STRING), Field("value", STRING))
    batch = pl.DataFrame({"key": list(murmur2), "value": list(murmur2)})
    published(sink_node(kafka, topic, pipeline=topic, schema=schema), batch)
    chosen = {(m.key() or b"").decode(): m.partition() for m in kafka.read(topic, 3)}
    assert chosen == {key: (number & 0x7FFFFFFF) % 3 for key, number in murmur2.items()}


@pytest.mark.parametrize("column", ["topic", "partition"])
def test_a_row_that_cannot_be_placed_is_an_error_of_the_data(kafka: Broker, topic: str, column: str) -> None:
    schema: Schema = (Field("value", STRING), Field("topic", STRING), Field("partition", INTEGER))
    row = {"value": "x", "topic": topic, "partition": 0} | {column: None if column == "topic" else 77}
    batch = pl.DataFrame([row], schema={"value": pl.String, "topic": pl.String, "partition": pl.Int32})
    with pytest.raises(DataError, match=column):
        published(sink_node(kafka, None, pipeline=topic, schema=schema), batch)


def test_a_message_that_is_too_large_is_an_error_of_the_data(kafka: Broker, topic: str) -> None:
    with pytest.raises(DataError, match="larger"):
        published(sink_node(kafka, topic, pipeline=topic), rows(["x" * 2_000_000]))


def test_at_least_once_shows_rows_at_once_and_again_after_a_replay(kafka: Broker, topic: str) -> None:
    """T52: it says what it is, and duplicates do occur."""
    node = sink_node(kafka, topic, pipeline=topic, deliveryGuarantee="at-least-once")
    assert CONNECTORS.sink(node).guarantee == "at_least_once"
    CONNECTORS.committer(node)
    for attempt in (1, 2):
        writer = CONNECTORS.sink(node).writer(node, Attempt(attempt), SlotIndex(0))
        writer.write(rows(["a", "b"]))
        assert writer.prepare(CheckpointId(1)) == ()
        writer.close()
    assert values(kafka, topic, 4) == ["a", "a", "b", "b"]


def test_output_prepared_before_the_guarantee_was_changed_is_still_committed(kafka: Broker, topic: str) -> None:
    before = HandSink(sink_node(kafka, topic, pipeline=topic))
    before.write("owed")
    prepared = before.prepare(1)
    before.write("abandoned")
    before.writer()._current.producer.flush()  # type: ignore[union-attr]
    now = sink_node(kafka, topic, pipeline=topic, deliveryGuarantee="at_least_once")
    committer = CONNECTORS.committer(now)
    committer.commit(prepared)
    committer.sweep(Attempt(2), prepared)
    assert values(kafka, topic, 1) == ["owed"]
    assert before.wire.open_ids(before.names.prefix) == ()
    before.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_logs_in_by_java_options(kafka: Broker, topic: str, mechanism: str) -> None:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    jaas = f'org.apache.kafka.common.security.{module} required username="{USER}" password="{PASSWORD}";'
    login = {"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_sasl_mechanism": mechanism}
    node = sink_node(kafka.sasl_bootstrap, topic, pipeline=topic, kafka_sasl_jaas_config=jaas, **login)
    published(node, rows(["secret"]))
    assert values(kafka, topic, 1) == ["secret"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_wrong_credentials_are_said_at_start(kafka: Broker, topic: str, mechanism: str, guarantee: str) -> None:
    node = sink_node(
        kafka.sasl_bootstrap,
        topic,
        deliveryGuarantee=guarantee,
        kafka_security_protocol="SASL_PLAINTEXT",
        kafka_sasl_mechanism=mechanism,
        kafka_sasl_username=USER,
        kafka_sasl_password="guessed",
    )
    began = time.monotonic()
    with pytest.raises(InvalidQuery, match=r"[Aa]uthentication|log in|user name") as error:
        CONNECTORS.committer(node)
    assert "guessed" not in str(error.value)
    assert time.monotonic() - began < 60


def test_an_encrypted_connection_is_made_to_a_broker_that_is_trusted(kafka: Broker, topic: str) -> None:
    trusted = {"kafka_security_protocol": "SSL", "kafka_ssl_ca_location": str(kafka.certificate.trusted)}
    published(sink_node(kafka.tls_bootstrap, topic, pipeline=topic, **trusted), rows(["secret"]))
    assert values(kafka, topic, 1) == ["secret"]


def test_a_broker_that_is_not_trusted_is_said_at_start(
    kafka: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.connectors.kafka.sink.admission.START_SECONDS", 1.0)
    node = sink_node(kafka.tls_bootstrap, topic, pipeline=topic, kafka_security_protocol="SSL")
    with pytest.raises(TidegateError, match="certificate"):
        CONNECTORS.committer(node)
    with pytest.raises(InvalidQuery, match="not trusted"):
        Transactions(parse_sink(node).client).check_versions()


def test_a_missing_topic_is_said_at_start(kafka: Broker) -> None:
    with pytest.raises(InvalidQuery, match="no topic 'missing'"):
        CONNECTORS.committer(sink_node(kafka, "missing"))


def test_a_transaction_that_may_end_before_its_commit_is_refused_at_start(topic: str) -> None:
    """T53: a checkpoint may take its timeout, and the commit wait for a restart."""
    node = sink_node("127.0.0.1:1", topic, kafka_transaction_timeout_ms="60000")
    CONNECTORS.sink(node)
    node = replace(node, options={**node.options, COMMIT_WITHIN: "361000"})
    with pytest.raises(InvalidQuery, match=r"end after 60000 ms.*up to 361000 ms") as raised:
        CONNECTORS.committer(node)
    assert "kafka.transaction.timeout.ms" in raised.value.hint


def test_a_transaction_longer_than_brokers_allow_is_refused_at_start(kafka: Broker, topic: str) -> None:
    """T53. Otherwise every producer would fail, on the executors, one after the other."""
    node = sink_node(kafka, topic, kafka_transaction_timeout_ms="7200000")
    with pytest.raises(InvalidQuery, match=r"transaction\.max\.timeout\.ms is 3600000"):
        CONNECTORS.committer(node)


def test_an_unreachable_broker_is_said_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.connectors.kafka.sink.admission.START_SECONDS", 1.0)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"):
        CONNECTORS.committer(sink_node("127.0.0.1:9", "any"))


def test_brokers_that_take_nothing_are_an_error_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.connectors.kafka.sink.producer.PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr("tidegate.connectors.kafka.sink.transaction.PATIENCE_SECONDS", 0.5)
    for guarantee in ("exactly_once", "at_least_once"):
        node = sink_node("127.0.0.1:9", "any", deliveryGuarantee=guarantee, kafka_queue_buffering_max_messages="10")
        writer = CONNECTORS.sink(node).writer(node, Attempt(1), SlotIndex(0))
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"):
            writer.write(rows(map(str, range(100))))
        writer.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kafka_no_such_option": "1"}, "no.such.option"),
        ({"kafka_batch_size": "big"}, "batch.size"),
        ({"kafka_transactional_id": "mine"}, "transactionalIdPrefix"),
        ({"kafka_acks": "1"}, "acks"),
        ({"kafka_value_serializer": "a.b.C"}, "Java class"),
        ({"deliveryGuarantee": "mostly"}, "deliveryGuarantee"),
        ({"kafka_transaction_timeout_ms": "1h"}, "transaction.timeout.ms"),
        ({"kafka_security_protocol": "SASL_SSL", "kafka_sasl_mechanism": "GSSAPI"}, "GSSAPI"),
        ({"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_sasl_mechanism": "PLAIN"}, "sasl.username"),
    ],
)
def test_an_option_that_cannot_work_is_refused(kafka: Broker, options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidQuery) as error:
        CONNECTORS.committer(sink_node(kafka, "any", **options))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ((Field("v", STRING),), "needs a column 'value'"),
        ((Field("value", INTEGER),), "column 'value' of the Kafka sink is int"),
        ((*VALUE, Field("key", INTEGER)), "column 'key'"),
        ((*VALUE, Field("partition", STRING)), "column 'partition'"),
        ((*VALUE, Field("headers", STRING)), "column 'headers'"),
    ],
)
def test_a_result_that_is_no_message_is_refused(schema: Schema, words: str) -> None:
    with pytest.raises(InvalidQuery, match=words):
        CONNECTORS.sink(sink_node("127.0.0.1:9", "any", schema=schema))


def test_no_topic_at_all_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="which topic"):
        CONNECTORS.sink(sink_node("127.0.0.1:9", None))


def test_what_is_wrong_never_shows_the_password() -> None:
    node = sink_node("127.0.0.1:9", "any", kafka_sasl_username="u", kafka_sasl_password="secret")
    assert "secret" not in repr(parse_sink(node))
    assert issubclass(InvalidQuery, TidegateError)
