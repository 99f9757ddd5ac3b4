"""Event time that nobody could tell rightly is refused when the query starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark


def start(df: DataFrame, tmp_path: Path, **trigger: object) -> tidegate.StreamingQuery:
    writer = tidegate.writeStream(df).format("noop").option("parallelism", 1)
    return writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(**trigger).start()


def behind_an_exchange(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["k"]).withWatermark("ts", "1 second").groupBy(F.window("ts", "5 seconds")).count()


def test_behind_an_exchange_a_log_is_refused_and_files_run(spark: SparkSession, tmp_path: Path) -> None:
    """T85: there one partition would make the rows of another late."""
    rates = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value AS k")
    with pytest.raises(InvalidQuery, match=r"stands behind an exchange.* source-rate ") as refused:
        start(behind_an_exchange(rates), tmp_path)
    assert "call withWatermark() before that" in str(refused.value)
    assert not (tmp_path / "ck").exists()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"ts":"2024-01-01T00:00:00Z","k":1}\n')
    files = spark.readStream.schema("ts timestamp, k bigint").json(str(tmp_path / "in"))
    query = start(behind_an_exchange(files), tmp_path, checkpoint="1 hour")
    try:
        query.processAllAvailable()
    finally:
        query.stop()
