"""Whole queries on a real Spark session: the results are Spark's own, whatever is killed on the way."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.e2e.scenario import slow_while

import tidegate
from tidegate.model.errors import DataError, InvalidQuery, UserCodeFailed

pytestmark = pytest.mark.spark

SCHEMA = "ts timestamp, k bigint, v bigint"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Eight files of 5,000 rows, one event per 100 ms, 37 keys."""
    directory = tmp_path / "in"
    directory.mkdir()
    for number in range(8):
        add_file(directory, number)
    return directory


def add_file(directory: Path, number: int, rows: int = 5_000) -> None:
    at = pl.int_range(number * rows, (number + 1) * rows, eager=True)
    frame = pl.DataFrame({"ts": at * 100_000, "k": at * 7 % 37, "v": at})
    frame = frame.with_columns(pl.col("ts").cast(pl.Datetime("us")).dt.replace_time_zone("UTC"))
    # Renamed into place: a stream must never see half a file.
    frame.write_parquet(directory / f".{number:03}.tmp")
    (directory / f".{number:03}.tmp").rename(directory / f"{number:03}.parquet")


def stream(spark: SparkSession, source: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).parquet(str(source))


def batch(spark: SparkSession, source: Path) -> DataFrame:
    return spark.read.schema(SCHEMA).parquet(str(source))


def assert_equal(result: DataFrame, expected: DataFrame) -> None:
    assert result.columns == expected.columns
    assert result.exceptAll(expected).limit(5).collect() == [], "rows that batch does not have"
    assert expected.exceptAll(result).limit(5).collect() == [], "rows that are missing"


def windows(df: DataFrame) -> DataFrame:
    keys = (F.window("ts", "10 seconds"), "k")
    return df.withWatermark("ts", "5 seconds").groupBy(*keys).agg(F.count("*").alias("n"), F.max("v").alias("top"))


def wait_until(condition, query, timeout_s: float = 150.0):
    give_up = time.monotonic() + timeout_s
    while not (result := condition()):
        assert query.isActive, f"the query ended: {query.exception()}"
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.02)
    return result


@pytest.fixture
def started() -> Iterator[list]:
    """Queries put here are stopped after the test, whatever happened in it."""
    queries: list = []
    yield queries
    for query in queries:
        query.stop()


def test_rate_to_memory_is_a_view_of_committed_rows(spark, started):
    name = f"rate_{uuid.uuid4().hex[:8]}"
    df = spark.readStream.format("rate").option("rowsPerSecond", 500).load()
    query = tidegate.writeStream(df).format("memory").queryName(name).trigger(checkpoint="200 milliseconds").start()
    started.append(query)
    assert spark.table(name).columns == ["timestamp", "value"]
    wait_until(lambda: query.snapshot().phase == "running", query)
    taken = query.checkpoint()
    assert taken["state"] == "committed" and taken["kind"] == "manual"
    wait_until(lambda: spark.table(name).count() > 100, query)
    query.stop()
    least, most, rows = spark.table(name).agg(F.min("value"), F.max("value"), F.count_distinct("value")).first()
    assert least == 0 and rows == spark.table(name).count() <= most + 1
    assert not query.isActive and query.exception() is None
    query.awaitTermination()


def test_a_filter_over_files_equals_batch(spark, source, tmp_path):
    def kept(df: DataFrame) -> DataFrame:
        return df.where("v % 3 = 0").select(
            "k", (F.col("v") * 2).alias("double"), F.date_trunc("minute", "ts").alias("minute")
        )

    writer = tidegate.writeStream(kept(stream(spark, source))).format("parquet").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "ck")).start(str(tmp_path / "out"))
    assert query.awaitTermination(180)
    assert_equal(spark.read.parquet(str(tmp_path / "out")), kept(batch(spark, source)))
    progress = query.lastProgress
    assert progress["sources"][0]["description"].startswith("parquet") and progress["checkpoint"]["kind"] == "final"
    assert "exactly_once" in progress["sink"]["description"]
    assert progress.id == uuid.UUID(query.id) and progress.runId == uuid.UUID(query.runId)


def test_windows_with_a_drain_equal_batch(spark, source, tmp_path):
    writer = tidegate.writeStream(windows(stream(spark, source))).format("parquet").option("atEnd", "drain")
    writer = writer.trigger(checkpoint="100 milliseconds", availableNow=True).option("batchRowsMax", 500)
    query = writer.option("checkpointLocation", str(tmp_path / "ck")).start(str(tmp_path / "out"))
    assert query.awaitTermination(180)
    assert_equal(spark.read.parquet(str(tmp_path / "out")), windows(batch(spark, source)))
    assert "keyed by [window, k]" in query.explain_text() and "watermark" in query.explain_text(extended=True)


def test_a_start_on_the_same_location_goes_on_where_the_last_one_stopped(spark, source, tmp_path):
    """T19, T47: every row once over three starts, two parallelisms; the identity stays, the key groups are fixed."""

    def run(parallelism: int, **options):
        writer = tidegate.writeStream(stream(spark, source)).format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "ck")).option("parallelism", parallelism)
        return writer.options(**options).start(str(tmp_path / "out"))

    first = run(2)
    assert first.awaitTermination(180)
    add_file(source, 8)
    second = run(1)
    assert second.awaitTermination(180)
    assert second.id == first.id and second.runId != first.runId
    third = run(2)
    assert third.awaitTermination(180)
    assert_equal(spark.read.parquet(str(tmp_path / "out")), batch(spark, source))
    with pytest.raises(InvalidQuery, match="maxParallelism"):
        run(2, maxParallelism=64)


def test_killed_slots_change_nothing(spark, source, tmp_path):
    """T1, T8: kill -9 of a slot in mid-run, twice; the output still equals batch."""
    slow = tmp_path / "slow"
    slow.touch()
    slowed = stream(spark, source).mapInArrow(slow_while(slow, 0.2), SCHEMA)
    writer = tidegate.writeStream(windows(slowed)).format("parquet").option("atEnd", "drain")
    writer = writer.trigger(checkpoint="200 milliseconds", availableNow=True).option("batchRowsMax", 200)
    query = writer.option("checkpointLocation", str(tmp_path / "ck")).start(str(tmp_path / "out"))
    for kill in (0, 1):
        before = query.snapshot().history.completed
        wait_until(
            lambda n=before: query.snapshot().history.completed > n and query.snapshot().phase == "running", query
        )
        os.kill(query.snapshot().pids[kill], signal.SIGKILL)
        wait_until(lambda n=kill: query.snapshot().restarts > n, query)
        wait_until(lambda: query.snapshot().phase == "running", query)
    slow.unlink()
    assert query.awaitTermination(180)
    assert_equal(spark.read.parquet(str(tmp_path / "out")), windows(batch(spark, source)))
    recovery = query.recoveries[0]
    assert [name for name, _ in recovery.phases] == [
        "detected",
        "ended",
        "claimed",
        "deployed",
        "restored",
        "first checkpoint",
    ]


def test_a_user_error_shows_the_users_traceback_first_and_ends_the_query_the_second_time(spark, source, tmp_path):
    @F.udf("bigint")
    def fragile(value: int) -> int:
        if value == 12_345:
            raise ValueError(f"cannot stand {value}")
        return value

    df = stream(spark, source).select(fragile("v").alias("v"))
    query = tidegate.writeStream(df).format("noop").trigger(checkpoint="100 milliseconds").start()
    with pytest.raises(UserCodeFailed) as failed:
        query.awaitTermination(180)
    message = failed.value.message
    assert message.startswith("Traceback (most recent call last)")
    assert "in fragile" in message and "ValueError: cannot stand 12345" in message
    assert "v=12345" in message and "002.parquet" in message
    assert "java" not in message and "\tat " not in message
    assert query.snapshot().restarts == 1, "tried again once, then given up"
    assert isinstance(query.exception(), UserCodeFailed)


def test_a_row_that_breaks_a_rule_of_sql_is_a_data_error(spark, source):
    df = stream(spark, source).select((F.lit(1) / (F.col("v") - 20_000)).alias("x"))
    query = tidegate.writeStream(df).format("noop").start()
    with pytest.raises(DataError):
        query.awaitTermination(180)


def test_process_all_available_waits_until_the_rows_are_visible(spark, source, started):
    name = f"all_{uuid.uuid4().hex[:8]}"
    query = tidegate.writeStream(stream(spark, source)).format("memory").queryName(name).start()
    started.append(query)
    query.processAllAvailable()
    assert spark.table(name).count() == 40_000
    add_file(source, 8)
    query.processAllAvailable()
    assert spark.table(name).count() == 45_000
    assert query.isActive and query.status["message"] == "Running continuously"


def test_a_long_call_of_user_code_fails_nothing(spark, source):
    """Heartbeats have a thread of their own: a call far longer than the silence timeout is not taken for death."""

    naps_s = [8.0]

    def sleeper(batches):
        time.sleep(naps_s.pop() if naps_s else 0.0)
        yield from batches

    df = stream(spark, source).mapInArrow(sleeper, SCHEMA)
    writer = tidegate.writeStream(df).format("noop").option("silenceTimeout", "5 seconds").trigger(availableNow=True)
    query = writer.option("heartbeatInterval", "100 milliseconds").start()
    assert query.awaitTermination(180)
    assert query.recoveries == ()


def test_another_version_on_the_executors_is_refused_by_name(spark, source, monkeypatch):
    real = tidegate.spark.gang.running_versions  # type: ignore[attr-defined]
    monkeypatch.setattr("tidegate.spark.gang.running_versions", lambda: {**real(), "polars": "0.0.1"})
    query = tidegate.writeStream(stream(spark, source)).format("noop").start()
    with pytest.raises(InvalidQuery, match=r"polars 0\.0\.1.*runs polars"):
        query.awaitTermination(180)
    assert query.snapshot().restarts == 0, "refused at once, not tried again"


def test_two_queries_may_not_share_a_name_or_a_location(spark, source, tmp_path, started):
    writer = (
        tidegate.writeStream(stream(spark, source)).format("noop").option("checkpointLocation", str(tmp_path / "ck"))
    )
    started.append(writer.queryName("only").option("parallelism", 1).start())
    with pytest.raises(InvalidQuery, match="only"):
        tidegate.writeStream(stream(spark, source)).format("noop").queryName("only").option("parallelism", 1).start()
    with pytest.raises(InvalidQuery, match="location"):
        writer.queryName("other").start()


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda w: w.option("parallelism", 64), "64 slots"),
        (lambda w: w.outputMode("complete"), "complete"),
        (lambda w: w.outputMode("sideways"), "sideways"),
        (lambda w: w.format("parquet").option("path", "/nowhere"), "checkpoint location"),
        (lambda w: w.option("paralelism", 2), "paralelism"),
        (lambda w: w.trigger(processingTime="1 second"), "micro-batches"),
        (lambda w: w.trigger(once=True), "once"),
        (lambda w: w.foreachBatch(42), "foreachBatch"),
        (lambda w: w.foreachBatch(lambda df, number: None).option("parallelism", 3), "none is left"),
        (lambda w: w.format("foreachBatch"), "no function"),
        (lambda w: w.format("memory"), "name"),
        (lambda w: w.format("kudu"), "kudu"),
        (lambda w: w.option("maxParallelism", 40_000), "maxParallelism"),
    ],
)
def test_what_is_not_supported_is_refused_before_anything_starts(spark, source, ask, says):
    with pytest.raises(InvalidQuery, match=says) as refused:
        ask(tidegate.writeStream(stream(spark, source)).format("noop")).start()
    assert refused.value.hint or "must be" in refused.value.message


def test_a_dataframe_that_is_no_stream_is_refused(spark):
    with pytest.raises(InvalidQuery, match="not a stream"):
        tidegate.writeStream(spark.range(3)).format("noop").start()
