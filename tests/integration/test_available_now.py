"""``availableNow`` ends as Spark's own does: what the last watermark closes is out, open windows wait for the next start."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate

pytestmark = pytest.mark.spark

SCHEMA = "ts timestamp, k bigint, v bigint"
ROWS = 2_000


def add_files(directory: Path, numbers: range) -> None:
    directory.mkdir(exist_ok=True)
    for number in numbers:
        at = pl.int_range(number * ROWS, (number + 1) * ROWS, eager=True)
        frame = pl.DataFrame({"ts": at * 20_000, "k": at * 7 % 5, "v": at})
        frame = frame.with_columns(pl.col("ts").cast(pl.Datetime("us")).dt.replace_time_zone("UTC"))
        frame.write_parquet(directory / f".{number:03}.tmp")
        (directory / f".{number:03}.tmp").rename(directory / f"{number:03}.parquet")


def windows(spark: SparkSession, source: Path) -> DataFrame:
    events = spark.readStream.schema(SCHEMA).parquet(str(source)).withWatermark("ts", "3 seconds")
    grouped = events.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    return grouped.select("window.start", "window.end", "k", "n", "total")


def run(writer: object, checkpoints: Path, output: Path) -> None:
    chosen = writer.format("parquet").outputMode("append").option("checkpointLocation", str(checkpoints))  # type: ignore[attr-defined]
    query = chosen.trigger(availableNow=True).start(str(output))
    query.awaitTermination(180)
    assert not query.isActive


def test_two_runs_in_a_row_give_what_sparks_own_two_runs_give(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    for numbers in (range(3), range(3, 5)):
        add_files(source, numbers)
        spark_out, tidegate_out = tmp_path / "spark", tmp_path / "tidegate"
        run(windows(spark, source).writeStream, tmp_path / "spark-checkpoints", spark_out)
        run(tidegate.writeStream(windows(spark, source)), tmp_path / "checkpoints", tidegate_out)
        expected, found = (spark.read.parquet(str(path)) for path in (spark_out, tidegate_out))
        assert found.count() > 0
        assert expected.exceptAll(found).collect() == []
        assert found.exceptAll(expected).collect() == []
