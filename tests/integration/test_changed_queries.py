"""One location, several starts: with other numbers of slots, and with queries that have changed in between."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark

SCHEMA = "ts timestamp, k bigint, v bigint"
ROWS_PER_FILE = 2_000


def add_file(directory: Path, number: int) -> None:
    """One event per 100 ms, 37 keys; the rows of a window lie in several files."""
    directory.mkdir(exist_ok=True)
    at = pl.int_range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE, eager=True)
    frame = pl.DataFrame({"ts": at * 100_000, "k": at * 7 % 37, "v": at})
    frame = frame.with_columns(pl.col("ts").cast(pl.Datetime("us")).dt.replace_time_zone("UTC"))
    frame.write_parquet(directory / f".{number:03}.tmp")
    (directory / f".{number:03}.tmp").rename(directory / f"{number:03}.parquet")


def stream(spark: SparkSession, *directories: Path) -> DataFrame:
    frames = [spark.readStream.schema(SCHEMA).parquet(str(one)) for one in directories]
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def batch(spark: SparkSession, *directories: Path) -> DataFrame:
    return spark.read.schema(SCHEMA).parquet(*map(str, directories))


def windows(df: DataFrame, length: str = "70 seconds") -> DataFrame:
    timed = df.withWatermark("ts", "5 seconds")
    return timed.groupBy(F.window("ts", length), "k").agg(F.count("*").alias("n"), F.max("v").alias("top"))


def writing(df: DataFrame, folder: Path, at_end: str = "keep", **options: object) -> tidegate.DataStreamWriter:
    writer = tidegate.writeStream(df).format("parquet").options(**{"parallelism": 2, "atEnd": at_end, **options})
    writer = writer.option("checkpointLocation", str(folder / "ck")).option("path", str(folder / "out"))
    return writer.trigger(availableNow=True, checkpoint="200 milliseconds")


def run(df: DataFrame, folder: Path, *, at_end: str = "keep", **options: object) -> tidegate.StreamingQuery:
    query = writing(df, folder, at_end, **options).start()
    assert query.awaitTermination(180)
    return query


def contents(location: Path) -> dict[str, bytes]:
    return {str(file.relative_to(location)): file.read_bytes() for file in location.rglob("*") if file.is_file()}


def assert_equal(result: DataFrame, expected: DataFrame) -> None:
    assert result.exceptAll(expected).limit(5).collect() == [], "rows that batch does not have"
    assert expected.exceptAll(result).limit(5).collect() == [], "rows that are missing"


def test_windows_and_running_totals_equal_batch_over_one_three_and_two_slots(spark, tmp_path):
    """T45 T46: open windows, totals, source positions and watermarks go from one slot to three and on to two."""
    source = tmp_path / "in"
    name = f"totals_{uuid.uuid4().hex[:8]}"

    def totals(df: DataFrame) -> DataFrame:
        return df.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))

    for start, (slots, at_end) in enumerate([(1, "keep"), (3, "keep"), (2, "drain")]):
        add_file(source, 2 * start)
        add_file(source, 2 * start + 1)
        run(windows(stream(spark, source)), tmp_path, at_end=at_end, parallelism=slots)
        running = tidegate.writeStream(totals(stream(spark, source))).format("memory").queryName(name)
        running = running.outputMode("update").option("parallelism", slots).trigger(availableNow=True)
        assert running.option("checkpointLocation", str(tmp_path / "ck-totals")).start().awaitTermination(180)
    assert_equal(spark.read.parquet(str(tmp_path / "out")), windows(batch(spark, source)))
    # Every key has rows in the files of the last start, so its newest total is among the updates of that start.
    newest = spark.table(name).groupBy("k").agg(F.max("n").alias("n"), F.max_by("total", "n").alias("total"))
    assert_equal(newest, totals(batch(spark, source)))


def test_a_filter_a_projection_and_a_second_source_move_no_state(spark, tmp_path, caplog):
    """T48: windows left open by the first start are found by a query with other operators around them."""
    first, second = tmp_path / "bids", tmp_path / "asks"
    for number in range(2):
        add_file(first, number)
    before = run(windows(stream(spark, first)), tmp_path)
    assert "aggregate-window_k" in before.explain_text(extended=True)
    add_file(first, 2)
    add_file(second, 2)
    add_file(second, 3)
    changed = stream(spark, first, second).where("v >= 0").withColumn("double", F.col("v") * 2)
    changed = windows(changed.where("double >= v").select("ts", "k", "v")).where("n > 0")
    with caplog.at_level("WARNING", logger="tidegate"):
        run(changed, tmp_path, at_end="drain", parallelism=3)
    assert "source-parquet_asks is not in checkpoint" in caplog.text
    assert "aggregate-window_k" not in caplog.text
    assert_equal(spark.read.parquet(str(tmp_path / "out")), windows(batch(spark, first, second)))


def test_a_query_that_means_something_else_is_refused_in_words_and_state_is_dropped_only_on_demand(spark, tmp_path):
    """T48: the location is left as it is by every refusal, so that the old query can still go on."""
    source = tmp_path / "in"
    add_file(source, 0)
    bids = stream(spark, source)
    run(windows(bids), tmp_path)

    left = contents(tmp_path / "ck")

    def refused(df: DataFrame, **options: object) -> str:
        """By ``check()``, and in the same words by ``start()`` itself."""
        with pytest.raises(InvalidQuery) as checked:
            writing(df, tmp_path, **options).check()
        with pytest.raises(InvalidQuery) as caught:
            writing(df, tmp_path, **options).start()
        assert str(caught.value) == str(checked.value)
        assert contents(tmp_path / "ck") == left
        return str(caught.value)

    writing(windows(bids), tmp_path).check()
    assert contents(tmp_path / "ck") == left

    assert "window of 70 s over ts" in (text := refused(windows(bids, "10 seconds"))), text
    assert "→ window of 10 s over ts" in text
    assert "max(v bigint) → max(k bigint)" in refused(
        bids.withWatermark("ts", "5 seconds")
        .groupBy(F.window("ts", "70 seconds"), "k")
        .agg(F.count("*").alias("n"), F.max("k").alias("top"))
    )
    assert "'aggregate-window_k'" in (text := refused(bids.select("k"))), text
    assert "allowDroppedState" in text
    assert "k bigint → k string" in refused(windows(bids.withColumn("k", F.col("k").cast("string"))))
    assert "the operators are" in refused(windows(bids), **{"uid.join": "x"})
    moved = tmp_path / "elsewhere" / "in"
    shutil.copytree(source, moved)
    assert f"place: {source} → {moved}" in refused(windows(stream(spark, moved)))
    again = windows(bids, "10 seconds")
    run(again, tmp_path, allowDroppedState=True, **{"uid.aggregate": "short-windows"})
    add_file(source, 1)
    run(again, tmp_path, at_end="drain", **{"uid.aggregate": "short-windows"})


def test_a_copy_of_a_location_is_not_started_beside_its_original(spark, tmp_path):
    """T55: both would use the same names for output that is not published yet."""
    rates = spark.readStream.format("rate").option("rowsPerSecond", 10).load()

    def start(location: Path) -> tidegate.StreamingQuery:
        # A checkpoint that comes by itself would change the directory while it is copied.
        writer = tidegate.writeStream(rates).format("noop").option("parallelism", 1).trigger(checkpoint="1 hour")
        return writer.option("checkpointLocation", str(location)).start()

    query = start(tmp_path / "ck")
    try:
        query.checkpoint(timeout=150)
        shutil.copytree(tmp_path / "ck", tmp_path / "copy", ignore=shutil.ignore_patterns(".tmp-*"))
        with pytest.raises(InvalidQuery, match="is a copy of"):
            start(tmp_path / "copy")
    finally:
        query.stop()
    start(tmp_path / "copy").stop()
