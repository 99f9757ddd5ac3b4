"""The generator gives Spark and Tidegate the same rows: what every comparison with Spark rests on."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.unit.connectors.reading import read_all, scan_of

from tidegate.connectors.nexmark import register
from tidegate.connectors.nexmark.config import TABLES

EVENTS, SEED = 20_000, 11


def ours(table: str) -> list[tuple[Any, ...]]:
    scan = scan_of("tidegate-nexmark", TABLES[table], table=table, events=EVENTS, seed=SEED, partitions=3)
    return sorted(_naive(row) for row in read_all(scan))


def _naive(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """PySpark hands out timestamps as naive local times."""
    return tuple(
        value.astimezone().replace(tzinfo=None) if isinstance(value, datetime.datetime) else value for value in row
    )


@pytest.mark.spark
@pytest.mark.parametrize("table", list(TABLES))
def test_spark_batch_reads_the_same_rows(spark: SparkSession, table: str) -> None:
    register(spark)
    frame = (
        spark.read.format("tidegate-nexmark")
        .option("table", table)
        .option("events", EVENTS)
        .option("seed", SEED)
        .load()
    )
    assert sorted(tuple(row) for row in frame.collect()) == ours(table)


@pytest.mark.spark
def test_spark_streaming_reads_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    stream = (
        spark.readStream.format("tidegate-nexmark")
        .option("table", "auction").option("events", EVENTS).option("seed", SEED).load()
    )  # fmt: skip
    query = (
        stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination(120)
    found = spark.read.schema(stream.schema).parquet(str(tmp_path / "out")).collect()
    assert sorted(tuple(row) for row in found) == ours("auction")
