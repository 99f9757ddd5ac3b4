"""The log ``_spark_metadata`` with Spark itself on the other side: its readers follow ours, and we continue its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.unit.connectors.reading import file_scan, read_all
from tests.unit.connectors.test_file_sink import SCHEMA, rows, sink_to, writer
from tests.unit.connectors.test_spark_log import batches, commit, committables

from tidegate.connectors.files import ledger, local_directory
from tidegate.connectors.files.committer import FileSinkCommitter
from tidegate.plan.relational import Sink

pytestmark = pytest.mark.spark


def seen_by_spark(spark: SparkSession, path: Path) -> list[int]:
    frame = spark.read.schema("k string, n bigint").parquet(str(path))
    return sorted(row.n for row in frame.collect())


def seen_by_a_stream_of_spark(spark: SparkSession, path: Path, name: str) -> list[int]:
    stream = spark.readStream.schema("k string, n bigint").parquet(str(path))
    query = stream.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    return sorted(row.n for row in spark.table(name).collect())


def partitioned(path: Path) -> Sink:
    return sink_to(path, partition_by=("k",), mergeSmallFiles="1m")


def test_spark_sees_a_commit_whole_or_not_at_all(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are in place, in several directories; until the batch is, Spark's readers know nothing of them."""
    out = tmp_path / "out put"
    sink = partitioned(out)
    commit(sink, 1)
    owed = committables(sink, 2, subtask=0) + committables(sink, 2, subtask=1) + committables(sink, 3, subtask=2)
    real = local_directory.create_whole

    def look_first(target: Path, data: bytes) -> bool:
        assert len(list(out.rglob("part-*"))) == 3 and seen_by_spark(spark, out) == [1]
        return real(target, data)

    monkeypatch.setattr(local_directory, "create_whole", look_first)
    FileSinkCommitter(sink).commit(owed)
    assert seen_by_spark(spark, out) == [1, 2, 2, 3]
    frame = spark.read.parquet(str(out))
    assert sorted(frame.columns) == ["k", "n"] and {row.k for row in frame.collect()} == {"k0", "k1", "k2"}


def test_spark_reads_the_log_before_and_after_it_is_compacted_and_cleaned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "CLEANUP_DELAY_S", -1.0)
    sink = sink_to(tmp_path)
    done = 0
    for upto in (9, 10, 11, 19, 20, 21, 43):
        commit(sink, *range(done + 1, upto + 1))
        done = upto
        assert seen_by_spark(spark, tmp_path) == list(range(1, upto + 1))
    assert batches(tmp_path)[0] == "19.compact"


def test_a_directory_of_sparks_own_sink_is_continued(spark: SparkSession, tmp_path: Path) -> None:
    """Two runs of Spark, three commits of ours: batch, stream and our own source see the same rows."""
    out = tmp_path / "out"
    for run in (1, 2):
        spark.createDataFrame([("x", 100 * run)], "k string, n bigint").coalesce(1).write.mode("append").parquet(
            str(tmp_path / "in")
        )
        stream = spark.readStream.schema("k string, n bigint").parquet(str(tmp_path / "in"))
        writing = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "cp"))
        assert writing.trigger(availableNow=True).start(str(out)).awaitTermination(180)
    assert batches_of_both(out) == ["0", "1"]
    commit(sink_to(out), 1, 2, 3)
    assert batches_of_both(out) == ["0", "1", "2", "3", "4"]
    assert seen_by_spark(spark, out) == [1, 2, 3, 100, 200]
    assert seen_by_a_stream_of_spark(spark, out, "continued") == [1, 2, 3, 100, 200]
    assert sorted(n for _, n in read_all(file_scan("parquet", out, SCHEMA))) == [1, 2, 3, 100, 200]


def batches_of_both(path: Path) -> list[str]:
    """Without the checksums that Spark puts beside its files."""
    return sorted(file.name for file in (path / "_spark_metadata").iterdir() if file.suffix != ".crc")


def test_what_nobody_committed_is_seen_by_nobody(spark: SparkSession, tmp_path: Path) -> None:
    sink = sink_to(tmp_path)
    commit(sink, 1)
    pending = writer(sink, attempt=2)
    pending.write(rows(9))
    assert seen_by_spark(spark, tmp_path) == [1]
    assert sorted(read_all(file_scan("parquet", tmp_path, SCHEMA))) == [("k1", 1)]
    pending.close()
