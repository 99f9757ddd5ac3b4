"""Windows over uneven partitions, some of which nobody can read for a while: every row is in its window, as in Spark batch."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.e2e.scenario import assert_same_rows, wait_until, while_active
from tests.servers.kafka import QUIET, Broker, kafka_cluster

import tidegate
from tidegate.connectors.kafka import register

pytestmark = pytest.mark.spark

PARTITIONS, EMPTY, CROWDED, BEHIND, CUT = 12, 5, 3, 7, 11
ROWS, SECONDS, DISORDER_S = 600, 60, 1.8
IDLE_S = 0.5
CUT_S = float(os.environ.get("TIDEGATE_CUT_S", 10 * IDLE_S))
"""Nobody leads the cut partition for so long."""


def write(
    broker: Broker, topic: str, partition: int, *, rows: int = ROWS, from_s: float = 0.0, disorder_s: float = DISORDER_S
) -> int:
    """Over a minute of event time, a little out of order."""
    random = Random(partition)
    producer = Producer({"bootstrap.servers": broker.bootstrap, **QUIET})
    for n in range(rows):
        at_s = from_s + n * SECONDS / rows - random.random() * disorder_s
        producer.produce(topic, json.dumps({"at": int(at_s * 1e6) + 10**12, "n": n}).encode(), partition=partition)
        producer.poll(0)
    assert producer.flush(90) == 0
    return rows


def leader(broker: Broker, topic: str, partition: int) -> int:
    return broker.admin.list_topics(topic, timeout=30).topics[topic].partitions[partition].leader


def windows(messages: DataFrame) -> DataFrame:
    parsed = F.from_json(F.col("value").cast("string"), "at bigint, n bigint")
    rows = messages.select("partition", parsed.alias("o")).select(F.timestamp_micros("o.at").alias("at"), "o.n")
    counts = rows.withWatermark("at", "2 seconds").groupBy(F.window("at", "5 seconds"))
    return counts.agg(F.count("*").alias("rows"), F.sum("n").alias("n")).select("window.start", "rows", "n")


def start(df: DataFrame, folder: Path, **trigger: Any) -> Any:
    return (
        tidegate.writeStream(df)
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("idleTimeout", f"{int(IDLE_S * 1_000)} milliseconds")
        .option("atEnd", "drain" if trigger.get("availableNow") else "keep")
        .trigger(checkpoint="200 milliseconds", **trigger)
        .start(str(folder / "report"))
    )


def holders(query: Any) -> list[tuple[str, int]]:
    return [(one["reason"], one["count"]) for one in query.lastProgress["eventTime"]["heldBy"]]


def test_partitions_with_a_backlog_that_is_empty_crowded_behind_or_cut_off_lose_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """T72: of twelve partitions one has nobody to lead it for ten times ``idleTimeout`` while the others are read to their ends. What
    it has is of the same time as theirs."""
    register(spark)
    with kafka_cluster(tmp_path / "kafka", brokers=2, session_ms=3_000) as (first, second):
        homes = [[2] if partition == CUT else [1] for partition in range(PARTITIONS)]
        first.admin.create_topics([NewTopic("uneven", PARTITIONS, replica_assignment=homes)])["uneven"].result(90)
        first.await_partitions("uneven", PARTITIONS)
        written = {
            partition: write(first, "uneven", partition) for partition in range(PARTITIONS) if partition != EMPTY
        }
        written[CROWDED] += write(first, "uneven", CROWDED, rows=20 * ROWS)
        written[BEHIND] += write(first, "uneven", BEHIND, from_s=-600.0)
        second.kill()
        wait_until(lambda: leader(first, "uneven", CUT) < 0, "the cluster to notice")
        options = {
            "kafka.bootstrap.servers": f"{first.bootstrap},{second.bootstrap}",
            "subscribe": "uneven",
            "startingOffsets": "earliest",
        }
        stream = windows(spark.readStream.format("tidegate-kafka").options(**options).load())
        query = start(stream, tmp_path)

        def read() -> int:
            return sum(source["numInputRows"] for report in query.recentProgress for source in report["sources"])

        others = sum(rows for partition, rows in written.items() if partition != CUT)
        while_active(query, lambda: read() >= others, "the rows of the eleven")
        time.sleep(CUT_S)  # That is the fault.
        while_active(query, lambda: holders(query) == [("unanswered", 1)], "who holds time back to be named")
        assert "watermark" not in query.lastProgress["eventTime"], "time has not begun"
        second.start()
        query.processAllAvailable()
        query.stop()
        query = start(stream, tmp_path, availableNow=True)
        assert query.awaitTermination(180)
        assert query.recoveries == ()
        batch = windows(spark.read.format("tidegate-kafka").options(**options).load())
        assert assert_same_rows(spark.read.parquet(str(tmp_path / "report")), batch) > 20


def test_order_inside_a_partition_counts_in_a_run_with_an_end_only_when_asked_for(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """Rows up to half a minute out of order under a delay of two seconds, in a backlog that is read in many batches."""
    register(spark)
    topic = kafka.topic(partitions=3)
    total = sum(write(kafka, topic, partition, rows=40 * ROWS, disorder_s=30.0) for partition in range(3))
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.max.partition.fetch.bytes": "20000",
    }
    batch = windows(spark.read.format("tidegate-kafka").options(**options).load())
    dropped: dict[str, int] = {}
    for order in ("off", "on"):
        given = options | ({"partitionOrder": "on"} if order == "on" else {})
        query = start(
            windows(spark.readStream.format("tidegate-kafka").options(**given).load()),
            tmp_path / order,
            availableNow=True,
        )
        assert query.awaitTermination(180)
        (state,) = query.lastProgress["stateOperators"]
        dropped[order] = state["customMetrics"]["rowsDroppedByWatermarkTotal"]
    assert assert_same_rows(spark.read.parquet(str(tmp_path / "off" / "report")), batch) > 10
    kept = spark.read.parquet(str(tmp_path / "on" / "report")).agg(F.sum("rows")).first()
    assert kept is not None
    assert dropped["off"] == 0 < dropped["on"] == total - kept[0]
