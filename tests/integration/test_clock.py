"""``current_timestamp()`` against the clock on the wall, and where it is refused."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark


def test_rows_carry_the_time_at_which_they_were_read(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(50).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    stamped = rows.where(F.current_timestamp() > F.lit("2020-01-01").cast("timestamp")).select(
        "id", F.current_timestamp().alias("at"), F.unix_timestamp().alias("seconds")
    )
    begin = datetime.datetime.now(datetime.UTC)
    query = (
        tidegate.writeStream(stamped)
        .format("memory")
        .queryName("clock_rows")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .option("parallelism", 1)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    end = datetime.datetime.now(datetime.UTC)
    found = spark.table("clock_rows").selectExpr("id", "unix_micros(at) as us", "seconds").collect()
    assert sorted(row.id for row in found) == list(range(50))
    for row in found:
        assert begin.timestamp() - 1 <= row.us / 1e6 <= end.timestamp() + 1
        assert row.seconds == row.us // 1_000_000


def test_in_a_join_condition_the_time_is_refused_with_the_way_out(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").load()
    static = spark.range(3).withColumn("until", F.current_timestamp())
    joined = rows.join(static, (F.col("value") == F.col("id")) & (F.greatest("until", "timestamp") > F.now()))
    with pytest.raises(InvalidQuery, match="time of day") as caught:
        tidegate.writeStream(joined).format("noop").option("checkpointLocation", str(tmp_path)).start()
    assert "before" in (caught.value.hint or "")
