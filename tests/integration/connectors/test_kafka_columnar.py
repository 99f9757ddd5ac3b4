"""Rows that become messages column by column: written by ours, read by confluent_kafka."""

from __future__ import annotations

import random
import time

import polars as pl
import pytest
from confluent_kafka import Message, Producer
from tests.integration.connectors.kafka_sink_kit import VALUE, HandSink, sink_node, values
from tests.servers.kafka import Broker

from tidegate.model.errors import DataError, InvalidQuery
from tidegate.model.types import BINARY, INTEGER, STRING, Field, Schema

PAIR: Schema = (Field("key", BINARY), Field("value", BINARY))


def pairs_of(found: list[Message], partition: int) -> list[tuple[bytes | None, bytes | None]]:
    return [(m.key(), m.value()) for m in found if m.partition() == partition]


def published(hand: HandSink, *frames: pl.DataFrame) -> None:
    for frame in frames:
        hand.writer().write(frame)
    current = hand.writer()._current
    assert current is not None
    hand.commit(1, hand.prepare(1))


def test_messages_of_all_sizes_arrive_in_order_where_librdkafka_would_have_put_them(kafka: Broker) -> None:
    topic, reference = kafka.topic(partitions=5), kafka.topic(partitions=5)
    chance = random.Random(5)
    lengths = (0, 1, 12, 13, 63, 64, 127, 128, 700, 9_000)
    frames = [
        pl.DataFrame(
            {
                "key": [chance.randbytes(chance.choice(lengths[:-1])) for _ in range(count)],
                "value": [
                    chance.choice((None, chance.randbytes(chance.choice(lengths)), "grün ✓".encode()))
                    for _ in range(count)
                ],
            },
            schema={"key": pl.Binary, "value": pl.Binary},
        )
        for count in (1, 3_000, 2, 500)
    ]
    hand = HandSink(sink_node(kafka, topic, pipeline=topic, schema=PAIR))
    before_ms = time.time_ns() // 1_000_000
    published(hand, *frames)
    hand.close()
    library = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
    for key, value in pl.concat(frames).iter_rows():
        library.produce(reference, value, key)
    assert library.flush(60) == 0
    ours, theirs = kafka.read(topic, 3_503), kafka.read(reference, 3_503)
    for partition in range(5):
        assert pairs_of(ours, partition) == pairs_of(theirs, partition)
    assert all(before_ms <= m.timestamp()[1] <= before_ms + 600_000 for m in ours)
    assert all(m.headers() is None for m in ours)


def test_large_messages_travel_when_they_are_allowed(kafka: Broker) -> None:
    topic = kafka.topic(config={"max.message.bytes": "8000000"})
    hand = HandSink(sink_node(kafka, topic, pipeline=topic, schema=PAIR, kafka_max_request_size="6000000"))
    sizes = [10, 5_000_000, 0, 1_048_576, 999_999, 3]
    frame = pl.DataFrame({"key": [b"k"] * len(sizes), "value": [b"x" * size for size in sizes]})
    published(hand, frame)
    assert [len(m.value() or b"") for m in kafka.read(topic, len(sizes))] == sizes
    with pytest.raises(DataError, match="larger"):
        hand.writer().write(pl.DataFrame({"key": [b"k"], "value": [b"x" * 6_000_001]}))
    hand.close()


def test_a_message_larger_than_the_topic_allows_is_an_error_of_the_data(kafka: Broker) -> None:
    topic = kafka.topic(config={"max.message.bytes": "1000"})
    hand = HandSink(sink_node(kafka, topic, pipeline=topic))
    hand.write("x" * 5_000)
    with pytest.raises(DataError, match=r"larger than allowed.*"):
        hand.prepare(1)
    hand.close()


def test_topics_and_partitions_that_rows_name_are_written_to(kafka: Broker) -> None:
    one, two = kafka.topic(partitions=3), kafka.topic(partitions=2)
    schema: Schema = (*VALUE, Field("topic", STRING), Field("partition", INTEGER))
    frame = pl.DataFrame(
        {"value": list("abcdef"), "topic": [one, two] * 3, "partition": [0, 0, 1, 1, 2, None]},
        schema_overrides={"partition": pl.Int32},
    )
    hand = HandSink(sink_node(kafka, None, pipeline=one, schema=schema))
    published(hand, frame)
    hand.close()
    assert {m.value(): m.partition() for m in kafka.read(one, 3)} == {b"a": 0, b"c": 1, b"e": 2}
    assert values(kafka, two, 3) == ["b", "d", "f"]


def test_a_partition_added_meanwhile_is_written_to(kafka: Broker) -> None:
    from confluent_kafka.admin import NewPartitions  # pyright: ignore[reportPrivateImportUsage]

    topic = kafka.topic(partitions=1)
    schema: Schema = (*VALUE, Field("partition", INTEGER))
    hand = HandSink(sink_node(kafka, topic, pipeline=topic, schema=schema))
    row = pl.DataFrame({"value": ["a"], "partition": [0]}, schema_overrides={"partition": pl.Int32})
    hand.writer().write(row)
    kafka.admin.create_partitions([NewPartitions(topic, 2)])[topic].result(60)
    kafka.await_partitions(topic, 2)
    hand.writer().write(row.with_columns(value=pl.lit("b"), partition=pl.lit(1, pl.Int32)))
    hand.commit(1, hand.prepare(1))
    assert {m.value(): m.partition() for m in kafka.read(topic, 2)} == {b"a": 0, b"b": 1}
    hand.close()


def test_a_topic_that_does_not_exist_is_said(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.connectors.kafka.client.leaders.APPEAR_SECONDS", 0.5)
    hand = HandSink(sink_node(kafka, "nowhere", pipeline="nowhere"))
    with pytest.raises(InvalidQuery, match="nowhere"):
        hand.write("a")
    hand.close()


def test_a_topic_that_is_deleted_meanwhile_is_said(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.connectors.kafka.client.leaders.APPEAR_SECONDS", 0.5)
    topic = kafka.topic()
    hand = HandSink(sink_node(kafka, topic, pipeline=topic))
    hand.write("a")
    hand.prepare(1)
    kafka.admin.delete_topics([topic])[topic].result(60)
    with pytest.raises(InvalidQuery, match=r"no topic .* any more"):
        for _ in range(100):
            hand.write("b")
            hand.writer()._current.producer.flush()  # type: ignore[union-attr]
    hand.close()
