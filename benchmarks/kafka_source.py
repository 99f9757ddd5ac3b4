"""How fast the Kafka source hands out rows, beside Python's own client over the same topic.

    python -m benchmarks.kafka_source [ROWS]

Starts a broker, fills one partition with messages of 100 bytes, and reads it in turns. Prints rows per second of wall clock, and what the
reading thread spends on a row: on a busy machine only the second compares.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from tests.integration.connectors.kafka_reading import Reading, kafka_scan
from tests.servers.kafka import QUIET, Broker, kafka_broker

ROUNDS = 3
BATCH_ROWS = 32_768


def fill(broker: Broker, topic: str, rows: int) -> None:
    options = {"linger.ms": 20, "queue.buffering.max.messages": 2_000_000, "batch.size": 1 << 20}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **QUIET} | options)
    for number in range(rows):
        producer.produce(topic, b"x" * 100, b"key-%d" % number)
        if number % 50_000 == 0:
            producer.poll(0)
    producer.flush()


def plain(broker: Broker, topic: str, rows: int) -> None:
    """A loop as people write it: batches, the value of every message."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, **QUIET, "group.id": "plain", "fetch.queue.backoff.ms": 5}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = 0
    while seen < rows:
        messages = consumer.consume(BATCH_ROWS, 0.005)
        seen += len([message.value() for message in messages if message.error() is None])
    consumer.close()


def polled(broker: Broker, topic: str, rows: int) -> None:
    """One call per message."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, **QUIET, "group.id": "plain", "fetch.queue.backoff.ms": 5}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = 0
    while seen < rows:
        message: Message | None = consumer.poll(0.05)
        seen += message is not None and message.error() is None and message.value() is not None
    consumer.close()


def source(*columns: str) -> Callable[[Broker, str, int], None]:
    def read(broker: Broker, topic: str, rows: int) -> None:
        reading = Reading(kafka_scan(broker, columns, subscribe=topic))
        ((_, reader),) = reading.readers.values()
        seen = 0
        while not reader.finished:
            frame = reader.read(BATCH_ROWS, 0)
            if frame is None:
                time.sleep(0.001)
            else:
                seen += frame.height
        assert seen == rows
        reading.stop()

    return read


def main(rows: int) -> None:
    ways = {
        "Python's client, poll": polled,
        "Python's client, consume": plain,
        "source: value": source("value"),
        "source: key, value": source("key", "value"),
        "source: key, value, timestamp": source("key", "value", "timestamp"),
    }
    with tempfile.TemporaryDirectory() as folder, kafka_broker(Path(folder) / "broker") as broker:
        topic = broker.topic()
        fill(broker, topic, rows)
        for name, way in ways.items():
            best_s, best_cpu_s = float("inf"), float("inf")
            for _ in range(ROUNDS):
                began_s, began_cpu_s = time.perf_counter(), time.thread_time()
                way(broker, topic, rows)
                best_s = min(best_s, time.perf_counter() - began_s)
                best_cpu_s = min(best_cpu_s, time.thread_time() - began_cpu_s)
            print(f"{name:32} {rows / best_s / 1e3:8.0f} k rows/s {best_cpu_s / rows * 1e9:8.0f} ns/row of its thread")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
