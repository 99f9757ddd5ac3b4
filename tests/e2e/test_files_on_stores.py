"""Whole queries whose files go to an object store or to HDFS, or come from there."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hdfs_native import Client
from pyspark.sql import SparkSession
from tests.e2e.scenario import assert_same_rows
from tests.integration.stores.conftest import Home
from tests.integration.stores.file_output import Output
from tests.servers.hdfs import Hdfs
from tests.servers.s3 import S3Server

import tidegate
from tidegate.model.errors import InvalidQuery
from tidegate.storage.options import storage_options

pytestmark = pytest.mark.spark


def run(spark: SparkSession, tmp_path: Path, out: str, options: dict[str, str]) -> None:
    rows = spark.createDataFrame([(f"k {n % 3}", n) for n in range(80)], "k string, n bigint")
    rows.write.json(str(tmp_path / "in"))
    stream = spark.readStream.schema("k string, n bigint").json(str(tmp_path / "in"))
    writing = tidegate.writeStream(stream).format("parquet").partitionBy("k").trigger(availableNow=True)
    query = writing.options(**options).option("checkpointLocation", str(tmp_path / "checkpoints")).start(out)
    assert query.awaitTermination(120)


def test_spark_reads_from_hdfs_what_the_log_names(spark: SparkSession, tmp_path: Path, hdfs: Hdfs) -> None:
    """A file beside the log, in the right place and with the right rows, does not exist for Spark."""
    out = f"{hdfs.uri}/tables/out put"
    run(spark, tmp_path, out, {})
    client = Client(hdfs.uri)
    part = next(one.path for one in client.list_status("/tables/out put/k=k 0"))
    with client.create("/tables/out put/k=k 0/stray.parquet") as copy:
        copy.write(client.read(part).read())
    expected = spark.createDataFrame([(f"k {n % 3}", n) for n in range(80)], "k string, n bigint")
    assert assert_same_rows(spark.read.parquet(out).select("k", "n"), expected) == 80


def test_files_go_to_s3_with_the_storage_options_of_the_query(
    spark: SparkSession, tmp_path: Path, s3: S3Server
) -> None:
    given = storage_options({name.removeprefix("storage."): value for name, value in s3.options.items()})
    output = Output(Home("s3", f"s3://{s3.bucket()}/out", given), s3)
    run(spark, tmp_path, output.url, s3.options)
    assert output.visible() == list(range(80)) and output.staged() == []


LINES = "n bigint, k string"


def counted(spark: SparkSession, first: int) -> Any:
    return spark.range(first, first + 500, numPartitions=3).selectExpr("id AS n", "concat('k %', id % 3) AS k")


def start(source: Any, tmp_path: Path, options: dict[str, str]) -> Any:
    rows = source.selectExpr("n", "k", "_metadata.file_path AS file")
    writing = tidegate.writeStream(rows).format("parquet").trigger(checkpoint="300 milliseconds").options(**options)
    return writing.option("checkpointLocation", str(tmp_path / "checkpoints")).start(str(tmp_path / "out"))


def test_files_in_hdfs_are_read_as_spark_reads_them_and_each_once(
    spark: SparkSession, tmp_path: Path, hdfs: Hdfs
) -> None:
    """Spark writes them and is the oracle. A slot is killed while the second lot is read, and the query started anew for the third."""
    source = f"{hdfs.uri}/incoming/trips 1"
    counted(spark, 0).write.partitionBy("k").json(source)
    stream = spark.readStream.schema(LINES).json(source)
    query = start(stream, tmp_path, {})
    try:
        query.processAllAvailable()
        counted(spark, 500).write.mode("append").partitionBy("k").json(source)
        os.kill(query.snapshot().pids[0], signal.SIGKILL)
        query.processAllAvailable()
    finally:
        query.stop()
    counted(spark, 1_000).write.mode("append").partitionBy("k").json(source)
    query = start(stream, tmp_path, {})
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    expected = spark.read.schema(LINES).json(source).selectExpr("n", "k", "_metadata.file_path AS file")
    assert assert_same_rows(spark.read.parquet(str(tmp_path / "out")), expected) == 1_500


def test_files_in_s3_are_read_with_the_storage_options_of_the_query(
    spark: SparkSession, tmp_path: Path, s3: S3Server
) -> None:
    """Spark has no client for S3 here and needs none for more than the name: it looks at an empty directory instead."""
    bucket = s3.bucket()
    counted(spark, 0).coalesce(1).write.parquet(str(tmp_path / "in"))
    (file,) = (tmp_path / "in").glob("part-*")
    s3.client().upload_file(str(file), bucket, "in/day=1/a b.parquet")
    (tmp_path / "empty").mkdir()
    stands_in = {
        "fs.s3a.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
        f"fs.viewfs.mounttable.{bucket}.link./in": f"file://{tmp_path}/empty",
    }
    stream = spark.readStream.schema(f"{LINES}, day int").options(**stands_in).parquet(f"s3a://{bucket}/in")
    with s3.check_keys(), pytest.raises(InvalidQuery, match="InvalidAccessKeyId"):
        start(stream.where("day = 1"), tmp_path, s3.options)
    query = start(stream.where("day = 1"), tmp_path, s3.options)
    try:
        query.processAllAvailable()
        s3.client().upload_file(str(file), bucket, "in/day=2/c.parquet")
        s3.client().upload_file(str(file), bucket, "in/day=1/d.parquet")
        query.processAllAvailable()
    finally:
        query.stop()
    files = spark.createDataFrame(
        [(f"s3a://{bucket}/in/day=1/{name}.parquet",) for name in ("a%20b", "d")], "file string"
    )
    assert assert_same_rows(spark.read.parquet(str(tmp_path / "out")), counted(spark, 0).crossJoin(files)) == 1_000
