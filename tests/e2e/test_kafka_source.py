"""Whole queries over Kafka: Spark's own format and ours, equal to Spark batch over the same rows; stopped, grown and started again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import NewPartitions  # pyright: ignore[reportPrivateImportUsage]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.e2e.scenario import ROOT, assert_same_rows, while_active
from tests.servers.jars import jars
from tests.servers.kafka import QUIET, Broker

import tidegate
from tidegate.connectors.kafka import register

pytestmark = pytest.mark.spark

_POM = Path(__file__).parents[1] / "servers" / "spark-kafka-pom.xml"


@pytest.fixture
def with_sparks_package(spark: SparkSession) -> SparkSession:
    """Spark's own Kafka source, whose jars come into the running session."""
    for jar in sorted(jars("spark-kafka-4.2.0", _POM).glob("*.jar")):
        spark.sql(f"ADD JAR '{jar}'")
    return spark


def sell(kafka: Broker, topic: str, numbers: range, partitions: int) -> None:
    """Orders in JSON, one every 100 ms, a little out of order; some have headers."""
    random = Random(numbers.start)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET})
    for n in numbers:
        order = {"at": (n + random.randrange(10)) * 100, "customer": f"c{n % 7}", "amount": n % 50}
        headers: list[Any] = [("n", str(n).encode()), ("n", None)] if n % 5 == 0 else []
        key = None if n % 3 else b"key"
        value = json.dumps(order).encode()
        producer.produce(topic, value, key, n % partitions, timestamp=1_700_000_000_000 + n, headers=headers)
    producer.flush()


def orders(messages: DataFrame) -> DataFrame:
    parsed = F.from_json(F.col("value").cast("string"), "at bigint, customer string, amount bigint")
    return messages.select(parsed.alias("o")).select(F.timestamp_millis("o.at").alias("at"), "o.customer", "o.amount")


def per_customer(messages: DataFrame) -> DataFrame:
    windows = orders(messages).withWatermark("at", "2 seconds").groupBy(F.window("at", "5 seconds"), "customer")
    sums = windows.agg(F.sum("amount").alias("total"), F.count("*").alias("orders"))
    return sums.select("window.start", "window.end", "customer", "total", "orders")


def options(kafka: Broker, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest"} | more


def run(df: DataFrame, folder: Path, at_end: str = "drain") -> DataFrame:
    query = (
        tidegate.writeStream(df)
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("atEnd", at_end)
        .trigger(availableNow=True, checkpoint="200 milliseconds")
        .start(str(folder / "report"))
    )
    assert query.awaitTermination(180)
    assert query.recoveries == ()
    return df.sparkSession.read.parquet(str(folder / "report"))


def _watched(kafka: Broker, group: str) -> int:
    """How many records a group has behind it."""
    asked = kafka.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
    return sum(one.offset for one in asked.result(20).topic_partitions or [])


def test_the_example_of_the_page_reads_what_is_there(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    page = (ROOT / "docs/connectors/kafka.md").read_text()
    example = re.findall(r"## Source\n\n```python\n(.*?)```", page, re.DOTALL)[0]
    topic = kafka.topic()
    names = {"checkpoints": str(tmp_path / "checkpoints"), "output": str(tmp_path / "output")}
    for start in range(2):
        sell(kafka, topic, range(start * 20, start * 20 + 20), 1)
        exec(
            compile(example.replace('"orders")', f'"{topic}")'), "kafka.md", "exec"),
            {"__name__": "__main__", "spark": spark, "servers": kafka.bootstrap, **names},
        )
    written = spark.read.parquet(names["output"]).select("offset", "customer").collect()
    assert sorted(row.offset for row in written) == list(range(40))
    assert {row.customer for row in written} == {None, "key"}


def test_every_column_of_sparks_own_format_is_what_spark_reads(
    with_sparks_package: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    spark, topic = with_sparks_package, kafka.topic(partitions=2)
    sell(kafka, topic, range(200), 2)
    given = options(kafka, topic, includeHeaders="true")
    expected = spark.read.format("kafka").options(**given).load()
    result = run(spark.readStream.format("kafka").options(**given).load(), tmp_path)
    assert result.columns == expected.columns
    assert assert_same_rows(_comparable(result), _comparable(expected)) == 200


def _comparable(messages: DataFrame) -> DataFrame:
    return messages.withColumn("headers", F.to_json("headers"))


def test_windows_over_our_format_equal_batch_over_two_starts(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    register(spark)
    topic = kafka.topic(partitions=3)
    stream = per_customer(spark.readStream.format("tidegate-kafka").options(**options(kafka, topic)).load())
    for start, at_end in enumerate(("keep", "drain")):
        sell(kafka, topic, range(start * 600, start * 600 + 600), 3)
        run(stream, tmp_path, at_end)
    batch = per_customer(spark.read.format("tidegate-kafka").options(**options(kafka, topic)).load())
    rows = assert_same_rows(spark.read.parquet(str(tmp_path / "report")), batch)
    assert rows > 100


def test_a_running_query_finds_new_partitions_and_goes_on_where_it_was_stopped(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    register(spark)
    topic = kafka.topic(partitions=1)
    given = options(kafka, topic, **{"kafka.group.id": f"{topic}-watchers"})
    messages = spark.readStream.format("tidegate-kafka").options(**given).load()
    found = messages.select(F.col("partition"), F.col("offset"), F.col("value").cast("string").alias("value"))

    def start() -> Any:
        return (
            tidegate.writeStream(found)
            .format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoints"))
            .trigger(checkpoint="200 milliseconds")
            .start(str(tmp_path / "out"))
        )

    def count() -> int:
        return spark.read.parquet(str(tmp_path / "out")).count()

    sell(kafka, topic, range(100), 1)
    query = start()
    query.processAllAvailable()
    assert count() == 100
    sell(kafka, topic, range(100, 150), 1)
    query.processAllAvailable()
    assert count() == 150
    kafka.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(90)
    kafka.await_partitions(topic, 3)
    sell(kafka, topic, range(150, 210), 3)
    while_active(query, lambda: count() == 210, "rows of new partitions")
    query.stop()
    sell(kafka, topic, range(210, 300), 3)
    query = start()
    query.processAllAvailable()
    while_active(query, lambda: _watched(kafka, f"{topic}-watchers") == 300, "the group's offsets")
    query.stop()
    batch = spark.read.format("tidegate-kafka").options(**given).load()
    expected = batch.select("partition", "offset", F.col("value").cast("string").alias("value"))
    assert assert_same_rows(spark.read.parquet(str(tmp_path / "out")), expected) == 300
    assert query.recoveries == ()
