"""Rows of one subtask for one partition lie there in the order in which they were written: one key per partition, rising numbers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.integration.connectors.kafka_order_kit import SCHEMA, Overlapping, assert_rising, numbered
from tests.integration.connectors.kafka_sink_kit import HandSink, sink_node
from tests.integration.connectors.test_kafka_cluster import SECONDS_MAX, commit_as_a_driver
from tests.servers.kafka import Broker, kafka_broker, kafka_cluster

from tidegate.connectors.kafka.sink.columns import HEADERS
from tidegate.connectors.kafka.sink.writer import PlainWriter
from tidegate.connectors.kafka.sink_config import parse_sink
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.types import Field, Schema

PARTITIONS = (0, 1, 2)


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        pytest.param(SCHEMA, {}, id="plain"),
        pytest.param(SCHEMA, {"kafka_compression_type": "lz4"}, id="compressed"),
        pytest.param((*SCHEMA, Field("headers", HEADERS)), {}, id="headers"),
    ],
)
def test_rows_of_a_checkpoint_stay_behind_those_of_the_one_before_it(
    kafka: Broker, schema: Schema, options: dict[str, str]
) -> None:
    """T75: they are written while those are still on their way."""
    topic = kafka.topic(partitions=3)
    node = sink_node(kafka, topic, pipeline=topic, schema=schema, **options)
    with closing(HandSink(node)) as hand, Overlapping(hand, PARTITIONS) as writing:
        writing.go_on(12)
    assert_rising(kafka, topic, [writing.count] * 3)


def test_another_attempt_with_more_subtasks_goes_on_behind_the_rows_of_the_one_before_it(kafka: Broker) -> None:
    """T75, T46: rows of the newest checkpoint are committed by the successor, where they lie; those after it never are."""
    topic = kafka.topic(partitions=3)
    node = sink_node(kafka, topic, pipeline=topic, schema=SCHEMA)
    with closing(HandSink(node)) as first, closing(HandSink(node, attempt=2)) as second:
        with Overlapping(first, PARTITIONS) as writing:
            writing.go_on(3)
        writing.write(5_000)
        begin = writing.count
        prepared = first.prepare(4)
        writing.write(2_000)  # The checkpoint that would have them is never completed.
        second.committer.commit(prepared)
        second.committer.sweep(Attempt(2), prepared)
        subtasks = [Overlapping(second, [partition], begin=begin, checkpoint=4) for partition in PARTITIONS]
        for number, subtask in enumerate(subtasks):
            with subtask:
                subtask.go_on(3 + number)
    assert_rising(kafka, topic, [subtask.count for subtask in subtasks])


def test_at_least_once_repeats_rows_after_a_restart_and_breaks_the_order_nowhere_else(kafka: Broker) -> None:
    """T75: so a reader that takes the last value of each key has the right one."""
    topic = kafka.topic(partitions=3)
    config = parse_sink(sink_node(kafka, topic, schema=SCHEMA, deliveryGuarantee="at_least_once"))
    for begin, end in ((0, 40_000), (25_000, 60_000)):
        writer = PlainWriter(config)
        for checkpoint, number in enumerate(range(begin, end, 5_000)):
            writer.write(numbered(number, number + 5_000, PARTITIONS))
            writer.prepare(CheckpointId(checkpoint))
        writer.close()
    found = kafka.read(topic, 3 * 75_000)
    for partition in PARTITIONS:
        seen = [int(m.value() or b"-1") for m in found if m.partition() == partition]
        assert seen == [*range(40_000), *range(25_000, 60_000)]


@contextmanager
def written_on(broker: Broker, topic: str) -> Iterator[list[int]]:
    """Checkpoint after checkpoint until the block is left, and some more after it. Then the number of rows of each partition."""
    node, stop = sink_node(broker, topic, pipeline=topic, schema=SCHEMA), threading.Event()
    counts: list[int] = []

    def write() -> None:
        with closing(HandSink(node)) as hand, Overlapping(hand, PARTITIONS) as writing:
            while not stop.is_set():
                writing.go_on(1, rows=300)
            writing.go_on(3, rows=300)
        counts.extend([writing.count] * 3)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield counts
    finally:
        stop.set()
        thread.join()
    assert counts, "the writer has failed"


def test_a_broker_that_is_paused_and_asked_again_on_a_new_connection_keeps_the_order(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T75: what it had not read yet it reads when it wakes, after or before the same batches on the new connection."""
    monkeypatch.setattr("tidegate.connectors.kafka.client.exchange.ANSWER_SECONDS_MAX", 0.3)
    topic = kafka.topic(partitions=3)
    with written_on(kafka, topic) as counts:
        for _ in range(2):
            kafka.pause()
            time.sleep(1.0)  # the pause is the fault
            kafka.resume()
    assert_rising(kafka, topic, counts)


def test_a_broker_killed_in_the_middle_of_it_loses_doubles_and_reorders_nothing(tmp_path: Path) -> None:
    """T75: batches of three checkpoints are on their way."""
    with kafka_broker(tmp_path / "broker", session_ms=2_000) as broker:
        topic = broker.topic(partitions=3)
        node = sink_node(broker, topic, pipeline=topic, schema=SCHEMA)
        with closing(HandSink(node)) as hand:
            hand.writer().write(numbered(0, 20_000, PARTITIONS))
            prepared = hand.seal(1)
            hand.writer().write(numbered(20_000, 40_000, PARTITIONS))
            hand.writer()._spare.result(SECONDS_MAX)
            broker.kill()
            hand.writer().write(numbered(40_000, 60_000, PARTITIONS))
            prepared += hand.seal(2)
            hand.writer().write(numbered(60_000, 80_000, PARTITIONS))
            broker.start()
            prepared += hand.prepare(3)
            commit_as_a_driver(hand, prepared)
        assert_rising(broker, topic, [80_000] * 3)


def test_at_least_once_loses_doubles_and_reorders_nothing_when_a_broker_is_killed_in_the_middle_of_it(
    tmp_path: Path,
) -> None:
    """One idempotent producer writes all of it: what was sent twice is there once."""
    with kafka_broker(tmp_path / "broker", session_ms=2_000) as broker:
        topic = broker.topic(partitions=3)
        config = parse_sink(sink_node(broker, topic, schema=SCHEMA, deliveryGuarantee="at_least_once"))
        with closing(PlainWriter(config)) as writer:
            writer.write(numbered(0, 20_000, PARTITIONS))
            writer.prepare(CheckpointId(1))
            writer.write(numbered(20_000, 40_000, PARTITIONS))
            broker.kill()
            writer.write(numbered(40_000, 60_000, PARTITIONS))
            broker.start()
            writer.prepare(CheckpointId(2))
        assert_rising(broker, topic, [60_000] * 3)


@pytest.mark.soak
def test_leaders_that_move_lose_double_and_reorder_nothing(tmp_path: Path) -> None:
    """T75"""
    with kafka_cluster(tmp_path) as (controller, second, third):
        topic = controller.topic(partitions=3, replicas=3, config={"min.insync.replicas": "2"})
        with written_on(controller, topic) as counts:
            for broker in (second, third):
                broker.kill()
                until_in_sync(controller, topic, 2)
                broker.start()
                until_in_sync(controller, topic, 3)
        assert_rising(controller, topic, counts)


def until_in_sync(controller: Broker, topic: str, replicas: int) -> None:
    """Each partition has a leader, and so many replicas that have all of it."""
    until = time.monotonic() + SECONDS_MAX
    while True:
        known = controller.admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
        if all(one.leader >= 0 and len(one.isrs) == replicas for one in known):
            return
        assert time.monotonic() < until, known
        time.sleep(0.1)
