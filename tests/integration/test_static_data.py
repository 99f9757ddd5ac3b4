"""Static sides of joins in running queries: read again on request, at a checkpoint, so that no row is lost, repeated or torn."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tidegate.model.errors import InvalidQuery
from tidegate.spark.checks import task_slots

pytestmark = pytest.mark.spark


def add_rows(directory: Path, number: int) -> None:
    """Four rows with keys 0 … 3; renamed into place: a stream must never see half a file."""
    directory.mkdir(exist_ok=True)
    first = 4 * number
    frame = pl.DataFrame({"id": range(first, first + 4), "k": range(4)})
    frame.write_parquet(directory / f".{number}.tmp")
    (directory / f".{number}.tmp").rename(directory / f"{number}.parquet")


def add_names(directory: Path, names: dict[int, str]) -> None:
    directory.mkdir(exist_ok=True)
    number = len(list(directory.iterdir()))
    pl.DataFrame({"k": list(names), "name": list(names.values())}).write_parquet(directory / f"{number}.parquet")


def named(spark: SparkSession, tmp_path: Path) -> DataFrame:
    stream = spark.readStream.schema("id bigint, k bigint").parquet(str(tmp_path / "rows"))
    static = spark.read.schema("k bigint, name string").parquet(str(tmp_path / "names"))
    return stream.join(static, "k", "left").select("id", "name")


def test_refresh_reads_the_static_side_again_and_repeats_no_row(spark: SparkSession, tmp_path: Path) -> None:
    add_rows(tmp_path / "rows", 0)
    add_names(tmp_path / "names", {0: "zero", 1: "one"})
    query = (
        tidegate.writeStream(named(spark, tmp_path))
        .format("memory")
        .queryName("refreshed")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .option("parallelism", 1)
        .option("progress", "off")
        .start()
    )
    try:
        query.processAllAvailable()
        add_names(tmp_path / "names", {2: "two"})
        query.refresh(timeout=150)
        add_rows(tmp_path / "rows", 1)
        query.processAllAvailable()
        rows = sorted(tuple(row) for row in spark.table("refreshed").collect())
    finally:
        query.stop()
    before = [(0, "zero"), (1, "one"), (2, None), (3, None)]
    after = [(4, "zero"), (5, "one"), (6, "two"), (7, None)]
    assert rows == before + after
    assert query.exception() is None


def test_refresh_needs_a_task_slot_beside_the_query(spark: SparkSession, tmp_path: Path) -> None:
    add_rows(tmp_path / "rows", 0)
    add_names(tmp_path / "names", {0: "zero"})
    query = (
        tidegate.writeStream(named(spark, tmp_path))
        .format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .option("parallelism", task_slots(spark))
        .option("progress", "off")
        .start()
    )
    try:
        with pytest.raises(InvalidQuery, match="none is left to read static data with"):
            query.refresh()
        assert query.isActive
    finally:
        query.stop()


@pytest.mark.parametrize("kind", ["inner", "left", "left_semi", "left_anti"])
def test_a_partitioned_static_side_gives_what_a_whole_one_gives(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    for number in range(4):
        add_rows(tmp_path / "rows", number)
    add_names(tmp_path / "names", {0: "zero", 2: "two", 7: "seven"})
    add_names(tmp_path / "names", {2: "two again"})
    schema = "id bigint, k bigint"
    static = spark.read.schema("k bigint, name string").parquet(str(tmp_path / "names"))

    def joined(rows: DataFrame) -> DataFrame:
        on = rows.k + 1 == static.k + 1
        return rows.join(static, on, kind).select(rows.id, *([static.name] if kind in ("inner", "left") else []))

    query = (
        tidegate.writeStream(joined(spark.readStream.schema(schema).parquet(str(tmp_path / "rows"))))
        .format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .option("parallelism", 2)
        .option("broadcastMax", 0)
        .option("progress", "off")
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    assert "over all slots" in query.explain_text(extended=True)
    assert list((tmp_path / "checkpoints" / "state" / "static").iterdir())
    expected = joined(spark.read.schema(schema).parquet(str(tmp_path / "rows")))
    result = spark.read.schema(expected.schema).parquet(str(tmp_path / "out"))
    assert sorted(map(tuple, result.collect()), key=repr) == sorted(map(tuple, expected.collect()), key=repr)


def test_a_refresh_of_a_partitioned_side_leaves_no_old_table_behind(spark: SparkSession, tmp_path: Path) -> None:
    add_rows(tmp_path / "rows", 0)
    add_names(tmp_path / "names", {0: "zero"})
    query = (
        tidegate.writeStream(named(spark, tmp_path))
        .format("memory")
        .queryName("partitioned")
        .option("progressInterval", "100 ms")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .option("parallelism", 1)
        .option("broadcastMax", 0)
        .option("progress", "off")
        .start()
    )
    tables = tmp_path / "checkpoints" / "state" / "static"
    try:
        query.processAllAvailable()
        old = set(tables.iterdir())
        add_names(tmp_path / "names", {1: "one"})
        query.refresh(timeout=150)
        add_rows(tmp_path / "rows", 1)
        query.processAllAvailable()
        rows = sorted(tuple(row) for row in spark.table("partitioned").collect())
        give_up = time.monotonic() + 90
        while set(tables.iterdir()) & old and time.monotonic() < give_up:
            query.checkpoint()
        assert not set(tables.iterdir()) & old
    finally:
        query.stop()
    assert rows == [(0, "zero"), (1, None), (2, None), (3, None), (4, "zero"), (5, "one"), (6, None), (7, None)]


def test_a_table_that_outgrew_the_slots_is_partitioned_at_the_next_start(spark: SparkSession, tmp_path: Path) -> None:
    add_names(tmp_path / "names", {0: "zero", 1: "one"})

    def run(broadcast_max: int) -> None:
        query = (
            tidegate.writeStream(named(spark, tmp_path))
            .format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoints"))
            .option("parallelism", 2)
            .option("broadcastMax", broadcast_max)
            .option("progress", "off")
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()

    add_rows(tmp_path / "rows", 0)
    run(1 << 20)
    add_rows(tmp_path / "rows", 1)
    run(0)
    add_rows(tmp_path / "rows", 2)
    run(1 << 20)
    rows = spark.read.schema("id bigint, name string").parquet(str(tmp_path / "out")).collect()
    assert sorted(row.id for row in rows) == list(range(12))
    assert sum(row.name is not None for row in rows) == 6
