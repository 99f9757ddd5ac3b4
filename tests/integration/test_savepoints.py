"""Savepoints of whole queries on a real Spark session: taken while running, suspended, drained, moved, started from."""

from __future__ import annotations

import logging
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.e2e.scenario import SCHEMA, add_trips, assert_same_rows, while_active

import tidegate
from tidegate.checkpoint.savepoint import read_savepoint
from tidegate.model.errors import InvalidQuery, TidegateError, Unavailable
from tidegate.storage.local import LocalBlobStore

pytestmark = pytest.mark.spark

FIRST, ALL = range(3), range(5)


@pytest.fixture
def started() -> Iterator[list]:
    """Queries put here are stopped after the test, whatever happened in it."""
    queries: list = []
    yield queries
    for query in queries:
        query.stop()


def fares(trips: DataFrame, delay: str = "2 seconds") -> DataFrame:
    windows = trips.withWatermark("ts", delay).groupBy(F.window("ts", "10 seconds"), "station")
    return windows.agg(F.count("*").alias("trips"), F.sum("fare").alias("fare")).select(
        F.col("window.start").alias("start"), "station", "trips", "fare"
    )


def start(
    spark: SparkSession,
    folder: Path,
    location: str,
    started: list,
    *,
    end: bool = False,
    delay: str = "2 seconds",
    **options: str,
):
    trips = spark.readStream.schema(SCHEMA).parquet(str(folder / "in"))
    writer = (
        tidegate.writeStream(fares(trips, delay)).format("parquet").option("checkpointLocation", str(folder / location))
    )
    # No slot counts as idle: how many windows are closed depends on the rows alone, not on when a test looks.
    writer = writer.options(atEnd="drain", idleTimeout="1 hour", **options).trigger(checkpoint="300 ms")
    if end:
        writer = writer.trigger(availableNow=True)
    query = writer.start(str(folder / "out"))
    started.append(query)
    return query


def batch(spark: SparkSession, folder: Path) -> DataFrame:
    return fares(spark.read.schema(SCHEMA).parquet(str(folder / "in")))


def output(spark: SparkSession, folder: Path) -> DataFrame:
    # With its schema: which slot gets which file decides whether a window has been closed when a test first looks.
    return spark.read.schema(fares(spark.createDataFrame([], SCHEMA)).schema).parquet(str(folder / "out"))


def test_a_suspended_query_goes_on_elsewhere_as_if_it_had_never_stopped(
    spark: SparkSession, tmp_path: Path, started: list
) -> None:
    """T49, T50: a savepoint, a killed slot, a second savepoint that stops the query; moved, and started from with other slots."""
    for number in FIRST:
        add_trips(tmp_path / "in", number)
    query = start(spark, tmp_path, "old", started, parallelism="2")
    query.processAllAvailable()
    first = query.savepoint(str(tmp_path / "first"))
    assert first == str(tmp_path / "first") and query.isActive
    os.kill(next(iter(query.snapshot().pids.values())), signal.SIGKILL)
    while_active(query, lambda: query.recoveries, "a recovery from the kill")
    query.processAllAvailable()

    before = sorted(path.name for path in (tmp_path / "first").iterdir())
    with pytest.raises(InvalidQuery, match="another savepoint"):
        query.stop(savepoint=first)
    assert query.isActive, "a savepoint that is refused stops nothing"

    open_windows = batch(spark, tmp_path).count() - output(spark, tmp_path).count()
    assert open_windows > 0
    assert query.stop(savepoint=str(tmp_path / "second")) == str(tmp_path / "second")
    assert not query.isActive and query.exception() is None
    assert batch(spark, tmp_path).count() - output(spark, tmp_path).count() == open_windows, "suspend closes no window"
    with pytest.raises(Unavailable, match="ended"):
        query.savepoint(str(tmp_path / "third"))

    shutil.rmtree(tmp_path / "old")
    shutil.move(tmp_path / "second", tmp_path / "moved")
    for number in ALL[len(FIRST) :]:
        add_trips(tmp_path / "in", number)
    moved = {"startFrom": str(tmp_path / "moved"), "startFromMode": "claim", "parallelism": "1"}
    again = start(spark, tmp_path, "new", started, end=True, **moved)
    again.awaitTermination(180)
    assert again.id != query.id
    assert_same_rows(output(spark, tmp_path), batch(spark, tmp_path))
    assert LocalBlobStore(tmp_path / "moved").list("") == (), "claimed"
    assert sorted(path.name for path in (tmp_path / "first").iterdir()) == before, "the other one was left alone"


def test_a_drained_query_has_closed_its_windows_and_says_so_when_resumed(
    spark: SparkSession, tmp_path: Path, started: list, caplog: pytest.LogCaptureFixture
) -> None:
    """T49"""
    for number in FIRST:
        add_trips(tmp_path / "in", number)
    query = start(spark, tmp_path, "old", started)
    query.processAllAvailable()
    with pytest.raises(InvalidQuery, match="savepoint"):
        query.stop(drain=True)
    (tmp_path / "occupied").mkdir()
    (tmp_path / "occupied" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidQuery, match="not empty"):
        query.stop(savepoint=str(tmp_path / "occupied"), drain=True)
    assert query.isActive
    saved = query.stop(savepoint=str(tmp_path / "drained"), drain=True)
    assert saved is not None and query.exception() is None
    assert_same_rows(output(spark, tmp_path), batch(spark, tmp_path))
    savepoint = read_savepoint(LocalBlobStore(saved))
    assert savepoint is not None and savepoint.drained and "Aggregate" in savepoint.query
    with caplog.at_level(logging.WARNING, "tidegate"):
        start(spark, tmp_path, "new", started, end=True, startFrom=saved).awaitTermination(180)
    assert "windows are closed" in caplog.text
    assert_same_rows(output(spark, tmp_path), batch(spark, tmp_path))


def test_a_damaged_chunk_ends_the_query_by_name_and_its_copy_lets_it_go_on(
    spark: SparkSession, tmp_path: Path, started: list
) -> None:
    """T13: found by the slot that needs it; no restart can help, so none is tried."""
    for number in FIRST:
        add_trips(tmp_path / "in", number, rows=40_000)
    query = start(spark, tmp_path, "here", started, delay="1 day")
    query.processAllAvailable()
    query.stop()
    chunks = [path for path in (tmp_path / "here" / "state").rglob("*") if path.is_file()]
    assert chunks, "nothing would be tested"
    good = {path: path.read_bytes() for path in chunks}
    for path, data in good.items():
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    damaged = start(spark, tmp_path, "here", started, end=True, delay="1 day")
    with pytest.raises(TidegateError, match="state/") as ended:
        damaged.awaitTermination(180)
    assert ended.value.code == "CORRUPT_SNAPSHOT" and "onCorruptCheckpoint" in ended.value.hint
    assert [one.attempt for one in damaged.recoveries] == [2], "the failure of the one attempt there was"
    for path, data in good.items():
        path.write_bytes(data)
    start(spark, tmp_path, "here", started, end=True, delay="1 day").awaitTermination(180)
    assert_same_rows(output(spark, tmp_path), batch(spark, tmp_path))


def test_check_asks_the_savepoint_and_makes_nothing(spark: SparkSession, tmp_path: Path, started: list) -> None:
    """Of a query, and of a job: a query that does not fit what it would start from is refused before there is a location."""
    add_trips(tmp_path / "in", 0)
    first = start(spark, tmp_path, "old", started)
    first.processAllAvailable()
    saved = first.stop(savepoint=str(tmp_path / "saved" / "fares"))
    assert saved is not None

    def writer(length: str, **options: str) -> tidegate.DataStreamWriter:
        trips = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in")).withWatermark("ts", "2 seconds")
        counted = trips.groupBy(F.window("ts", length), "station").agg(
            F.count("*").alias("trips"), F.sum("fare").alias("fare")
        )
        rows = counted.select(F.col("window.start").alias("start"), "station", "trips", "fare")
        made = tidegate.writeStream(rows).format("parquet").options(**options).option("path", str(tmp_path / "out"))
        return made.queryName("fares")

    here = {"checkpointLocation": str(tmp_path / "new"), "startFrom": saved}
    writer("10 seconds", **here).check()
    with pytest.raises(InvalidQuery, match=r"window of 10 s over ts .*→ window of 20 s over ts"):
        writer("20 seconds", **here).check()
    job = tidegate.Job("trips", checkpointLocation=str(tmp_path / "job"), startFrom=str(tmp_path / "saved"))
    job.add(writer("10 seconds"))
    with pytest.raises(InvalidQuery, match="sink-parquet became sink-parquet_fares"):
        job.check()
    job.option("allowDroppedState", True).check()
    assert not (tmp_path / "new").exists() and not (tmp_path / "job").exists()
