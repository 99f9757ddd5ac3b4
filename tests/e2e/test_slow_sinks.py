"""Behind something far too slow: barriers that overtake get through, what they overtook survives a kill, and the culprit has a name."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.e2e.scenario import SCHEMA, add_trips, assert_same_rows, while_active

import tidegate
from tidegate.checkpoint.statistics import CheckpointReport, Outcome

pytestmark = pytest.mark.spark

FILES = 10
RESULT = "start timestamp, station bigint, trips bigint, income double"
UNALIGNED_MAX_MS = 15_000


def dawdling(slow: Path, row_s: float) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """Takes so long for every row while the file ``slow`` exists."""
    path = str(slow)

    def dawdle(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            if Path(path).exists():
                time.sleep(row_s * len(frame))
            yield frame

    return dawdle


def per_station(trips: DataFrame, window: str) -> DataFrame:
    windows = (
        trips.withWatermark("ts", "5 seconds")
        .groupBy(F.window("ts", window), "station")
        .agg(F.count("*").alias("trips"), F.sum("fare").alias("income"))
    )
    return windows.select(F.col("window.start").alias("start"), "station", "trips", "income")


def completed(query: Any, attempt: int = 1) -> list[CheckpointReport]:
    reports = query.snapshot().history.reports
    done = (Outcome.COMPLETED, Outcome.COMMITTED)
    return [one for one in reports if one.outcome in done and one.attempt == attempt]


def test_checkpoints_overtake_what_a_slow_function_has_not_taken_and_a_restore_brings_it_back(spark, tmp_path):
    """T19, T26: half a minute of work stands before every barrier."""
    slow = tmp_path / "slow"
    slow.touch()
    for number in range(FILES):
        add_trips(tmp_path / "trips", number)
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "trips"))
    writer = (
        tidegate.writeStream(per_station(stream, "10 seconds").mapInPandas(dawdling(slow, 0.009), RESULT))
        .format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .option("parallelism", 2)
        .options(atEnd="drain", alignedTimeout="200 milliseconds", channelTimeMax="off", batchRowsMax=500)
    )
    query = writer.trigger(checkpoint="300 milliseconds").start(str(tmp_path / "out"))
    try:
        while_active(
            query,
            lambda: sum(one.in_flight_bytes > 0 for one in completed(query)) >= 3,
            "three checkpoints with rows that the barrier overtook",
        )
        os.kill(max(query.snapshot().pids.values()), signal.SIGKILL)
        while_active(query, lambda: query.recoveries and completed(query, attempt=2), "a checkpoint after the restart")
        restored = completed(query)[-1]
        assert restored.unaligned and restored.in_flight_bytes > 0, "the one it was restored from"
        took_ms = [one.duration_ms for one in completed(query)]
        assert max(took_ms[1:]) < UNALIGNED_MAX_MS, took_ms
        slow.unlink()
        query.processAllAvailable()
    finally:
        query.stop()
    assert len(query.recoveries) == 1
    assert query.snapshot().history.failed <= 1, "the one under way when the slot was killed"
    rest = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    assert rest.awaitTermination(180), "closes the windows that are still open"
    expected = per_station(spark.read.schema(SCHEMA).parquet(str(tmp_path / "trips")), "10 seconds")
    assert_same_rows(spark.read.parquet(str(tmp_path / "out")), expected)


def test_a_window_that_closes_into_a_slow_function_does_not_hold_up_the_checkpoints(spark, tmp_path):
    """One watermark releases more rows than the function takes in ten seconds."""
    slow = tmp_path / "slow"
    slow.touch()
    for number in range(2):
        add_trips(tmp_path / "trips", number)
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "trips"))
    query = (
        tidegate.writeStream(per_station(stream, "400 seconds").mapInPandas(dawdling(slow, 0.5), RESULT))
        .format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .option("parallelism", 1)
        .option("alignedTimeout", "200 milliseconds")
        .trigger(checkpoint="300 milliseconds")
        .start(str(tmp_path / "out"))
    )
    try:
        while_active(
            query,
            lambda: sum(one.in_flight_bytes > 0 for one in completed(query)) >= 2,
            "two checkpoints while the function is at the rows of one window",
        )
        slow.unlink()
        query.processAllAvailable()
    finally:
        query.stop()
    expected = per_station(spark.read.schema(SCHEMA).parquet(str(tmp_path / "trips")), "400 seconds")
    closed = expected.where(F.unix_timestamp("start") < 800)
    assert assert_same_rows(spark.read.parquet(str(tmp_path / "out")), closed) == 2 * 23


def test_without_overtaking_the_reason_names_the_subtask_and_the_operator_that_everybody_waits_for(spark, tmp_path):
    """T60, T68: nothing has failed, and nobody has to guess."""
    gate = tmp_path / "gate"
    path = str(gate)
    add_trips(tmp_path / "trips", 0)

    def block(row: Any) -> None:
        while row.station == 7 and not Path(path).exists():
            time.sleep(0.02)

    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "trips"))
    query = (
        tidegate.writeStream(stream.groupBy("station").agg(F.count("*").alias("trips")))
        .foreach(block)
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .option("parallelism", 2)
        .option("unhealthyAfter", "2 seconds")
        .trigger(checkpoint="200 milliseconds")
        .start()
    )
    try:
        words = " has been inside one call of `sink-foreach`"
        status = while_active(query, lambda: words in (now := query.status)["reason"] and now, "it says who is slow")
        assert status["health"] == "unhealthy"
        culprit = status["reason"].partition(words)[0][-len("subtask 2/0") :]
        assert culprit in ("subtask 2/0", "subtask 2/1"), status["reason"]
        done = len(completed(query))
        gate.touch()
        while_active(query, lambda: len(completed(query)) >= done + 2, "checkpoints complete again")
        while_active(query, lambda: query.status["health"] == "healthy", "it is well again")
        assert query.recoveries == ()
    finally:
        gate.touch()
        query.stop()
