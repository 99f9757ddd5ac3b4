"""What a person sees when a query runs but does not do its work; what stays of its checkpoints; several pipelines in one job."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark

SCHEMA = "k bigint, v bigint"
FILES = 6
ROWS = 1_000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    for number in range(FILES):
        at = pl.int_range(number * ROWS, (number + 1) * ROWS, eager=True)
        pl.DataFrame({"k": at % 7, "v": at}).write_parquet(directory / f"{number}.parquet")
    return directory


def stream(spark: SparkSession, source: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).parquet(str(source))


def assert_equal(result: DataFrame, expected: DataFrame) -> None:
    assert result.exceptAll(expected).limit(5).collect() == [], "rows that batch does not have"
    assert expected.exceptAll(result).limit(5).collect() == [], "rows that are missing"


def wait_until(condition: Callable[[], Any], query, timeout_s: float = 150.0) -> Any:
    """The first truthy answer."""
    give_up_s = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert query.isActive, f"it ended: {query.exception()}"
        assert time.monotonic() < give_up_s, f"it did not happen in time; {query.status}"
        time.sleep(0.02)
    return answer


def held_up_by(gate: Path, value: int):
    """A user function that does not get past the row ``value`` before ``gate`` exists."""
    path = str(gate)

    def wait_at_the_gate(batches: Iterator) -> Iterator:
        for batch in batches:
            while value in batch.column("v").to_pylist() and not Path(path).exists():
                time.sleep(0.05)
            yield batch

    return wait_at_the_gate


def test_a_query_that_runs_but_no_longer_checkpoints_turns_unhealthy_and_names_the_operator(spark, source, tmp_path):
    """T60, T68: nothing fails, no process dies; one user function does not return."""
    gate, location = tmp_path / "gate", str(tmp_path / "ck")
    df = stream(spark, source).mapInArrow(held_up_by(gate, ROWS + 1), SCHEMA)
    writer = tidegate.writeStream(df).format("parquet").trigger(checkpoint="100 milliseconds", availableNow=True)
    writer = writer.option("checkpointLocation", location).option("unhealthyAfter", "2 seconds")
    query = (
        writer.option("checkpointTimeout", "1 second")
        .option("checkpointFailuresTolerated", 1_000)
        .start(str(tmp_path / "out"))
    )
    try:

        def stuck() -> dict[str, Any] | None:
            status = query.status
            return status if status["health"] == "unhealthy" and "inside one call" in status["reason"] else None

        status = wait_until(stuck, query)
        assert status["isTriggerActive"], "it runs, as far as Spark's own word goes"
        assert "no checkpoint has completed for" in status["reason"] and "`map(wait_at_the_gate)`" in status["reason"]
        waited_s = status["secondsSinceLastCheckpoint"]
        wait_until(lambda: query.status["secondsSinceLastCheckpoint"] > waited_s + 1, query)
        wait_until(lambda: any(one["state"] == "failed" for one in query.checkpoints), query)
        failed = next(one for one in query.checkpoints if one["state"] == "failed")
        assert failed["reason"] == "not every subtask acknowledged in time" and failed["late"]
        assert query.recoveries == ()
        gate.touch()
        assert query.awaitTermination(180)
    finally:
        gate.touch()
        query.stop()
    assert query.status["health"] == "healthy" and query.status["reason"] == "all input was read"
    assert_equal(spark.read.parquet(str(tmp_path / "out")), spark.read.schema(SCHEMA).parquet(str(source)))

    told = tidegate.checkpoint_history(location)
    assert told == query.checkpoints and failed in told
    last = told[-1]
    assert last["kind"] == "final" and last["state"] == "committed" and last["commitMs"] is not None
    assert {one["subtask"] for one in last["subtasks"]} >= {"0/0", "0/1"} and last["triggeredAt"].endswith("Z")

    again = writer.start(str(tmp_path / "out"))
    assert again.awaitTermination(180)
    numbers = [(one["attempt"], one["id"]) for one in tidegate.checkpoint_history(location)]
    assert numbers == sorted(numbers) and {1, 2} == {attempt for attempt, _ in numbers}
    with pytest.raises(InvalidQuery, match="no checkpoint location"):
        tidegate.checkpoint_history(str(tmp_path / "elsewhere"))
    assert not (tmp_path / "elsewhere").exists()


def slowly(batches: Iterator) -> Iterator:
    for batch in batches:
        time.sleep(0.01)
        yield batch


def test_a_pipeline_that_dies_and_recovers_leaves_the_other_one_of_its_job_alone(spark, source, tmp_path):
    elsewhere = Path(shutil.copytree(source, tmp_path / "elsewhere"))

    def writer(name: str, path: Path, slots: int):
        df = stream(spark, path).mapInArrow(slowly, SCHEMA)
        one = tidegate.writeStream(df).queryName(name).format("parquet").option("path", str(tmp_path / name))
        # A pause before the restart: while the one recovers, there is time to look at it and at the other.
        return one.option("parallelism", slots).option("restartDelayMin", "2 seconds")

    both = tidegate.Job("both", checkpointLocation=str(tmp_path / "checkpoints"), batchRowsMax=100)
    both.trigger(checkpoint="100 milliseconds").add(writer("left", source, 2), writer("right", elsewhere, 1))
    job = both.start()
    try:
        left, right = job.queries
        assert job.query("right") is right and Path(right.location) == tmp_path / "checkpoints" / "right"
        for query in job.queries:
            wait_until(lambda query=query: query.snapshot().history.completed > 1, query)
        before = right.checkpoints[-1]["id"]
        os.kill(left.snapshot().pids[0], signal.SIGKILL)
        wait_until(lambda: left.status["health"] == "recovering", left)
        assert job.status["health"] == "recovering" and job.status["reason"].startswith("left: ")
        wait_until(lambda: len([one for one in right.checkpoints if one["id"] > before]) > 2, right)
        wait_until(lambda: left.snapshot().restarts == 1 and left.status["health"] == "healthy", left)
        assert all(one["state"] != "failed" for one in right.checkpoints)
        for query in job.queries:
            query.processAllAvailable()
        assert [one["kind"] for one in job.checkpoint(90)] == ["manual", "manual"]
        assert job.awaitTermination(0.1) is False
        saved = {name: str(tmp_path / "saved" / name) for name in ("left", "right")}
        assert job.stop(savepoint=str(tmp_path / "saved")) == saved
        assert all((Path(path) / "savepoint").exists() for path in saved.values())
    finally:
        job.stop()
    assert job.awaitTermination(0)
    assert {one["attempt"] for one in right.checkpoints} == {1} and right.recoveries == ()
    assert {one["attempt"] for one in left.checkpoints} == {1, 2}
    expected = spark.read.schema(SCHEMA).parquet(str(source))
    for name in ("left", "right"):
        assert_equal(spark.read.parquet(str(tmp_path / name)), expected)
    assert job.status["message"] == "0 of 2 pipelines are active" and not job.isActive


def test_a_job_starts_all_of_its_pipelines_or_none(spark, source, tmp_path):
    elsewhere = Path(shutil.copytree(source, tmp_path / "elsewhere"))

    def writer(name: str, path: Path = source, **options: object):
        one = tidegate.writeStream(stream(spark, path)).format("noop").queryName(name)
        return one.option("checkpointLocation", str(tmp_path / name)).options(**options)

    def start(*writers, **options: object):
        tidegate.Job(**options).add(*writers).start()

    with pytest.raises(InvalidQuery, match=r"2 \+ 2 slots"):
        start(writer("a", parallelism=2), writer("b", elsewhere, parallelism=2))
    with pytest.raises(InvalidQuery, match="no task slot left for 1"):
        start(writer("a", parallelism=2), writer("b", elsewhere))
    with pytest.raises(InvalidQuery, match="checkpoint location"):
        start(writer("a"), writer("b", elsewhere, checkpointLocation=f"{tmp_path}/./a"))
    with pytest.raises(InvalidQuery, match="name 'a'"):
        start(writer("a"), writer("a", elsewhere))
    with pytest.raises(InvalidQuery, match="sideways"):
        start(writer("a"), writer("b", elsewhere).outputMode("sideways"))
    with pytest.raises(InvalidQuery, match="parallelism 1 and 2"):
        start(writer("a", parallelism=1), writer("b", parallelism=2))
    with pytest.raises(InvalidQuery, match=r"'a' and 'b' share a source.*checkpoint_location"):
        start(writer("a"), writer("b"))
    with pytest.raises(InvalidQuery, match="one or more writers"):
        tidegate.Job("empty").start()
    with pytest.raises(InvalidQuery, match="made of writers"):
        tidegate.Job("wrong").add(stream(spark, source))
    assert not any((tmp_path / name / "attempts").exists() for name in ("a", "b")), "nothing was started"
