"""The Kafka source against a real broker: what it reads, where it stands, and what it says when rows are gone."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions  # pyright: ignore[reportPrivateImportUsage]
from tests.integration.connectors.kafka_reading import (
    BOUNDED,
    ENDLESS,
    SECONDS_MAX,
    HurriedClock,
    Reading,
    State,
    eventually,
    fill,
    kafka_scan,
    settled,
    values,
)
from tests.servers.kafka import PASSWORD, QUIET, USER, Broker, kafka_broker

from tidegate.connectors.kafka.client import fetcher
from tidegate.connectors.kafka.client.stream import Stream
from tidegate.connectors.kafka.format import enumerator
from tidegate.connectors.kafka.format import source as kafka_source
from tidegate.connectors.kafka.source.cluster import ANSWER_TIMEOUT_S
from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery, Outdated, Unavailable

EVERYTHING = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def test_a_bounded_run_reads_what_was_there_at_its_start_and_the_next_one_the_rest(kafka: Broker) -> None:
    topic = kafka.topic(partitions=2)
    fill(kafka, topic, range(100), 0)
    fill(kafka, topic, range(100, 130), 1)
    scan = kafka_scan(kafka, subscribe=topic)
    first = Reading(scan)
    fill(kafka, topic, ["late"], 0)
    assert sorted(values(first.until_finished()), key=int) == [str(n) for n in range(130)]
    second = Reading(scan, state=first.stop())
    assert values(second.until_finished()) == ["late"]
    third = Reading(scan, state=second.stop())
    assert third.until_finished() == []
    third.stop()


def test_rows_have_sparks_columns(kafka: Broker) -> None:
    topic = kafka.topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET})
    moment_ms = 1_700_000_000_123
    headers = [("a", b"1"), ("a", None), ("b", "ü".encode())]
    producer.produce(topic, b"\x00value", b"key", timestamp=moment_ms, headers=headers)
    producer.produce(topic, None, None, timestamp=moment_ms + 1)
    producer.flush()
    reading = Reading(kafka_scan(kafka, EVERYTHING, subscribe=topic, includeHeaders="true"))
    first, second = reading.until_finished()
    moment = datetime.fromtimestamp(moment_ms / 1_000, UTC)
    assert first[:5] == (b"key", b"\x00value", topic, 0, 0)
    assert (first[5], first[6]) == (moment, 0)
    assert first[7] == [
        {"key": "a", "value": b"1"},
        {"key": "a", "value": None},
        {"key": "b", "value": "ü".encode()},
    ]
    assert second[:2] == (None, None) and second[4] == 1 and second[7] is None
    reading.stop()
    stamped = kafka.topic(config={"message.timestamp.type": "LogAppendTime"})
    fill(kafka, stamped, ["x"])
    ((kind, at),) = Reading(kafka_scan(kafka, ("timestampType", "timestamp"), subscribe=stamped)).until_finished()
    assert kind == 1 and abs((datetime.now(UTC) - at).total_seconds()) < 60


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_and_values_of_any_size_come_as_they_were_written(kafka: Broker, compression: str, seed: int) -> None:
    topic, random = kafka.topic(), Random(seed)
    sizes = (0, 1, 4, 11, 12, 13, 100, 5_000, 90_000)

    def some() -> bytes | None:
        return None if random.random() < 0.1 else random.randbytes(random.choice(sizes))

    written = [(some(), some()) for _ in range(400)]
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET, "compression.type": compression})
    for key, value in written:
        producer.produce(topic, value, key)
    producer.flush()
    reading = Reading(kafka_scan(kafka, ("key", "value"), subscribe=topic))
    assert reading.until_finished() == written
    reading.stop()


def test_what_brokers_compress_themselves_is_read(kafka: Broker) -> None:
    """Java's Snappy comes in blocks."""
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        topic = kafka.topic(config={"compression.type": codec})
        written = [f"{n} " + "a text that is long enough to be cut into blocks " * 200 for n in range(30)]
        fill(kafka, topic, written)
        assert values(Reading(kafka_scan(kafka, subscribe=topic)).until_finished()) == written


def test_large_messages_and_small_limits_are_read_all_the_same(kafka: Broker) -> None:
    """A broker sends at least one whole batch, however little was asked for."""
    topic = kafka.topic()
    written = [str(n) * size for n, size in enumerate((10, 200_000, 1, 450_000, 50_000))]
    fill(kafka, topic, written)
    limits = {"kafka_max_partition_fetch_bytes": "1000", "kafka_fetch_max_bytes": "2000000"}
    assert values(Reading(kafka_scan(kafka, subscribe=topic, **limits)).until_finished()) == written


def test_partitions_whose_answers_do_not_fit_into_one_take_turns(kafka: Broker) -> None:
    """Brokers fill an answer from the front: who always stands there would be read to its end before the others, and their
    event time would run apart."""
    topic = kafka.topic(partitions=3)
    for partition in range(3):
        for number in range(8):
            fill(kafka, topic, [f"{number}".ljust(400_000)], partition)
    limits = {"kafka_fetch_max_bytes": 1_000_000}
    reading = Reading(kafka_scan(kafka, ("partition",), subscribe=topic, **limits))
    early = Counter(partition for (partition,) in reading.until(12)[:12])
    assert len(early) == 3 and min(early.values()) >= 2
    assert Counter(partition for (partition,) in reading.until_finished()) == dict.fromkeys(range(3), 8)
    reading.stop()


def test_fetching_goes_on_as_soon_as_there_is_room_again(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the limit of all partitions together held it up, and none of them alone."""
    monkeypatch.setattr(fetcher, "IDLE_SECONDS", 3_600.0)
    topic = kafka.topic(partitions=2)
    batches = [[f"{batch}/{n}".ljust(1_000) for n in range(10)] for batch in range(20)]
    for number, batch in enumerate(batches):
        fill(kafka, topic, batch, partition=number % 2)
    limits = {"kafka_max_partition_fetch_bytes": "20000", "kafka_queued_max_messages_kbytes": "1"}
    found = values(Reading(kafka_scan(kafka, subscribe=topic, **limits)).until_finished())
    assert sorted(found) == sorted(value for batch in batches for value in batch)


def test_what_becomes_due_while_the_thread_is_held_up_is_not_forgotten(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads wait for each other and for the processor: between two looks at the clock any time may pass."""
    monkeypatch.setattr(fetcher, "IDLE_SECONDS", 3_600.0)
    monkeypatch.setattr(fetcher, "time", HurriedClock(fetcher.BREATH_SECONDS * 0.7))
    topic = kafka.topic()
    reading = Reading(kafka_scan(kafka, subscribe=topic), ENDLESS)
    for number in range(10):
        fill(kafka, topic, [number])
        reading.until(number + 1)
    reading.stop()


def test_columns_that_nobody_reads_are_not_made(kafka: Broker) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(3))
    assert Reading(kafka_scan(kafka, (), subscribe=topic)).until_finished() == [(), (), ()]
    assert Reading(kafka_scan(kafka, ("offset",), subscribe=topic)).until_finished() == [(0,), (1,), (2,)]


def test_many_partitions_of_several_topics_share_one_client_and_keep_their_order(kafka: Broker) -> None:
    topics = [kafka.topic(partitions=3), kafka.topic(partitions=2)]
    expected: dict[tuple[str, int], list[str]] = {}
    for number, topic in enumerate(topics):
        for partition in range(3 - number):
            expected[topic, partition] = [f"{number}/{partition}/{n}" for n in range(500)]
            fill(kafka, topic, expected[topic, partition], partition)
    reading = Reading(kafka_scan(kafka, ("value", "topic", "partition", "offset"), subscribe=",".join(topics)))
    while len(reading.rows) < 2_500:
        reading.poll(rows_max=37)
    found: dict[tuple[str, int], list[str]] = {}
    for value, topic, partition, offset in reading.rows:
        of = found.setdefault((topic, partition), [])
        assert offset == len(of)
        of.append(value.decode())
    assert found == expected
    reading.stop()


def test_a_position_is_that_of_the_last_row_handed_out_not_of_the_last_fetched(kafka: Broker) -> None:
    """T34."""
    topic = kafka.topic()
    fill(kafka, topic, range(1_000))
    scan = kafka_scan(kafka, subscribe=topic)
    first = Reading(scan, ENDLESS)
    eventually(lambda: first.poll(rows_max=7), "rows")
    state = first.stop()
    rest = Reading(scan, BOUNDED, state)
    assert values(first.rows) + values(rest.until_finished()) == [str(n) for n in range(1_000)]
    rest.stop()


def test_a_checkpoint_before_the_first_fetch_restores_the_beginning_and_not_the_end(kafka: Broker) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(100))
    first = Reading(kafka_scan(kafka, subscribe=topic))
    first.poll()  # Nothing comes in no time; on a machine that is kept from running, some may.
    rest = Reading(first.scan, state=first.stop()).until_finished()
    assert values(first.rows + rest) == [str(n) for n in range(100)]


@pytest.mark.parametrize("config", [BOUNDED, ENDLESS], ids=["bounded", "endless"])
def test_a_checkpoint_before_the_first_row_skips_nothing(kafka: Broker, config: QueryConfig) -> None:
    topic = kafka.topic()
    scan = kafka_scan(kafka, subscribe=topic)
    first = Reading(scan, ENDLESS)
    assert first.poll() == 0
    at_once = first.stop()
    fill(kafka, topic, range(20))
    second = Reading(scan, config, at_once)
    second.poll()
    third = Reading(scan, config, second.stop())
    assert values(second.rows) + values(third.until(20 - len(second.rows))) == [str(n) for n in range(20)]
    third.stop()


def test_an_endless_run_after_a_bounded_one_and_back_again_loses_and_repeats_nothing(kafka: Broker) -> None:
    topic = kafka.topic(partitions=2)
    scan = kafka_scan(kafka, subscribe=topic)
    seen: list[str] = []
    state = None
    for round_number, config in enumerate((BOUNDED, ENDLESS, BOUNDED, BOUNDED, ENDLESS)):
        batch = [f"{round_number}-{n}" for n in range(10)]
        fill(kafka, topic, batch[:6], 0)
        fill(kafka, topic, batch[6:], 1)
        reading = Reading(scan, config, state)
        if config is BOUNDED:
            reading.until_finished()
        else:
            reading.until(10)
        assert sorted(values(reading.rows)) == batch
        seen += values(reading.rows)
        state = reading.stop()
    assert len(seen) == len(set(seen)) == 50


def test_an_interrupted_bounded_run_goes_on_where_it_stood(kafka: Broker) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(50))
    scan = kafka_scan(kafka, subscribe=topic)
    first = Reading(scan)
    eventually(lambda: first.poll(rows_max=20), "rows")
    fill(kafka, topic, range(50, 60))
    second = Reading(scan, BOUNDED, first.stop())
    assert values(first.rows + second.until_finished()) == [str(n) for n in range(60)]
    second.stop()


def test_a_split_that_was_on_its_way_to_a_reader_is_read_once(kafka: Broker) -> None:
    """T35: in the enumerator's snapshot, and neither open nor done in the checkpoint; in the run after with and without an end."""
    topic = kafka.topic()
    fill(kafka, topic, range(20))
    scan = kafka_scan(kafka, subscribe=topic)
    for first, second in ((BOUNDED, BOUNDED), (BOUNDED, ENDLESS), (ENDLESS, BOUNDED)):
        stopped = Reading(scan, first)
        state = State(stopped.snapshot().enumerator, (), frozenset())
        stopped.stop()
        fill(kafka, topic, ["more"])
        expected = len(kafka.read(topic, 0))
        reading = Reading(scan, second, state)
        assert len(reading.readers) == 1
        assert len(reading.until(expected)) == expected
        reading.stop()


def test_memory_of_the_enumerator_does_not_grow_with_the_number_of_runs(kafka: Broker) -> None:
    topic = kafka.topic(partitions=2)
    scan = kafka_scan(kafka, subscribe=topic)
    state, sizes = None, []
    for n in range(6):
        fill(kafka, topic, [n], n % 2)
        reading = Reading(scan, BOUNDED, state)
        assert values(reading.until_finished()) == [str(n)]
        state = reading.stop()
        sizes.append(len(state.enumerator))
    assert max(sizes[1:]) < sizes[0] + 100, sizes


def test_new_partitions_and_topics_are_found_while_running_and_read_from_their_beginning(kafka: Broker) -> None:
    prefix = kafka.topic()
    scan = kafka_scan(kafka, subscribePattern=f"{prefix}.*", startingOffsets="latest")
    fill(kafka, prefix, ["before"])
    reading = Reading(scan, ENDLESS)
    assert [split.number for split, _ in reading.readers.values()] == [0]
    kafka.admin.create_partitions([NewPartitions(prefix, 2)])[prefix].result(90)
    kafka.await_partitions(prefix, 2)
    other = kafka.topic(f"{prefix}-other")
    fill(kafka, prefix, ["new partition"], 1)
    fill(kafka, other, ["new topic"])
    clock = iter(range(1_000, 10**9, 1_000))
    eventually(lambda: reading.discover(next(clock)) or len(reading.readers) == 3, "two new partitions")
    assert sorted(values(reading.until(2))) == ["new partition", "new topic"]
    reading.stop()


def test_starting_offsets_of_all_kinds(kafka: Broker) -> None:
    topic = kafka.topic(partitions=2)
    for partition in (0, 1):
        producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET})
        for n in range(10):
            producer.produce(topic, f"{partition}:{n}".encode(), partition=partition, timestamp=1_000 * (n + 1))
        producer.flush()

    def start(**options: Any) -> list[str]:
        return sorted(values(Reading(kafka_scan(kafka, subscribe=topic, **options)).until_finished()))

    def from_each(*starts: int) -> list[str]:
        return [f"{partition}:{n}" for partition, first in enumerate(starts) for n in range(first, 10)]

    assert start(startingOffsets="latest") == []
    assert start(startingOffsets=json.dumps({topic: {"0": 4, "1": -1}})) == from_each(4, 10)
    assert start(startingOffsets=json.dumps({topic: {"0": -2, "1": 9}})) == from_each(0, 9)
    assert start(startingTimestamp=5_500) == from_each(5, 5)
    moments = json.dumps({topic: {"0": 2_000, "1": 10_000}})
    assert start(startingOffsetsByTimestamp=moments) == from_each(1, 9)
    assert start(startingTimestamp=99_000, startingOffsetsByTimestampStrategy="latest") == []
    with pytest.raises(InvalidQuery, match=r"no record of .* is as late as 99000"):
        start(startingTimestamp=99_000)
    with pytest.raises(InvalidQuery, match=r"do not name .*-1"):
        start(startingOffsets=json.dumps({topic: {"0": 4}}))
    ends = json.dumps({topic: {"0": 3, "1": -1}})
    assert start(endingOffsets=ends) == ["0:0", "0:1", "0:2", *from_each(10, 0)]
    assert start(endingTimestamp=3_000) == ["0:0", "0:1", "1:0", "1:1"]
    with pytest.raises(InvalidQuery, match="asks for offset 11"):
        start(endingOffsets=json.dumps({topic: {"0": 11, "1": 1}}))


def test_a_stream_with_ending_offsets_ends_without_available_now(kafka: Broker) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(10))
    reading = Reading(kafka_scan(kafka, subscribe=topic, endingOffsets="latest"), ENDLESS)
    fill(kafka, topic, ["late"])
    assert len(reading.until_finished()) == 10
    assert reading.enumerator.bounded
    reading.stop()


def test_assigned_partitions_alone_are_read(kafka: Broker) -> None:
    topic = kafka.topic(partitions=3)
    for partition in range(3):
        fill(kafka, topic, [partition], partition)
    reading = Reading(kafka_scan(kafka, assign=json.dumps({topic: [0, 2]})))
    assert sorted(values(reading.until_finished())) == ["0", "2"]
    reading.stop()
    with pytest.raises(InvalidQuery, match=f"no topic or partition {topic}-7"):
        Reading(kafka_scan(kafka, assign=json.dumps({topic: [7]})))


def test_markers_of_transactions_are_passed_and_a_run_ends_behind_them(kafka: Broker) -> None:
    """The last offset is a marker, which no reader ever gets: the end is reached all the same, and the position lies behind it."""
    topic = kafka.topic()
    fill(kafka, topic, range(5), transaction=f"{topic}-a")
    scan = kafka_scan(kafka, ("value", "offset"), subscribe=topic)
    first = Reading(scan)
    assert [row[1] for row in first.until_finished()] == [0, 1, 2, 3, 4]
    fill(kafka, topic, range(5, 8), transaction=f"{topic}-b")
    second = Reading(scan, state=first.stop())
    assert [row[1] for row in second.until_finished()] == [6, 7, 8]
    endless = Reading(scan, ENDLESS)
    endless.until(8)
    reader = next(iter(endless.readers.values()))[1]
    eventually(lambda: endless.poll() or "offset 10" in reader.describe(), "the position behind the last marker")
    endless.stop()


def test_rows_of_open_and_aborted_transactions_are_not_read_unless_asked_for(kafka: Broker) -> None:
    topic = kafka.topic()
    fill(kafka, topic, ["committed"], transaction=f"{topic}-a")
    aborting = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET, "transactional.id": f"{topic}-b"})
    aborting.init_transactions(20)
    aborting.begin_transaction()
    aborting.produce(topic, b"aborted")
    aborting.flush()
    aborting.abort_transaction(20)
    settled(kafka, topic)
    aborting.begin_transaction()
    aborting.produce(topic, b"open")
    aborting.flush()
    fill(kafka, topic, ["behind it"])
    assert values(Reading(kafka_scan(kafka, subscribe=topic)).until_finished()) == ["committed"]
    dirty = kafka_scan(kafka, subscribe=topic, kafka_isolation_level="read_uncommitted")
    assert values(Reading(dirty).until_finished()) == ["committed", "aborted", "open", "behind it"]
    endless = Reading(kafka_scan(kafka, subscribe=topic), ENDLESS)
    endless.until(1)
    aborting.commit_transaction(20)
    assert values(endless.until(3)) == ["committed", "open", "behind it"]
    endless.stop()


def test_gaps_that_compaction_leaves_are_passed(kafka: Broker) -> None:
    topic = kafka.topic(
        config={
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "100",
            "delete.retention.ms": "100",
        }
    )
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET})
    for n in range(50):
        producer.produce(topic, str(n).encode(), b"same key")
    producer.flush()
    time.sleep(0.2)  # The segment must be older than segment.ms for the next record to close it.
    fill(kafka, topic, ["last"])
    scan = kafka_scan(kafka, ("offset",), subscribe=topic)

    def compacted() -> bool:
        reading = Reading(scan)
        offsets = [row[0] for row in reading.until_finished()]
        reading.stop()
        assert offsets[-2:] == [49, 50]
        return offsets == [49, 50]

    eventually(compacted, "the broker's cleaner", seconds=180)


def _delete_before(kafka: Broker, topic: str, offset: int) -> None:
    next(iter(kafka.admin.delete_records([TopicPartition(topic, 0, offset)]).values())).result(20)


def test_rows_that_retention_has_deleted_end_the_query_with_one_clear_error(kafka: Broker) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(20))
    scan = kafka_scan(kafka, subscribe=topic)
    first = Reading(scan, ENDLESS)
    eventually(lambda: first.poll(rows_max=5), "rows")
    state = first.stop()
    _delete_before(kafka, topic, 12)
    second = Reading(scan, ENDLESS, state)
    with pytest.raises(InvalidQuery, match="offset 5 cannot be read, the log holds offsets 12 to 20") as raised:
        second.until(1)
    assert "failOnDataLoss" in raised.value.hint
    second.stop()


def test_without_fail_on_data_loss_the_query_goes_on_with_what_is_there(
    kafka: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(20))
    scan = kafka_scan(kafka, subscribe=topic, failOnDataLoss="false")
    first = Reading(scan, ENDLESS)
    eventually(lambda: first.poll(rows_max=5), "rows")
    state = first.stop()
    _delete_before(kafka, topic, 12)
    with caplog.at_level(logging.WARNING, "tidegate"):
        second = Reading(scan, BOUNDED, state)
        assert values(second.until_finished()) == [str(n) for n in range(12, 20)]
    assert "failOnDataLoss=false: goes on at offset 12" in caplog.text
    second.stop()


def _recreate(kafka: Broker, topic: str) -> None:
    kafka.admin.delete_topics([topic])[topic].result(20)

    def again() -> bool:
        try:
            kafka.topic(topic)
        except Exception as error:  # noqa: BLE001  the deletion is not over
            assert "exist" in str(error) or "deletion" in str(error), error
            return False
        return True

    eventually(again, "the topic to be gone")


def test_a_topic_deleted_and_made_again_is_noticed_though_its_offsets_fit(kafka: Broker) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(5))
    strict, lax = (kafka_scan(kafka, subscribe=topic, failOnDataLoss=str(b).lower()) for b in (True, False))
    first = Reading(strict, ENDLESS)
    first.until(5)
    running = Reading(lax, ENDLESS)
    state = first.stop()
    _recreate(kafka, topic)
    fill(kafka, topic, [f"new {n}" for n in range(9)])
    with pytest.raises(InvalidQuery, match=f"topic {topic} has been deleted and made again"):
        Reading(strict, ENDLESS, state)
    with pytest.raises(Outdated, match="after a restart"):
        eventually(lambda: running.discover(int(time.time() * 1_000)), "the enumerator to notice")
    running.stop()
    again = Reading(lax, BOUNDED, state)
    assert values(again.until_finished()) == [f"new {n}" for n in range(9)]
    again.stop()


def test_a_topic_that_vanishes_is_data_loss(kafka: Broker) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(5))
    strict, lax = (kafka_scan(kafka, subscribe=topic, failOnDataLoss=str(b).lower()) for b in (True, False))
    readings = [Reading(strict, ENDLESS), Reading(lax, ENDLESS)]
    for reading in readings:
        reading.until(5)
    kafka.admin.delete_topics([topic])[topic].result(20)
    clock = iter(range(10_000, 10**9, 1_000))
    with pytest.raises(InvalidQuery, match=f"topic {topic} has been deleted"):
        eventually(lambda: readings[0].discover(next(clock)), "the enumerator to notice")
    for _ in range(3):
        assert readings[1].discover(next(clock)) == ()
        assert readings[1].poll() == 0
    for reading in readings:
        reading.stop()


def test_a_query_that_no_longer_reads_a_topic_says_so(kafka: Broker) -> None:
    topics = [kafka.topic(), kafka.topic()]
    for topic in topics:
        fill(kafka, topic, [topic])
    first = Reading(kafka_scan(kafka, subscribe=",".join(topics)), ENDLESS)
    first.until(2)
    state = first.stop()
    with pytest.raises(InvalidQuery, match=f"{topics[1]}-0, which the query no longer reads"):
        Reading(kafka_scan(kafka, subscribe=topics[0]), ENDLESS, state)
    fill(kafka, topics[0], ["more"])
    fill(kafka, topics[1], ["not asked for"])
    second = Reading(kafka_scan(kafka, subscribe=topics[0], failOnDataLoss="false"), BOUNDED, state)
    assert values(second.until_finished()) == ["more"]
    second.stop()


def _group_offset(kafka: Broker, group: str, topic: str) -> int | None:
    future = kafka.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
    found = {one.topic: one.offset for one in future.result(20).topic_partitions or []}
    return found.get(topic)


def test_group_offsets_follow_completed_checkpoints_and_are_never_read(kafka: Broker) -> None:
    """T33: what is fetched, or handed out after the checkpoint, is not in them."""
    topic = kafka.topic()
    group = f"group-of-{topic}"
    fill(kafka, topic, range(100))
    scan = kafka_scan(kafka, subscribe=topic, kafka_group_id=group)
    reading = Reading(scan, ENDLESS)
    eventually(lambda: reading.poll(rows_max=10), "rows")
    checkpoint = reading.snapshot()
    eventually(lambda: reading.poll(rows_max=10), "more rows")
    assert _group_offset(kafka, group, topic) is None
    reading.source.completed(checkpoint.open)
    eventually(lambda: reading.poll(rows_max=1) >= 0 and _group_offset(kafka, group, topic) == 10, "the group's offset")
    reading.stop()
    fresh = Reading(scan)
    assert len(fresh.until_finished()) == 100
    fresh.stop()


def test_a_reader_knows_whether_it_has_caught_up_with_what_is_there_now(kafka: Broker) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(10))
    reading = Reading(kafka_scan(kafka, subscribe=topic), ENDLESS)
    reader = next(iter(reading.readers.values()))[1]
    assert not reader.caught_up
    reading.until(10)
    eventually(lambda: reading.poll() or reader.caught_up, "caught up")
    for n in range(5):
        fill(kafka, topic, [f"more {n}"])
        reader.look()
        eventually(lambda: reading.poll() or reader.caught_up, "caught up again")
        assert len(reading.rows) == 11 + n
    reading.stop()


def test_where_partitions_end_is_told_in_the_background_and_a_missing_one_keeps_nobody_waiting(kafka: Broker) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(7))
    source = kafka_source(kafka_scan(kafka, subscribe=topic))
    missing, there = source.end_of((topic, 5)), source.end_of((topic, 0))
    assert there.result(SECONDS_MAX) == 7
    assert "LEADER_NOT_AVAILABLE" in str(missing.exception(SECONDS_MAX))
    source.close()


def test_another_history_of_the_log_is_noticed(kafka: Broker) -> None:
    """Offsets alone would fit: a leader that had not been in sync has cut off what was read, and others have written since."""
    topic = kafka.topic()
    fill(kafka, topic, range(5))
    reading = Reading(kafka_scan(kafka, subscribe=topic), ENDLESS)
    reading.until(5)
    (stream,) = (reader._feed for _, reader in reading.readers.values())
    assert isinstance(stream, Stream)
    stream.begin(5)
    stream.epoch = 1_000  # as if a leader of another time had written what was read
    fill(kafka, topic, range(5, 10))
    with pytest.raises(InvalidQuery, match=r"cannot be read, the log holds offsets 0 to 10"):
        eventually(lambda: reading.poll() and False, "the end")
    reading.stop()


def test_a_broker_that_dies_and_comes_back_costs_nothing_but_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with kafka_broker(tmp_path / "broker") as broker:
        topic = broker.topic()
        fill(broker, topic, range(10))
        reading = Reading(kafka_scan(broker, subscribe=topic, kafka_group_id="watchers"), ENDLESS)
        reading.until(10)
        stranded = Reading(kafka_scan(broker, subscribe=topic, kafka_group_id="others"), ENDLESS)
        stranded.until(10)
        broker.kill()
        stranded.source.completed(stranded.snapshot().open)
        began = time.monotonic()
        stranded.stop()
        assert time.monotonic() - began < 30, "a slot must be able to leave"
        trouble = "has trouble with the broker"
        with caplog.at_level(logging.WARNING, "tidegate"):
            eventually(lambda: reading.poll() or trouble in caplog.text, trouble)
            with pytest.raises(
                Unavailable, match="no answer from Kafka"
            ):  # Not "there is nothing new": event time waits for an answer.
                reading.discover(10**6)
        assert len(reading.rows) == 10 and trouble in caplog.text
        broker.start()
        fill(broker, topic, range(10, 20))
        assert values(reading.until(20)) == [str(n) for n in range(20)]
        reading.stop()


def test_a_missing_topic_is_one_clear_error_before_anything_runs(kafka: Broker) -> None:
    with pytest.raises(InvalidQuery, match="there is no topic or partition nowhere at 127"):
        enumerator(kafka_scan(kafka, subscribe="nowhere"), ENDLESS).check()


def test_an_unreachable_broker_is_one_clear_error_in_time() -> None:
    scan = kafka_scan(_Nobody(), subscribe="topic")  # pyright: ignore[reportArgumentType]
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"no answer from Kafka at 127.0.0.1:1:.*Connection refused"):
        enumerator(scan, ENDLESS).check()
    assert time.monotonic() - began < 60


class _Nobody:
    bootstrap = "127.0.0.1:1"


def _login(kafka: Broker, user: str, password: str, mechanism: str) -> dict[str, Any]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "kafka_bootstrap_servers": kafka.sasl_bootstrap,
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "kafka_sasl_mechanism": mechanism,
        "kafka_sasl_jaas_config": f'org.apache.kafka.common.security.{module} required username="{user}" password="{password}";',
    }


def test_wrong_credentials_are_one_clear_error_without_waiting(kafka: Broker) -> None:
    options = _login(kafka, USER, "guessed", "PLAIN")
    began = time.monotonic()
    with pytest.raises(InvalidQuery, match=r"may not log in at .*Authentication failed") as raised:
        enumerator(kafka_scan(kafka, subscribe="topic", **options), ENDLESS).check()
    assert time.monotonic() - began < ANSWER_TIMEOUT_S
    assert "guessed" not in str(raised.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_written_for_the_java_client_works(kafka: Broker, mechanism: str) -> None:
    topic = kafka.topic()
    fill(kafka, topic, ["secret"])
    options = _login(kafka, USER, PASSWORD, mechanism)
    reading = Reading(kafka_scan(kafka, subscribe=topic, **options))
    assert values(reading.until_finished()) == ["secret"]
    reading.stop()
