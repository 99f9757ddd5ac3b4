"""Processes that die, freeze and come back: nothing outlives its driver, and the output equals Spark batch all the same."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.e2e.scenario import (
    SCHEMA,
    Driver,
    add_trips,
    alive,
    assert_gone,
    assert_same_rows,
    slow_while,
    wait_until,
    while_active,
)

import tidegate

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
FILES = 6


def windows(df: DataFrame) -> DataFrame:
    keyed = df.withWatermark("ts", "5 seconds").groupBy(F.window("ts", "10 seconds"), "station")
    return keyed.agg(F.count("*").alias("trips"), F.sum("fare").alias("income"))


def start(stream: DataFrame, folder: Path, **options: object) -> Any:
    """A minute of work in small steps, or hardly any as soon as the file ``slow`` is gone."""
    return (
        tidegate.writeStream(windows(stream.mapInArrow(slow_while(folder / "slow", 0.3), SCHEMA)))
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("atEnd", "drain")
        .option("batchRowsMax", 200)
        .options(**options)
        .trigger(availableNow=True, checkpoint="200 milliseconds")
        .start(str(folder / "out"))
    )


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    (tmp_path / "slow").touch()
    for number in range(FILES):
        add_trips(tmp_path / "trips", number)
    return tmp_path / "trips"


DRIVER = """
import json, sys
from pathlib import Path
import tidegate
from tests.e2e.scenario import SCHEMA, while_active
from tests.e2e.test_processes import start

given = json.loads(sys.argv[1])
spark = tidegate.local_session("processes", cores=2)
stream = spark.readStream.schema(SCHEMA).parquet(given["folder"] + "/trips")
query = start(stream, Path(given["folder"]))
while_active(query, lambda: query.snapshot().phase == "running" and query.snapshot().history.completed >= given["checkpoints"], "it runs")
print("running", *query.snapshot().pids.values(), flush=True)
if given.get("stop"):
    query.stop()
    print("stopped", query.exception(), flush=True)
else:
    query.awaitTermination()
"""


def finish_and_compare(spark, trips: Path, folder: Path) -> None:
    """A person starts the query again on the same location."""
    (folder / "slow").unlink()
    query = start(spark.readStream.schema(SCHEMA).parquet(str(trips)), folder, parallelism=2)
    assert query.awaitTermination(180)
    assert_same_rows(spark.read.parquet(str(folder / "out")), windows(spark.read.schema(SCHEMA).parquet(str(trips))))


@pytest.mark.parametrize(
    ("how", "checkpoints"),
    [
        ("kill", 3),
        ("interrupt", 1),
        pytest.param("kill before the first checkpoint", 0, marks=pytest.mark.soak),
        pytest.param("stop", 1, marks=pytest.mark.soak),
    ],
)
def test_however_a_driver_ends_its_processes_end_and_the_next_start_finishes_the_work(
    spark, trips, tmp_path, how, checkpoints
):
    """T58: killed before anything was acknowledged, the next start begins from nothing and not from half a cut."""
    with Driver(DRIVER, tmp_path, checkpoints=checkpoints, stop=how == "stop") as driver:
        driver.says("running")
        family = driver.family()
        if how.startswith("kill"):
            driver.process.send_signal(signal.SIGKILL)
        elif how == "interrupt":
            driver.process.send_signal(signal.SIGINT)
        else:
            assert driver.says("stopped") == ["None"]
        assert_gone(family, within_s=60)
        assert len(family) >= 3, "the driver, its JVM, Python workers"
    finish_and_compare(spark, trips, tmp_path)


# --- slots ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def query(spark, trips, tmp_path) -> Iterator[Any]:
    running = start(spark.readStream.schema(SCHEMA).parquet(str(trips)), tmp_path)
    yield running
    running.stop()


def slots(query: Any) -> dict[int, int]:
    return while_active(query, lambda: query.snapshot().phase == "running" and query.snapshot().pids, "running slots")


MOMENTS = {
    "as soon as it has registered": lambda query: query.snapshot().pids,
    "before its first checkpoint": lambda query: query.snapshot().phase == "running",
    "when a checkpoint has just completed": lambda query: query.snapshot().history.completed >= 2,
    "late": lambda query: query.snapshot().history.completed >= 6,
}


QUICK = "when a checkpoint has just completed"


@pytest.mark.parametrize(
    "moment", [pytest.param(moment, marks=() if moment == QUICK else pytest.mark.soak) for moment in MOMENTS]
)
def test_a_killed_slot_changes_nothing(spark, trips, tmp_path, query, moment):
    """T58: also before anything was acknowledged."""
    while_active(query, lambda: MOMENTS[moment](query), moment)
    victim = max(query.snapshot().pids.values())
    os.kill(victim, signal.SIGKILL)
    (tmp_path / "slow").unlink()
    assert query.awaitTermination(180)
    assert [one.attempt for one in query.recoveries] == [1]
    assert_same_rows(spark.read.parquet(str(tmp_path / "out")), windows(spark.read.schema(SCHEMA).parquet(str(trips))))


@pytest.mark.soak
def test_a_slot_killed_while_the_query_recovers_changes_nothing(spark, trips, tmp_path, query):
    while_active(query, lambda: query.snapshot().history.completed >= 1, "a checkpoint")
    first = set(slots(query).values())
    os.kill(min(first), signal.SIGKILL)
    second = while_active(
        query, lambda: set(query.snapshot().pids.values()) - first or None, "a slot of the next attempt"
    )
    os.kill(min(second), signal.SIGKILL)
    (tmp_path / "slow").unlink()
    assert query.awaitTermination(180)
    assert len(query.recoveries) == 2
    assert_same_rows(spark.read.parquet(str(tmp_path / "out")), windows(spark.read.schema(SCHEMA).parquet(str(trips))))


def test_a_frozen_slot_that_wakes_as_a_zombie_changes_nothing(spark, trips, tmp_path, query):
    """T9, T64: frozen until it was given up, woken beside its successor: it writes nothing that counts and goes away."""
    while_active(query, lambda: query.snapshot().history.completed >= 2, "two checkpoints")
    zombie = psutil.Process(min(slots(query).values()))
    zombie.suspend()
    try:
        while_active(query, lambda: query.recoveries, "the frozen slot is given up")
        assert "silent" in query.recoveries[0].reason
        while_active(query, lambda: query.snapshot().attempt > 1 and slots(query), "its successor runs")
    finally:
        if alive(zombie):
            zombie.resume()
    (tmp_path / "slow").unlink()
    assert query.awaitTermination(180)
    assert_same_rows(spark.read.parquet(str(tmp_path / "out")), windows(spark.read.schema(SCHEMA).parquet(str(trips))))
    wait_until(lambda: not alive(zombie) or not sockets_of(zombie), "the zombie has left its attempt")


def sockets_of(process: psutil.Process) -> list[str]:
    """Threads of the transport in a Python worker: it may live on for other jobs, but no slot may run in it."""
    names = []
    for path in Path(f"/proc/{process.pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # Ended since.
            names.append(path.read_text())
    return [name for name in names if "ZMQ" in name]
