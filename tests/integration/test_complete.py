"""Output mode complete on a real Spark session: what the table shows is one whole result, the newest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark
ROWS = 500


def add_file(directory: Path, number: int) -> None:
    at = pl.int_range(number * ROWS, (number + 1) * ROWS, eager=True)
    pl.DataFrame({"k": at % 7, "v": at}).write_parquet(directory / f".{number}.tmp")
    (directory / f".{number}.tmp").rename(directory / f"{number}.parquet")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    add_file(directory, 0)
    return directory


@pytest.fixture
def started() -> Iterator[list[tidegate.StreamingQuery]]:
    queries: list[tidegate.StreamingQuery] = []
    yield queries
    for query in queries:
        query.stop()


def stream(spark: SparkSession, source: Path) -> DataFrame:
    return spark.readStream.schema("k bigint, v bigint").parquet(str(source))


def top(df: DataFrame) -> DataFrame:
    return df.groupBy("k").agg(F.count("*").alias("n"), F.max("v").alias("last")).orderBy(F.desc("last")).limit(3)


def shown(spark: SparkSession, source: Path, name: str, wanted: list[tuple[object, ...]], query: object) -> None:
    """Until the table shows it. On the way it shows whole results only: three rows, no key twice."""
    give_up = time.monotonic() + 150
    while (found := [tuple(row) for row in spark.table(name).collect()]) != wanted:
        assert len(found) in (0, 3) and len({row[0] for row in found}) == len(found)
        assert query.isActive, query.exception()  # type: ignore[attr-defined]
        assert time.monotonic() < give_up, found
        time.sleep(0.05)


def test_the_table_is_replaced_with_every_checkpoint_and_after_a_restart(
    spark: SparkSession, source: Path, tmp_path: Path, started: list[tidegate.StreamingQuery]
) -> None:
    """The result after a stop goes on from the state, not from nothing."""

    def start() -> tidegate.StreamingQuery:
        writer = tidegate.writeStream(top(stream(spark, source))).format("memory").queryName("whole")
        writer = writer.outputMode("complete").option("checkpointLocation", str(tmp_path / "ck"))
        return writer.option("parallelism", 2).trigger(checkpoint="100 milliseconds").start()

    def expected() -> list[tuple[object, ...]]:
        batch = spark.read.schema("k bigint, v bigint").parquet(str(source))
        return [tuple(row) for row in top(batch).collect()]

    started.append(start())
    shown(spark, source, "whole", expected(), started[-1])
    add_file(source, 1)
    shown(spark, source, "whole", expected(), started[-1])
    started[-1].stop()
    add_file(source, 2)
    started.append(start())
    shown(spark, source, "whole", expected(), started[-1])


def test_what_cannot_be_written_whole_is_refused(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    counts = stream(spark, source).groupBy("k").count()

    def writer(form: str) -> tidegate.DataStreamWriter:
        one = tidegate.writeStream(counts).format(form).queryName("refused").outputMode("complete")
        return one.option("checkpointLocation", str(tmp_path / "ck")).option("parallelism", 1)

    with pytest.raises(InvalidQuery, match="output mode complete"):
        writer("parquet").start(str(tmp_path / "out"))
    with pytest.raises(InvalidQuery, match="at-least-once"):
        writer("memory").option("checkpointMode", "at-least-once").start()


def test_the_policy_for_several_watermarks_is_the_sessions(
    spark: SparkSession, source: Path, started: list[tidegate.StreamingQuery]
) -> None:
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
    try:
        writer = tidegate.writeStream(stream(spark, source)).format("noop").option("parallelism", 1)
        started.append(writer.start())
    finally:
        spark.conf.unset("spark.sql.streaming.multipleWatermarkPolicy")
    assert "watermark_policy = WatermarkPolicy.MAX" in started[-1].explain_text(extended=True)
