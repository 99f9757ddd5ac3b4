"""Whole queries into Kafka, read by a consumer of committed rows: as the page shows it, and with slots that die on the way."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from tests.e2e.scenario import ROOT, slow_while, while_active
from tests.servers.kafka import QUIET, Broker

import tidegate
from tidegate.connectors.kafka import register
from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark

ROWS = 6_000


def visible(kafka: Broker, topic: str, count: int) -> Counter[str]:
    return Counter((message.value() or b"").decode() for message in kafka.read(topic, count, seconds=60))


def test_the_example_of_the_kafka_page_writes_every_order_once(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    page = (ROOT / "docs/connectors/kafka.md").read_text()
    (example,) = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "orders-checked" in one]
    topic = kafka.topic(partitions=2)
    schema = "customer string, amount bigint"
    (tmp_path / "orders").mkdir()
    orders = spark.readStream.schema(schema).json(str(tmp_path / "orders"))
    names = {"orders": orders, "brokers": kafka.bootstrap, "checkpoints": str(tmp_path / "checkpoints")}
    expected: Counter[str] = Counter()
    for run in range(2):
        rows = [(f"c{n % 7}", n) for n in range(run * 50, run * 50 + 50)]
        expected.update(f'{{"customer":"{customer}","amount":{amount}}}' for customer, amount in rows)
        spark.createDataFrame(rows, schema).coalesce(1).write.mode("append").json(str(tmp_path / "orders"))
        exec(compile(example.replace("orders-checked", topic), "kafka.md", "exec"), dict(names))
        assert visible(kafka, topic, len(expected)) == expected


def passed_on(spark: SparkSession, kafka: Broker, source: str, target: str, folder: Path) -> Any:
    """Kafka to Kafka, in small steps, which take their time while there is a file ``slow``."""
    register(spark)
    messages: DataFrame = (
        spark.readStream.format("tidegate-kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        tidegate.writeStream(
            messages.select("key", "value").mapInArrow(slow_while(folder / "slow", 0.2), "key binary, value binary")
        )
        .format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("batchRowsMax", 50)
        .trigger(availableNow=True, checkpoint="200 milliseconds")
        .start()
    )


def test_from_kafka_to_kafka_every_row_is_there_once_though_a_slot_is_killed(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    source, target = kafka.topic(partitions=2), kafka.topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUIET})
    for n in range(ROWS):
        producer.produce(source, f"row {n}", f"k{n % 11}")
    producer.flush()
    (tmp_path / "slow").touch()
    query = passed_on(spark, kafka, source, target, tmp_path)
    assert "exactly_once" in query.explain_text()
    while_active(query, lambda: query.snapshot().history.completed >= 2, "two checkpoints")
    os.kill(next(iter(query.snapshot().pids.values())), signal.SIGKILL)
    (tmp_path / "slow").unlink()
    assert query.awaitTermination(180)
    assert len(query.recoveries) == 1
    assert visible(kafka, target, ROWS) == Counter(f"row {n}" for n in range(ROWS))
    assert Transactions({"bootstrap.servers": kafka.bootstrap}).open_ids("tidegate/") == (), "readers would hang"


def test_what_is_wrong_with_the_sink_is_said_at_start(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load()
    for columns, topic, words in (("value", "any", "bigint"), ("string(value) AS value", "missing", "no topic")):
        writer = tidegate.writeStream(stream.selectExpr(columns)).format("kafka").option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", kafka.bootstrap)
        with pytest.raises(InvalidQuery, match=words):
            writer.option("checkpointLocation", str(tmp_path / "checkpoints")).start()
