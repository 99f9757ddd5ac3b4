"""A query by someone who only knows PySpark: SQL text over temp views, a UDF, sliding windows, a static join, HAVING."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.e2e.scenario import SCHEMA, add_trips, assert_same_rows

import tidegate

pytestmark = pytest.mark.spark

REPORT = """
    SELECT window.start AS begins, window.end AS ends, s.city, tariff(t.minutes) AS tariff,
           count(*) AS trips, sum(t.fare) AS income, max(t.minutes) AS longest
    FROM {trips} t JOIN {stations} s ON t.station = s.id
    WHERE t.fare > 1 AND s.city <> 'Atlantis'
    GROUP BY window(t.ts, '60 seconds', '20 seconds'), s.city, tariff(t.minutes)
    HAVING count(*) > 5
"""


def tariff(minutes: int) -> str:
    """The user's own function, as it stands in their notebook."""
    return "short" if minutes < 15 else "day" if minutes < 60 else "long"


@pytest.fixture
def stations(spark: SparkSession, tmp_path: Path) -> DataFrame:
    rows = [(number, ["Ghent", "Lyon", "Turin", "Atlantis"][number % 4]) for number in range(20)]
    spark.createDataFrame(rows, "id bigint, city string").write.parquet(str(tmp_path / "stations"))
    return spark.read.parquet(str(tmp_path / "stations"))


def as_sql(spark: SparkSession, trips: DataFrame, stations: DataFrame) -> DataFrame:
    spark.udf.register("tariff", tariff, "string")
    kind = "stream" if trips.isStreaming else "batch"
    trips.withWatermark("ts", "5 seconds").createOrReplaceTempView(f"trips_{kind}")
    stations.createOrReplaceTempView(f"stations_{kind}")
    return spark.sql(REPORT.format(trips=f"trips_{kind}", stations=f"stations_{kind}"))


def as_dataframe(spark: SparkSession, trips: DataFrame, stations: DataFrame) -> DataFrame:
    tariff_of = F.udf(tariff, "string")
    windows = (
        trips.withWatermark("ts", "5 seconds")
        .where("fare > 1")
        .join(stations.where(F.col("city") != "Atlantis"), F.col("station") == F.col("id"))
        .groupBy(F.window("ts", "60 seconds", "20 seconds"), "city", tariff_of("minutes").alias("tariff"))
        .agg(F.count("*").alias("trips"), F.sum("fare").alias("income"), F.max("minutes").alias("longest"))
        .where("trips > 5")
    )
    return windows.select("window.start", "window.end", "city", "tariff", "trips", "income", "longest").toDF(
        "begins", "ends", "city", "tariff", "trips", "income", "longest"
    )


def run(df: DataFrame, folder: Path, parallelism: int, at_end: str) -> None:
    query = (
        tidegate.writeStream(df)
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("parallelism", parallelism)
        .option("atEnd", at_end)
        .trigger(availableNow=True, checkpoint="200 milliseconds")
        .start(str(folder / "report"))
    )
    assert query.awaitTermination(180)
    assert query.recoveries == ()


def test_sql_text_equals_batch_over_three_starts_with_more_files_and_other_parallelisms(spark, stations, tmp_path):
    """T45: open windows stay in state between the starts and are found again by 2, 3 and 1 slots."""
    trips = tmp_path / "trips"
    for start, (parallelism, at_end) in enumerate([(2, "keep"), (3, "keep"), (1, "drain")]):
        for number in (2 * start, 2 * start + 1):
            add_trips(trips, number)
        stream = spark.readStream.schema(SCHEMA).parquet(str(trips))
        run(as_sql(spark, stream, stations), tmp_path, parallelism, at_end)
    batch = spark.read.schema(SCHEMA).parquet(str(trips))
    rows = assert_same_rows(spark.read.parquet(str(tmp_path / "report")), as_sql(spark, batch, stations))
    assert rows > 500
    late = spark.read.parquet(str(tmp_path / "report")).groupBy("begins", "city", "tariff").count().where("count > 1")
    assert late.isEmpty(), "a window was written twice"


def test_the_same_query_in_the_dataframe_api_gives_the_same_rows(spark, stations, tmp_path):
    trips = tmp_path / "trips"
    for number in range(2):
        add_trips(trips, number)
    stream = spark.readStream.schema(SCHEMA).parquet(str(trips))
    run(as_dataframe(spark, stream, stations), tmp_path, 2, "drain")
    batch = spark.read.schema(SCHEMA).parquet(str(trips))
    assert_same_rows(spark.read.parquet(str(tmp_path / "report")), as_sql(spark, batch, stations))
