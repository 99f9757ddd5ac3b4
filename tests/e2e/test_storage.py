"""Whole queries whose checkpoints live on S3 and on HDFS, as docs/connectors/storage.md shows them."""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.e2e.scenario import ROOT, SCHEMA, add_trips, assert_same_rows, while_active
from tests.servers.hdfs import Hdfs
from tests.servers.s3 import S3Server

import tidegate
from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark

COUNTS = "select window.start start, station, count(*) trips, sum(fare) fares from {of} group by window(ts, '1 minute'), station"


def test_the_example_of_the_page_runs_and_goes_on_where_it_stopped(
    spark: SparkSession, s3: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And what it keeps secret is in no object, log or plan."""
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/connectors/storage.md").read_text(), re.DOTALL)
    trips, bucket, secret = tmp_path / "trips", s3.bucket(), secrets.token_hex(16)
    for run in range(2):
        add_trips(trips, run, 2_000)
        names = {
            "rows": spark.readStream.schema(SCHEMA).parquet(str(trips)),
            "bucket": bucket,
            "endpoint": s3.endpoint,
            "key": "anybody",
            "secret": secret,
            "out": str(tmp_path / "out"),
        }
        exec(compile(example, "storage.md", "exec"), names)
        query = names["query"]
        assert secret not in query.explain_text(extended=True) + repr(query.lastProgress)
        written = spark.read.parquet(str(tmp_path / "out"))
        assert assert_same_rows(written, spark.read.parquet(str(trips))) == 2_000 * (run + 1)
    keys = s3.keys(bucket)
    assert [key for key in keys if key.endswith("/claim")] == [
        f"checkpoints/q1/attempts/{attempt:06d}/claim" for attempt in (1, 2)
    ]
    client = s3.client()
    assert not any(secret.encode() in client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys)
    assert secret not in "".join(capfd.readouterr())


def test_a_killed_slot_comes_back_from_hdfs_and_a_savepoint_goes_to_s3(
    spark: SparkSession, hdfs: Hdfs, s3: S3Server, tmp_path: Path
) -> None:
    trips, out = tmp_path / "trips", tmp_path / "out"
    add_trips(trips, 0)
    spark.readStream.schema(SCHEMA).parquet(str(trips)).withWatermark("ts", "5 seconds").createOrReplaceTempView(
        "stream"
    )
    savepoint = f"s3://{s3.bucket()}/savepoint"

    def writer(location: str, **options: str):
        chosen = tidegate.writeStream(spark.sql(COUNTS.format(of="stream"))).format("parquet")
        chosen = chosen.option("checkpointLocation", location).option("parallelism", 1).options(**s3.options, **options)
        return chosen.trigger(checkpoint="1 second")

    query = writer(f"{hdfs.uri}/{tmp_path.name}/q").start(str(out))
    try:
        while_active(query, lambda: [one for one in query.checkpoints if one["state"] == "committed"], "a checkpoint")
        os.kill(next(iter(query.snapshot().pids.values())), signal.SIGKILL)
        while_active(query, lambda: query.recoveries and query.status["health"] == "healthy", "it has come back")
        add_trips(trips, 1)
        query.processAllAvailable()
        query.stop(savepoint=savepoint)
    finally:
        query.stop()
    add_trips(trips, 2)
    moved = writer(f"{hdfs.uri}/{tmp_path.name}/moved", startFrom=savepoint, atEnd="drain")
    moved.trigger(availableNow=True).start(str(out)).awaitTermination()
    spark.read.parquet(str(trips)).createOrReplaceTempView("batch")
    assert_same_rows(spark.read.parquet(str(out)), spark.sql(COUNTS.format(of="batch")))


def test_a_wrong_key_is_refused_at_the_start_and_a_revoked_one_is_told_until_it_is_back(
    spark: SparkSession, s3: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trips, out, bucket, key = tmp_path / "trips", tmp_path / "out", s3.bucket(), s3.access_key()
    add_trips(trips, 0, 1_000)
    stream = spark.readStream.schema(SCHEMA).parquet(str(trips))
    writer = tidegate.writeStream(stream).format("parquet").option("checkpointLocation", f"s3://{bucket}/q")
    writer = writer.trigger(checkpoint="500 milliseconds").option("storage.retries", 0)
    with s3.check_keys():
        with pytest.raises(InvalidQuery, match="InvalidAccessKeyId"):
            writer.options(**s3.options).start(str(out))
        caplog.set_level(logging.WARNING, "tidegate")
        query = writer.options(**s3.options_for(key)).start(str(out))
        try:
            while_active(query, lambda: [one for one in query.checkpoints if one["state"] == "committed"], "one")
            s3.revoke(key)
            while_active(
                query,
                lambda: any("InvalidAccessKeyId" in (one.get("reason") or "") for one in query.checkpoints),
                "a checkpoint that failed and says why",
            )
        finally:
            s3.restore()
    try:
        add_trips(trips, 1, 1_000)
        query.processAllAvailable()
        assert assert_same_rows(spark.read.parquet(str(out)), spark.read.parquet(str(trips))) == 2_000
    finally:
        query.stop()
    assert key.secret not in caplog.text
