"""Where a Kafka source begins, against a real broker: decided at the first start, whatever comes before the first checkpoint."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions  # pyright: ignore[reportPrivateImportUsage]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.integration.connectors.kafka_reading import BOUNDED, ENDLESS, eventually, fill, kafka_scan
from tests.servers.kafka import Broker

import tidegate
from tidegate.checkpoint.layout import BEGIN_PREFIX
from tidegate.connectors.kafka import register
from tidegate.connectors.kafka.format import enumerator
from tidegate.connectors.kafka.source.splits import EARLIEST, KafkaSplit, decode_split
from tidegate.connectors.legacy import Scan
from tidegate.model.config import QueryConfig
from tidegate.model.errors import UserCodeFailed
from tidegate.model.ids import OperatorId
from tidegate.spark.restored_sources import RestoredSources
from tidegate.storage.local import LocalBlobStore

SOURCE = OperatorId("source-0")


def attempt(scan: Scan, location: Path, config: QueryConfig = ENDLESS) -> list[KafkaSplit]:
    """What is read from where, by an attempt that restores no checkpoint."""
    looking = enumerator(scan, config)
    known = RestoredSources(None, LocalBlobStore(location)).restore(SOURCE, looking, 0)
    return [decode_split(split.payload) for split in (*known, *looking.discover(0))]


def starts(splits: list[KafkaSplit]) -> dict[int, int]:
    return {split.partition: split.start for split in splits}


def test_latest_is_where_it_was_at_the_first_start_and_new_partitions_are_read_from_their_beginning(
    kafka: Broker, tmp_path: Path
) -> None:
    topic = kafka.topic(partitions=2)
    fill(kafka, topic, range(10), 0)
    scan = kafka_scan(kafka, subscribe=topic, startingOffsets="latest")
    assert starts(attempt(scan, tmp_path)) == {0: 10, 1: 0}
    fill(kafka, topic, range(5), 0)
    kafka.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    eventually(lambda: len(starts(attempt(scan, tmp_path))) == 3, "the third partition")
    assert starts(attempt(scan, tmp_path)) == {0: 10, 1: 0, 2: EARLIEST}
    moved = kafka_scan(kafka, subscribe=topic, startingOffsets="earliest")
    assert starts(attempt(moved, tmp_path)) == dict.fromkeys(range(3), EARLIEST), "another option is another decision"


def test_a_bounded_run_begins_there_too_and_ends_where_the_log_ends_now(kafka: Broker, tmp_path: Path) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(10))
    scan = kafka_scan(kafka, subscribe=topic, startingOffsets="latest")
    assert [(one.start, one.end) for one in attempt(scan, tmp_path, BOUNDED)] == [(10, 10)]
    fill(kafka, topic, range(5))
    assert [(one.start, one.end) for one in attempt(scan, tmp_path, BOUNDED)] == [(10, 15)]


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"%s":{"0":-1}}'},
        {"startingTimestamp": "4102444800000", "startingOffsetsByTimestampStrategy": "latest"},
        {"startingOffsetsByTimestamp": '{"%s":{"0":4102444800000}}', "startingOffsetsByTimestampStrategy": "latest"},
    ],
    ids=["-1", "a moment to come", "a moment to come, by partition"],
)
def test_every_other_word_for_the_end_is_decided_once(kafka: Broker, tmp_path: Path, options: dict[str, str]) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(10))
    scan = kafka_scan(kafka, subscribe=topic, **{name: text.replace("%s", topic) for name, text in options.items()})
    assert starts(attempt(scan, tmp_path)) == {0: 10}
    fill(kafka, topic, range(5))
    assert starts(attempt(scan, tmp_path)) == {0: 10}


def test_drivers_that_start_at_once_agree(kafka: Broker, tmp_path: Path) -> None:
    """They look while rows come in: all of them begin where the first decision says, and there is one document."""
    topic = kafka.topic()
    scan = kafka_scan(kafka, subscribe=topic, startingOffsets="latest")
    found: list[dict[int, int]] = []

    def start() -> None:
        found.append(starts(attempt(scan, tmp_path)))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
        fill(kafka, topic, range(3))
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(one == found[0] for one in found)
    assert len(LocalBlobStore(tmp_path).list(BEGIN_PREFIX)) == 1


def test_a_topic_that_is_left_out_or_named_before_the_first_checkpoint_begins_anew_with_the_others(
    kafka: Broker, tmp_path: Path
) -> None:
    """What was decided for other topics is no answer: one that was not among them would be taken for a new one, and read from its start."""
    topics = [kafka.topic(), kafka.topic()]
    for topic in topics:
        fill(kafka, topic, range(10))
    scan = kafka_scan(kafka, subscribe=topics[0], startingOffsets="latest")
    assert starts(attempt(scan, tmp_path)) == {0: 10}
    both = attempt(kafka_scan(kafka, subscribe=",".join(topics), startingOffsets="latest"), tmp_path)
    assert [(one.topic, one.start) for one in both] == [(topic, 10) for topic in sorted(topics)]
    only = attempt(kafka_scan(kafka, subscribe=topics[1], startingOffsets="latest"), tmp_path)
    assert [(one.topic, one.start) for one in only] == [(topics[1], 10)]
    fill(kafka, topics[0], range(5))
    assert starts(attempt(scan, tmp_path)) == {0: 10}, "under the old options the old decision counts"


def test_an_end_is_decided_with_the_beginning_and_another_one_anew(kafka: Broker, tmp_path: Path) -> None:
    topic = kafka.topic()
    fill(kafka, topic, range(10))
    scan = kafka_scan(kafka, subscribe=topic, startingOffsets="earliest", endingOffsets="latest")
    assert [one.end for one in attempt(scan, tmp_path)] == [10]
    fill(kafka, topic, range(5))
    assert [one.end for one in attempt(scan, tmp_path)] == [10], "a failed start does not move it"
    nearer = kafka_scan(kafka, subscribe=topic, startingOffsets="earliest", endingOffsets=json.dumps({topic: {"0": 3}}))
    assert [one.end for one in attempt(nearer, tmp_path)] == [3]


@pytest.mark.spark
def test_rows_between_a_first_start_that_fails_and_the_second_one_are_read(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """The first start dies before its first checkpoint, of a function of the user that cannot take a row."""
    register(spark)
    topic = kafka.topic(partitions=2)
    fill(kafka, topic, ["before"], 0)
    mended = tmp_path / "mended"
    path = str(mended)

    def take(frames: Any) -> Any:
        for frame in frames:
            if not Path(path).exists():
                raise ValueError("not yet")
            yield frame

    def query() -> tidegate.StreamingQuery:
        loaded: DataFrame = (
            spark.readStream.format("tidegate-kafka")
            .options(**{"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic})
            .load()
        )
        taken = loaded.select(F.col("value").cast("string").alias("v")).mapInPandas(take, "v string")
        writer = tidegate.writeStream(taken).format("parquet").option("checkpointLocation", str(tmp_path / "ck"))
        return (
            writer.options(parallelism=1, restartStrategy="none")
            .trigger(checkpoint="1 hour")
            .start(str(tmp_path / "out"))
        )

    first = query()
    # Decided before anything is read: from then on rows count.
    eventually(lambda: list((tmp_path / "ck").glob("begin/*/*")), "the decision where to begin")
    fill(kafka, topic, ["poison"], 0)
    with pytest.raises(UserCodeFailed):
        first.awaitTermination(120)
    assert not list((tmp_path / "ck").glob("checkpoints/*/manifest"))
    fill(kafka, topic, ["meanwhile"], 1)
    mended.touch()
    second = query()
    try:
        second.processAllAvailable()
        second.checkpoint(timeout=60)
    finally:
        second.stop()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.v for row in rows) == ["meanwhile", "poison"]
