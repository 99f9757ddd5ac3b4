"""Whole queries whose files go to an object store or to HDFS."""

from __future__ import annotations

from pathlib import Path

import pytest
from hdfs_native import Client
from pyspark.sql import SparkSession
from tests.e2e.scenario import assert_same_rows
from tests.integration.stores.conftest import Home
from tests.integration.stores.file_output import Output
from tests.servers.hdfs import Hdfs
from tests.servers.s3 import S3Server

import tidegate
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
