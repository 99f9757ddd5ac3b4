"""Whole queries from files to files, as docs/connectors/files.md shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.e2e.scenario import ROOT, assert_same_rows

import tidegate

pytestmark = pytest.mark.spark

SCHEMA = "station bigint, minutes bigint, day date"


def test_the_example_of_the_page_runs_and_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    """Two runs: the second finds its files in the log of the first, and Spark sees both."""
    page = (ROOT / "docs/connectors/files.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    folders = {name: str(tmp_path / name) for name in ("incoming", "out", "checkpoints")}
    for run in range(2):
        days = [(n, 10 * n, f"2024-05-{1 + n % 3:02}") for n in range(50 * run, 50 * run + 50)]
        rows = spark.createDataFrame(days, "station bigint, minutes bigint, day string")
        rows.selectExpr("station", "minutes", "cast(day as date) day").write.mode("append").json(folders["incoming"])
        exec(compile(example, "files.md", "exec"), {"spark": spark, **folders})
        written = spark.read.parquet(folders["out"]).select("station", "minutes", "day")
        assert assert_same_rows(written, spark.read.schema(SCHEMA).json(folders["incoming"])) == 50 * (run + 1)
        logged = sorted(path.name for path in (tmp_path / "out" / "_spark_metadata").iterdir())
        assert logged == [str(number) for number in range(len(logged))]
    assert len(list((tmp_path / "out").rglob("part-*"))) == 3 * len(logged)


def test_a_query_reads_what_the_log_names_and_writes_it_as_text(spark: SparkSession, tmp_path: Path) -> None:
    """The output of Spark's own streaming sink, with a file beside it that no batch names."""
    rows = spark.createDataFrame([(n, f"r{n}") for n in range(20)], "n bigint, s string")
    rows.write.json(str(tmp_path / "in"))
    spark_stream = spark.readStream.schema("n bigint, s string").json(str(tmp_path / "in")).writeStream
    writing = (
        spark_stream.format("parquet").option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True)
    )
    assert writing.start(str(tmp_path / "out")).awaitTermination(180)
    stray = next((tmp_path / "out").glob("part-*"))
    (tmp_path / "out" / "part-of-a-failed-task.parquet").write_bytes(stray.read_bytes())
    stream = spark.readStream.schema("n bigint, s string").parquet(str(tmp_path / "out"))
    query = (
        tidegate.writeStream(stream.selectExpr("concat_ws(':', s, n) AS line"))
        .format("text")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "lines"))
    )
    assert query.awaitTermination(180)
    expected = rows.selectExpr("concat_ws(':', s, n) AS value")
    assert assert_same_rows(spark.read.text(str(tmp_path / "lines")), expected) == 20


def test_an_option_at_its_default_is_never_refused(spark: SparkSession, tmp_path: Path) -> None:
    """PySpark's ``text(path)`` says ``wholetext`` by itself; a program may spell out others."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n")
    lines = spark.readStream.option("multiLine", "false").option("cleanSource", "off").text(str(tmp_path / "in"))
    query = (
        tidegate.writeStream(lines)
        .format("text")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    assert query.awaitTermination(180)
    assert_same_rows(spark.read.text(str(tmp_path / "out")), spark.read.text(str(tmp_path / "in")))
