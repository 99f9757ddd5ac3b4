"""Errors that belong to the user: their own traceback, the operator and the row, and an output that is still exactly right."""

from __future__ import annotations

import ctypes
import json
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.e2e.scenario import SCHEMA, Driver, add_trips, assert_same_rows, wait_until

import tidegate
from tidegate.model.errors import DataError, InvalidQuery, TidegateError, Unavailable, UserCodeFailed

pytestmark = pytest.mark.spark
ROWS, BAD = 200_000, 81_234
LIBC = ctypes.CDLL(None)
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
"""From linux/prctl.h and linux/capability.h."""


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """One file, so that what was read is a prefix of it."""
    folder = tmp_path / "in"
    folder.mkdir()
    pl.DataFrame({"v": pl.int_range(ROWS, eager=True)}).write_parquet(folder / "all.parquet", row_group_size=100_000)
    return folder


def start(df: DataFrame, folder: Path, *, available_now: bool = True, **options: object) -> Any:
    return (
        tidegate.writeStream(df)
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints"))
        .options(**options)
        .trigger(availableNow=available_now or None, checkpoint="50 milliseconds")
        .start(str(folder / "out"))
    )


def failure_of(query: Any, timeout_s: float = 180.0) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        query.awaitTermination(timeout_s)
    assert not query.isActive
    assert query.exception() is not None
    text = caught.value.message
    for noise in ("org.apache", "py4j", "java.", "\tat "):
        assert noise not in text, f"{noise!r} in {text}"
    return caught.value


def test_a_poisoned_row_ends_the_query_at_a_committed_prefix_and_a_mended_function_goes_on(spark, numbers, tmp_path):
    """T62: batches are cut by speed, so the row comes in another batch the second time; it is the same error all the same."""
    seen, out = tmp_path / "seen", tmp_path / "out"

    def digest(value: int) -> int:
        if value % 500 == 0 and not seen.exists():
            # Slow rows make small batches; the second time they are large. Slower still until something is committed.
            time.sleep(0.02 if any(out.glob("part-*")) else 0.4)
        if value == BAD:
            seen.touch()
            raise LookupError(f"{value} is indigestible")
        return -value

    def query_with(function: Any) -> Any:
        stream = spark.readStream.schema("v bigint").parquet(str(numbers))
        return start(stream.select("v", F.udf(function, "bigint")("v").alias("w")), tmp_path, parallelism=1)

    query = query_with(digest)
    error = failure_of(query)
    assert isinstance(error, UserCodeFailed)
    first, *_ = error.message.splitlines()
    assert first == "Traceback (most recent call last):"
    assert "in digest" in error.message and f"LookupError: {BAD} is indigestible" in error.message
    assert "digest(v)" in error.message and f"v={BAD}" in error.message and "all.parquet" in error.message
    assert len(query.recoveries) == 2, f"once, again, and no third time: {query.recoveries}"

    done = sorted(row.v for row in spark.read.parquet(str(tmp_path / "out")).select("v").collect())
    assert done == list(range(len(done))), "exactly a prefix: nothing twice, nothing left out"
    assert 0 < len(done) <= BAD

    mended = query_with(lambda value: -value)
    assert mended.awaitTermination(180)
    batch = spark.read.parquet(str(numbers)).select("v", (-F.col("v")).alias("w"))
    assert assert_same_rows(spark.read.parquet(str(tmp_path / "out")), batch) == ROWS


def test_a_function_that_fails_once_is_tried_again_and_nothing_is_lost_or_doubled(spark, tmp_path):
    for number in range(4):
        add_trips(tmp_path / "trips", number)
    flag = tmp_path / "failed-once"

    @F.udf("bigint")
    def flaky(minutes: int, ts) -> int:
        if minutes == 17 and not flag.exists():
            flag.touch()
            raise ConnectionError("the tariff service hung up")
        return minutes

    def windows(df: DataFrame, minutes) -> DataFrame:
        df = df.withWatermark("ts", "5 seconds").withColumn("minutes", minutes)
        return df.groupBy(F.window("ts", "10 seconds"), "station").agg(F.sum("minutes").alias("total"))

    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "trips"))
    query = start(windows(stream, flaky("minutes", "ts")), tmp_path, atEnd="drain", batchRowsMax=500)
    assert query.awaitTermination(180)
    assert flag.exists() and len(query.recoveries) == 1
    assert "ConnectionError: the tariff service hung up" in query.recoveries[0].reason
    batch = windows(spark.read.schema(SCHEMA).parquet(str(tmp_path / "trips")), F.col("minutes"))
    assert_same_rows(spark.read.parquet(str(tmp_path / "out")), batch)


def test_a_corrupt_file_is_named_and_what_came_before_it_is_there(spark, tmp_path):
    trips = tmp_path / "trips"
    add_trips(trips, 0)
    wait_until(lambda: time.time() > (trips / "000.parquet").stat().st_mtime + 0.01, "a later modification time")
    whole = (trips / "000.parquet").read_bytes()
    (trips / "001.parquet").write_bytes(whole[: len(whole) // 2])
    stream = spark.readStream.schema(SCHEMA).parquet(str(trips))
    query = start(stream, tmp_path, parallelism=1)
    error = failure_of(query)
    assert isinstance(error, DataError) and error.hint
    assert str(trips / "001.parquet") in error.message and len(error.message.splitlines()) <= 3


def test_a_column_of_another_type_is_named_with_its_file(spark, tmp_path):
    trips = tmp_path / "trips"
    trips.mkdir()
    pl.DataFrame({"station": ["seven"], "minutes": [3]}).write_parquet(trips / "000.parquet")
    stream = spark.readStream.schema("station bigint, minutes bigint").parquet(str(trips))
    error = failure_of(start(stream, tmp_path))
    assert isinstance(error, DataError) and error.hint
    assert "station" in error.message and "000.parquet" in error.message and "bigint" in error.message


def test_a_column_that_a_file_lacks_is_null_as_in_spark(spark, tmp_path):
    trips = tmp_path / "trips"
    trips.mkdir()
    pl.DataFrame({"station": [7, 8]}).write_parquet(trips / "000.parquet")
    schema = "station bigint, minutes bigint"
    assert start(spark.readStream.schema(schema).parquet(str(trips)), tmp_path).awaitTermination(180)
    assert_same_rows(spark.read.parquet(str(tmp_path / "out")), spark.read.schema(schema).parquet(str(trips)))


def test_a_source_directory_that_is_gone_at_the_start_is_refused(spark: SparkSession, tmp_path):
    trips = tmp_path / "trips"
    trips.mkdir()
    stream = spark.readStream.schema(SCHEMA).parquet(str(trips))
    trips.rmdir()
    with pytest.raises(InvalidQuery, match="does not exist") as refused:
        start(stream, tmp_path)
    assert str(trips) in refused.value.message and refused.value.hint


def test_a_source_directory_that_goes_away_is_empty_until_it_is_there_again(spark: SparkSession, tmp_path):
    trips = tmp_path / "trips"
    add_trips(trips, 0, rows=10)
    query = start(spark.readStream.schema(SCHEMA).parquet(str(trips)), tmp_path, available_now=False)
    query.processAllAvailable()
    trips.rename(tmp_path / "elsewhere")
    query.processAllAvailable()
    add_trips(trips, 1, rows=10)
    query.processAllAvailable()
    query.stop()
    assert query.exception() is None
    whole = spark.read.schema(SCHEMA).parquet(str(trips), str(tmp_path / "elsewhere"))
    assert whole.count() == 20
    assert_same_rows(spark.read.parquet(str(tmp_path / "out")), whole)


FORBIDDEN = """
import json, sys
from pathlib import Path
import tidegate
from tests.e2e.scenario import SCHEMA
from tests.e2e.test_user_errors import failure_of, start

folder = Path(json.loads(sys.argv[1])["folder"])
stream = tidegate.local_session("forbidden", cores=2).readStream.schema(SCHEMA).parquet(str(folder / "trips"))
(folder / "trips").chmod(0)
error = failure_of(start(stream, folder, restartAttempts=1))
print("failed", json.dumps([type(error).__name__, error.message, error.hint]), flush=True)
"""


def give_up_roots_rights() -> None:
    """What this process becomes, and its children, may read only what modes of files allow, whoever it runs as."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # Others than root have none to give up.


def test_a_directory_that_may_not_be_read_is_one_clear_error(tmp_path):
    trips = tmp_path / "trips"
    add_trips(trips, 0, rows=10)
    with Driver(FORBIDDEN, tmp_path, before=give_up_roots_rights) as driver:
        try:
            kind, message, hint = json.loads(" ".join(driver.says("failed")))
        finally:
            trips.chmod(0o700)
    assert kind == Unavailable.__name__ and f"cannot list {trips}: Permission denied" in message and hint


def test_an_output_directory_that_is_a_file_is_one_clear_error(spark, tmp_path):
    add_trips(tmp_path / "trips", 0, rows=10)
    (tmp_path / "out").write_text("not a directory")
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "trips"))
    with pytest.raises(TidegateError) as caught:
        start(stream, tmp_path, restartAttempts=1).awaitTermination(180)
    assert str(tmp_path / "out") in str(caught.value)
    assert caught.value.hint
    assert (tmp_path / "out").read_text() == "not a directory"


def test_a_row_behind_an_exchange_is_known_again_in_another_batch(spark, tmp_path):
    """T62: no position in a source is known there and batches are cut by chance, so the row itself is what is recognised."""
    for number in range(2):
        add_trips(tmp_path / "trips", number, rows=2_000)

    def audited(frames: Any) -> Any:
        for frame in frames:
            # One row of the result: among several, another may come first the second time.
            if ((frame.station == 5) & (frame.start.dt.minute == 1) & (frame.start.dt.second == 40)).any():
                raise PermissionError("station 5 is closed")
            yield frame

    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "trips"))
    windows = stream.withWatermark("ts", "5 seconds").groupBy(F.window("ts", "10 seconds"), "station").count()
    flat = windows.select(F.col("window.start").alias("start"), "station", "count")
    query = start(flat.mapInPandas(audited, flat.schema), tmp_path, atEnd="drain", parallelism=2, batchRowsMax=300)
    error = failure_of(query)
    assert isinstance(error, UserCodeFailed)
    assert "PermissionError: station 5 is closed" in error.message
    assert "mapInPandas(audited)" in error.message and "station=5" in error.message
    assert len(query.recoveries) == 2, f"once, again, and no third time: {query.recoveries}"
