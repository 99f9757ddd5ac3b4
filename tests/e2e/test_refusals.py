"""Whatever cannot run is refused by ``start()`` in a few clear words, before Spark runs a job and before a file is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.e2e.scenario import SCHEMA, Driver, add_trips, files_below

import tidegate
from tidegate.api.active import ACTIVE
from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark


def joined_streams(trips: DataFrame) -> DataFrame:
    other = trips.select(F.col("station").alias("place"), F.col("ts").alias("at"))
    return trips.join(other, F.expr("at BETWEEN ts AND ts + INTERVAL 1 MINUTE"))


QUERIES: dict[str, tuple[Callable[[DataFrame], DataFrame], list[str]]] = {
    "an unsupported function": (lambda t: t.where("xpath_string(cast(station AS string), 'a') = 'x'"), ["xpath", "WHERE"]),
    "rand()": (lambda t: t.withColumn("chance", F.rand()), ["rand()", "AS chance", "replayed"]),
    "a join of two streams without equality": (joined_streams, ["join of two streams", "equality", "a.id = b.id"]),
    "append without a watermark": (lambda t: t.groupBy("station").count(), ["withWatermark", "outputMode('update')"]),
    "orderBy": (lambda t: t.orderBy("fare"), ["Sorting", "sort what the sink holds"]),
}  # fmt: skip

WRITERS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "complete mode": (lambda w: w.outputMode("complete"), ["complete", "'update'"]),
    "an unknown mode": (lambda w: w.outputMode("sideways"), ["sideways", "append, update and complete"]),
    "processingTime": (lambda w: w.trigger(processingTime="5 seconds"), ["micro-batches", "checkpoint='5 seconds'"]),
    "foreachBatch of no function": (lambda w: w.foreachBatch(42), ["foreachBatch", "int", "lambda"]),
    "foreachBatch without a task slot": (lambda w: w.foreachBatch(print).option("parallelism", 3), ["foreachBatch", "task slot"]),
    "an unknown format": (lambda w: w.format("kudu"), ["kudu", "parquet"]),
    "an unknown option value": (lambda w: w.option("atEnd", "explode"), ["atEnd", "keep, drain", "explode"]),
    "a number that is none": (lambda w: w.option("parallelism", "many"), ["parallelism", "whole number", "many"]),
    "a misspelt option": (lambda w: w.option("paralelism", 2), ["paralelism", "'parallelism'"]),
    "more slots than tasks": (lambda w: w.option("parallelism", 9), ["9 slots", "local[3]", "3 tasks", "all slots"]),
    "more slots than key groups": (lambda w: w.option("maxParallelism", 1).option("parallelism", 2), ["maxParallelism"]),
    "an object that cannot process": (lambda w: w.foreach(42), ["foreach", "int", "process"]),
}  # fmt: skip


@pytest.fixture
def trips(spark, tmp_path: Path) -> DataFrame:
    add_trips(tmp_path / "trips", 0, rows=10)
    return spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "trips"))


@pytest.fixture
def refused(spark, tmp_path: Path) -> Callable[[Any], str]:
    """Starts what it is given, expects one clear refusal and no trace of an attempt, and returns its text."""

    def start(writer: Any) -> str:
        jobs, active = jobs_so_far(spark), ACTIVE.all()
        with pytest.raises(InvalidQuery) as caught:
            writer.start(str(tmp_path / "out"))
        assert jobs_so_far(spark) == jobs, "Spark ran a job for a query that was refused"
        assert files_below(tmp_path / "checkpoints") == [] and files_below(tmp_path / "out") == []
        assert ACTIVE.all() == active
        assert_readable(caught.value)
        return str(caught.value)

    return start


def jobs_so_far(spark) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def assert_readable(error: InvalidQuery) -> None:
    """What and where, then what to do; nothing of the JVM, of Python's internals, or of ours."""
    text = str(error)
    assert error.hint or "must be" in error.message, f"no way out: {text}"
    assert len(text.splitlines()) <= 3 and len(text) < 900
    for noise in ("\tat ", "java.", "org.apache", "py4j", "Py4J", "Traceback", "StreamingRelation", "msgspec", "_ms "):
        assert noise not in text, f"{noise!r} in {text}"
    assert error.__cause__ is None or "Py4J" not in repr(error.__cause__)


def writer_to_files(df: DataFrame, tmp_path: Path) -> Any:
    return tidegate.writeStream(df).format("parquet").option("checkpointLocation", str(tmp_path / "checkpoints"))


@pytest.mark.parametrize("what", QUERIES)
def test_a_query_that_cannot_run_is_refused_by_name_and_place(trips, tmp_path, refused, what):
    build, words = QUERIES[what]
    text = refused(writer_to_files(build(trips), tmp_path))
    for word in words:
        assert word in text


@pytest.mark.parametrize("what", WRITERS)
def test_a_request_that_cannot_be_met_is_refused_by_name(trips, tmp_path, refused, what):
    ask, words = WRITERS[what]
    text = refused(ask(writer_to_files(trips, tmp_path)))
    for word in words:
        assert word in text


def test_files_without_a_checkpoint_location_are_refused(trips, refused):
    assert "checkpointLocation" in refused(tidegate.writeStream(trips).format("parquet"))


def test_files_without_a_path_are_refused(trips, tmp_path):
    with pytest.raises(InvalidQuery, match="path") as caught:
        writer_to_files(trips, tmp_path).start()
    assert_readable(caught.value)
    assert files_below(tmp_path / "checkpoints") == []


def test_what_is_no_stream_is_refused(spark, tmp_path, refused):
    text = refused(writer_to_files(spark.range(3), tmp_path))
    assert "not a stream" in text and "spark.readStream" in text and "df.write" in text


def test_a_static_side_is_not_read_for_a_query_that_is_refused(spark, trips, tmp_path, refused):
    static = spark.range(0, 20).withColumnRenamed("id", "station")
    assert "rand()" in refused(writer_to_files(trips.join(static, "station").withColumn("x", F.rand()), tmp_path))
    assert "kudu" in refused(writer_to_files(trips.join(static, "station"), tmp_path).format("kudu"))
    assert "checkpointLocation" in refused(tidegate.writeStream(trips.join(static, "station")).format("parquet"))


SESSIONS = """
import json, sys
import tidegate
from tidegate.model.errors import InvalidQuery

folder = json.loads(sys.argv[1])["folder"]
for setting in ("spark.speculation", "spark.dynamicAllocation.enabled"):
    spark = tidegate.local_session(**{setting.replace(".", "__"): "true"})
    rows = spark.readStream.format("rate").load()
    jobs = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
    try:
        tidegate.writeStream(rows).format("noop").option("checkpointLocation", f"{folder}/checkpoints").start()
        print("started", flush=True)
    except InvalidQuery as refused:
        jobs = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs() - jobs
        print("refused", jobs, *str(refused).split(), flush=True)
    spark.stop()
"""


@pytest.mark.slow
def test_speculation_and_dynamic_allocation_are_refused(tmp_path):
    """T64: Spark may never start a second copy of a running slot."""
    with Driver(SESSIONS, tmp_path) as driver:
        for setting in ("spark.speculation", "spark.dynamicAllocation.enabled"):
            jobs, *words = driver.says("refused")
            assert jobs == "0"
            assert setting in words and f"{setting}=false" in words
    assert files_below(tmp_path / "checkpoints") == []
