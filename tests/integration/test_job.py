"""Several queries as one job: read once, published together, through a kill, a savepoint and another parallelism."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.connectors.nexmark import register

pytestmark = pytest.mark.spark
EVENTS, SLOWLY = 60_000, 200
"""Five minutes of events at that rate, so that they do not end before the job is killed and stopped; then all the rest at once."""


def table(spark: SparkSession, name: str, *, streaming: bool, rate: int) -> DataFrame:
    register(spark)
    reader = spark.readStream if streaming else spark.read
    options = {"table": name, "events": str(EVENTS), "seed": "5", "rate": str(rate)}
    return reader.format("tidegate-nexmark").options(**options).load()


def queries(spark: SparkSession, *, streaming: bool, rate: int = 0) -> dict[str, DataFrame]:
    bids = table(spark, "bid", streaming=streaming, rate=rate)
    timed = bids.withWatermark("date_time", "1 second") if streaming else bids
    per_window = timed.groupBy(F.window("date_time", "1 second"), "auction").agg(F.count("*").alias("bids"))
    return {
        "windows": per_window.select("window.start", "auction", "bids"),
        "dear": timed.where("price > 100000").select("auction", "price"),
        "sellers": table(spark, "auction", streaming=streaming, rate=rate).select("id", "seller"),
    }


def job_of(spark: SparkSession, root: Path, checkpoints: str, *, rate: int = 0, slots: int = 1) -> tidegate.Job:
    job = tidegate.Job("shop", checkpointLocation=str(root / checkpoints))
    for name, frame in queries(spark, streaming=True, rate=rate).items():
        parallelism = 1 if name == "sellers" else slots
        job.add(
            tidegate.writeStream(frame)
            .queryName(name)
            .format("parquet")
            .option("path", str(root / name))
            .option("parallelism", parallelism)
        )
    return job.trigger(checkpoint="200 milliseconds", availableNow=True).option("atEnd", "drain")


def wait_until(true: Callable[[], bool], job: tidegate.StreamingJob) -> None:
    until = time.monotonic() + 120
    while not true():
        assert time.monotonic() < until and job.isActive, job.status
        job.queries[0].wait_ended(0.05)


def test_queries_of_a_job_are_exactly_once_through_a_kill_a_savepoint_and_a_rescale(
    spark: SparkSession, tmp_path: Path
) -> None:
    """T45: two queries share the bids, a third one reads auctions and has a coordinator of its own."""
    job = job_of(spark, tmp_path, "first", rate=SLOWLY).start()
    bids, auctions = job.queries
    try:
        assert job.names == ("windows", "sellers") and job.query("dear") is bids and job.query("sellers") is auctions
        assert bids.explain_text().count("Scan ") == 1, "the bids are read once"
        wait_until(lambda: bids.snapshot().history.completed > 1 and bool(bids.snapshot().pids), job)
        os.kill(bids.snapshot().pids[0], signal.SIGKILL)
        wait_until(lambda: bids.snapshot().restarts == 1 and bids.status["health"] == "healthy", job)
        wait_until(lambda: bids.lastProgress is not None, job)
        assert set(bids.lastProgress["queries"]) == {"windows", "dear"}  # type: ignore[index]
        saved = job.stop(savepoint=str(tmp_path / "saved"))
        assert saved is not None and set(saved) == {"windows", "sellers"}
    finally:
        job.stop()
    again = job_of(spark, tmp_path, "second", slots=2).option("startFrom", str(tmp_path / "saved"))
    second = again.start()
    try:
        assert second.awaitTermination(180)
    finally:
        second.stop()
    for name, expected in queries(spark, streaming=False).items():
        actual = spark.read.schema(expected.schema).parquet(str(tmp_path / name))
        assert sorted(map(tuple, actual.collect())) == sorted(map(tuple, expected.collect())), name
