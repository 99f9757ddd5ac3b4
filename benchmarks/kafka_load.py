"""Messages for a broker: a topic filled, a steady rate with a consumer that takes the time, and a summary of what a topic holds."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Event
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.servers.kafka import QUIET

VALUE_BYTES = 100
_SPAWN = multiprocessing.get_context("spawn")
"""A forked child would share a Spark session's sockets."""


def fill(bootstrap: str, topic: str, rows: int, partitions: int) -> None:
    """``rows`` messages of ``VALUE_BYTES``, each with a key, all different."""
    options: dict[str, Any] = {"linger.ms": 20, "queue.buffering.max.messages": 2_000_000, "batch.size": 1 << 20}
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET} | options)
    for number in range(rows):
        producer.produce(topic, (b"%d:" % number).ljust(VALUE_BYTES, b"x"), b"key-%d" % number, number % partitions)
        if number % 50_000 == 0:
            producer.poll(0)
    producer.flush()


def summary(bootstrap: str, topic: str, partitions: int, rows: int, patience_s: float = 60.0) -> tuple[int, int]:
    """How many messages a read_committed reader sees, and a sum over keys and values that any lost, repeated or changed one changes.

    Waits for ``rows`` of them, then reads on to the end.
    """
    consumer = _consumer(bootstrap, topic, partitions, isolation="read_committed", eof=True)
    count, total, ended = 0, 0, set[int]()
    give_up_s = time.monotonic() + patience_s
    while (count < rows or len(ended) < partitions) and time.monotonic() < give_up_s:
        messages = consumer.consume(50_000, 0.2)
        good = [message for message in messages if message.error() is None]
        ended |= {message.partition() or 0 for message in messages if message.error() is not None}
        count += len(good)
        total += sum(hash((message.key(), message.value())) for message in good)
    consumer.close()
    return count, total


class Load:
    """While it is entered: message n is sent at n / ``rate`` seconds from its beginning, and what arrives in ``target`` is timed."""

    def __init__(self, bootstrap: str, source: str, target: str, *, partitions: int, rate: int) -> None:
        self._stop: Event = _SPAWN.Event()
        self._reached, self._arrived = _SPAWN.Pipe(duplex=False)
        self._began_us = time.time_ns() // 1_000
        sending = (bootstrap, source, partitions, rate, self._began_us, self._stop)
        timing = (bootstrap, target, partitions, self._arrived, self._stop)
        self._sender = _SPAWN.Process(target=_send, args=sending, daemon=True)
        self._timer = _SPAWN.Process(target=_time, args=timing, daemon=True)
        self._samples: list[tuple[int, int]] = []

    def __enter__(self) -> None:
        self._sender.start()
        self._timer.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._samples = self._reached.recv()
        self._sender.join(20)
        self._timer.join(20)

    def latencies_ms(self, after_s: float) -> list[float]:
        """Of messages sent later than ``after_s`` seconds after the beginning, sorted."""
        from_us = self._began_us + after_s * 1e6
        return sorted((arrived_us - sent_us) / 1e3 for arrived_us, sent_us in self._samples if sent_us >= from_us)


def _send(bootstrap: str, topic: str, partitions: int, rate: int, began_us: int, stop: Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET, "queue.buffering.max.messages": 1_000_000})
    sent = 0
    while not stop.is_set():
        due = (time.time_ns() // 1_000 - began_us) * rate // 1_000_000
        for number in range(sent, due):
            at_us = began_us + number * 1_000_000 // rate
            producer.produce(topic, b"%d" % at_us, b"%d" % (number * 2654435761 % 100_000), number % partitions)
        sent = max(sent, due)
        producer.poll(0)
        stop.wait(0.002)
    producer.flush(10)


def _time(bootstrap: str, topic: str, partitions: int, arrived: Any, stop: Event) -> None:
    consumer = _consumer(bootstrap, topic, partitions, isolation="read_uncommitted", eof=False)
    samples: list[tuple[int, int]] = []
    while not stop.is_set():
        messages = consumer.consume(5_000, 0.02)
        now_us = time.time_ns() // 1_000
        samples += [(now_us, int(message.value() or b"0")) for message in messages if message.error() is None]
    consumer.close()
    arrived.send(samples)


def _consumer(bootstrap: str, topic: str, partitions: int, *, isolation: str, eof: bool) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            **QUIET,
            "group.id": f"bench-{topic}",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": eof,
            "fetch.wait.max.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    return consumer
