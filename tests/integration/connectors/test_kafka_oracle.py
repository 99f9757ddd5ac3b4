"""One client of our own beside confluent_kafka, which is its oracle: what either writes the other reads, and brokers tell both the same."""

from __future__ import annotations

import random
import re
import subprocess
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from confluent_kafka import Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]
from tests.integration.connectors.kafka_reading import Reading, fill, kafka_scan
from tests.integration.connectors.kafka_sink_kit import HandSink, rows, sink_node
from tests.servers.kafka import QUIET, Broker

from tidegate.connectors.kafka.config import parse_kafka
from tidegate.connectors.kafka.option_table import DECIDED, TABLE, TRANSLATED, Role
from tidegate.connectors.kafka.sink.columns import HEADERS
from tidegate.connectors.kafka.sink.writer import PlainWriter
from tidegate.connectors.kafka.source.cluster import Cluster
from tidegate.connectors.kafka.source.selection import Pattern
from tidegate.model.errors import DataError
from tidegate.model.ids import CheckpointId
from tidegate.model.types import BINARY, Field, Schema

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SIZES = (0, 1, 11, 12, 13, 127, 128, 700, 20_000)
Headers = list[tuple[str, bytes | None]] | None
Row = tuple[bytes | None, bytes | None, Headers]
WITH_HEADERS: Schema = (Field("key", BINARY), Field("value", BINARY), Field("headers", HEADERS))
TYPES = {
    "key": pl.Binary,
    "value": pl.Binary,
    "headers": pl.List(pl.Struct({"key": pl.String, "value": pl.Binary})),
}


def some_rows(chance: random.Random, count: int) -> list[Row]:
    def some() -> bytes | None:
        return None if chance.random() < 0.1 else chance.randbytes(chance.choice(SIZES))

    def headers() -> Headers:
        names = ("h", "", "grün", "a name of more than twelve bytes")
        return (
            [(chance.choice(names), some()) for _ in range(chance.choice((1, 2, 9)))] if chance.random() < 0.6 else None
        )

    return [(some(), some(), headers()) for _ in range(count)]


def frame(written: list[Row]) -> pl.DataFrame:
    made = [
        (key, value, None if headers is None else [{"key": name, "value": content} for name, content in headers])
        for key, value, headers in written
    ]
    return pl.DataFrame(made, schema=TYPES, orient="row")


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("codec", CODECS)
def test_what_we_write_confluent_reads(kafka: Broker, codec: str, guarantee: str, seed: int) -> None:
    topic, written = kafka.topic(), some_rows(random.Random(seed), 700)
    options = {"kafka_compression_type": codec, "deliveryGuarantee": guarantee}
    node = sink_node(kafka, topic, pipeline=topic, schema=WITH_HEADERS, **options)
    hand = HandSink(node)
    writer = hand.writer() if guarantee == "exactly_once" else PlainWriter(hand.config)
    for begin, end in ((0, 1), (1, 300), (300, 700)):
        writer.write(frame(written[begin:end]))
    if guarantee == "exactly_once":
        hand.commit(1, hand.prepare(1))
    else:
        writer.prepare(CheckpointId(1))
        writer.close()
    hand.close()
    found = kafka.read(topic, len(written))
    assert [(m.key(), m.value(), m.headers()) for m in found] == written


@pytest.mark.parametrize("codec", CODECS)
def test_what_confluent_writes_we_read(kafka: Broker, codec: str, seed: int) -> None:
    topic, written = kafka.topic(), some_rows(random.Random(seed), 700)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET, "compression.type": codec})
    for key, value, headers in written:
        producer.produce(topic, value, key, headers=headers)
    assert producer.flush(60) == 0
    columns = ("key", "value", "headers")
    reading = Reading(kafka_scan(kafka, columns, subscribe=topic, includeHeaders="true"))
    found = reading.until_finished()
    assert found == [tuple(row.values()) for row in frame(written).to_dicts()]
    reading.stop()


@pytest.mark.parametrize("codec", CODECS[1:])
def test_batches_of_many_blocks_are_compressed_so_that_java_reads_them(kafka: Broker, codec: str) -> None:
    """A topic that compresses otherwise makes the broker read and write them anew."""
    topic = kafka.topic(config={"compression.type": "gzip" if codec != "gzip" else "zstd"})
    hand = HandSink(sink_node(kafka, topic, pipeline=topic, kafka_compression_type=codec))
    values = [f"{n} " * 3_000 for n in range(400)]
    hand.writer().write(rows(values))
    hand.commit(1, hand.prepare(1))
    hand.close()
    assert [m.value() for m in kafka.read(topic, len(values))] == [value.encode() for value in values]


def test_messages_take_less_room_when_they_are_compressed(kafka: Broker) -> None:
    topic = kafka.topic(config={"max.message.bytes": "20000"})
    options = {"kafka_compression_type": "zstd", "kafka_compression_zstd_level": "7"}
    hand = HandSink(sink_node(kafka, topic, pipeline=topic, **options))
    hand.write("a text of which there is much " * 10_000)
    hand.commit(1, hand.prepare(1))
    assert len(kafka.read(topic, 1)) == 1
    hand.close()


def test_a_header_without_a_key_is_an_error_of_the_data(kafka: Broker) -> None:
    topic = kafka.topic()
    hand = HandSink(sink_node(kafka, topic, pipeline=topic, schema=WITH_HEADERS))
    nameless = pl.DataFrame([(b"k", b"v", [{"key": None, "value": b""}])], schema=TYPES, orient="row")
    with pytest.raises(DataError, match="has no key"):
        hand.writer().write(nameless)
    hand.close()


def test_names_of_headers_may_be_any_bytes(kafka: Broker) -> None:
    """As before: what is no text is shown with marks in place of it."""
    topic = kafka.topic()
    fill(kafka, topic, ["without"])
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET})
    producer.produce(topic, b"with", headers=[("fine", b"\xff")])
    assert producer.flush(60) == 0
    reading = Reading(kafka_scan(kafka, ("headers",), subscribe=topic, includeHeaders="true"))
    assert reading.until_finished() == [(None,), ([{"key": "fine", "value": b"\xff"}],)]
    reading.stop()


@pytest.mark.parametrize("client", ["producer.ProducerConfig", "consumer.ConsumerConfig"])
def test_every_option_of_javas_client_is_known(kafka: Broker, client: str) -> None:
    """Its class prints a page of them."""
    command = ["java", "-cp", f"{kafka.jars}/*", f"org.apache.kafka.clients.{client}"]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r'<a id="(?:\w+configs_)?([\w.]+)"', page))
    assert len(names) > 50
    assert names - {*TABLE, *TRANSLATED, *DECIDED[Role.SOURCE], *DECIDED[Role.SINK]} == set()


def cluster(kafka: Broker, topic: str, **options: str) -> Cluster:
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic}
    return Cluster(parse_kafka("kafka", given | {name.replace("_", "."): value for name, value in options.items()}))


def test_topics_have_the_ids_that_splits_have_stored_since_the_first_release(kafka: Broker) -> None:
    """They came from librdkafka then: a restored split is told from a topic that was made again by this text alone."""
    topics = [kafka.topic(partitions=n % 3 + 1) for n in range(40)]
    found = cluster(kafka, topics[0]).described([*topics, "nowhere"])
    described: dict[str, Any] = kafka.admin.describe_topics(TopicCollection(topics))
    theirs = {name: future.result(20) for name, future in described.items()}
    assert {name: one.id for name, one in found.items()} == {name: str(one.topic_id) for name, one in theirs.items()}
    assert {name: len(one.partitions) for name, one in found.items()} == {
        name: len(one.partitions) for name, one in theirs.items()
    }
    assert set("".join(one.id for one in found.values())) & set("+/-_"), "characters in which the alphabets differ"


def test_offsets_are_those_that_confluent_is_told(kafka: Broker) -> None:
    topic = kafka.topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET})
    for number in range(10):
        producer.produce(topic, b"x", partition=0, timestamp=1_000 * (number + 1))
    assert producer.flush(60) == 0
    next(iter(kafka.admin.delete_records([TopicPartition(topic, 0, 3)]).values())).result(20)
    transactional = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET, "transactional.id": topic})
    transactional.init_transactions(60)
    transactional.begin_transaction()
    transactional.produce(topic, b"open", partition=1)
    assert transactional.flush(60) == 0
    places = [(topic, 0), (topic, 1)]
    committed, everything = cluster(kafka, topic), cluster(kafka, topic, kafka_isolation_level="read_uncommitted")

    def theirs(spec: Any) -> dict[tuple[str, int], int]:
        asked = kafka.admin.list_offsets({TopicPartition(*place): spec for place in places})
        return {(at.topic, at.partition): future.result(20).offset for at, future in asked.items()}

    assert committed.earliest(places) == theirs(OffsetSpec.earliest()) == {(topic, 0): 3, (topic, 1): 0}
    assert everything.latest(places) == theirs(OffsetSpec.latest()) == {(topic, 0): 10, (topic, 1): 1}
    assert committed.latest(places) == {(topic, 0): 10, (topic, 1): 0}
    assert committed.at({(topic, 0): 6_500}) == {(topic, 0): 6}
    assert committed.at({(topic, 0): int(datetime.now(UTC).timestamp() * 1_000)}) == {(topic, 0): None}
    transactional.abort_transaction(60)
    assert topic in committed.matching(Pattern(f"{topic[:3]}.*"))
    assert not [name for name in committed.matching(Pattern(".*")) if name.startswith("__")]
