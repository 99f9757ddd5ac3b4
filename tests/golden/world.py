"""The world that golden locations were made in: inputs written again byte for byte, and the queries that ran over them.

Only PySpark's names and ``tidegate.writeStream`` are used, so that every version can run it. Checkpoints and logs of files name
absolute paths: a location can go on only at the place where it was made, which is therefore the same on every machine.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate

PLACE = Path("/tmp/tidegate-golden")
SCHEMA = "ts timestamp, k bigint, v bigint"
FILE_ROWS = (1_500, 12_000, 12_000)
"""The first file is read to its end early; the others are open when the golden checkpoint is taken."""
STEP_MS = 50


@contextmanager
def place() -> Iterator[Path]:
    """The place itself, empty, and nobody else in it until the end."""
    with Path(f"{PLACE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        PLACE.mkdir(parents=True)
        try:
            yield PLACE
        finally:
            shutil.rmtree(PLACE, ignore_errors=True)


def write_input(directory: Path) -> None:
    """One row each 50 ms, in order, from file to file; 11 keys."""
    directory.mkdir(parents=True, exist_ok=True)
    first = 0
    for number, rows in enumerate(FILE_ROWS):
        lines = (f'{{"ts":"{_time(row)}","k":{row * 7 % 11},"v":{row}}}\n' for row in range(first, first + rows))
        (directory / f"{number}.json").write_text("".join(lines))
        first += rows


def _time(row: int) -> str:
    at_ms = row * STEP_MS
    minutes, rest = divmod(at_ms, 60_000)
    return f"2024-01-01T{minutes // 60:02}:{minutes % 60:02}:{rest / 1_000:06.3f}Z"


def rows_of(spark: SparkSession, *, streaming: bool) -> DataFrame:
    reader = spark.readStream if streaming else spark.read
    return reader.schema(SCHEMA).json(str(PLACE / "in"))


def with_time(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("ts", "5 seconds")


def windows(rows: DataFrame) -> DataFrame:
    """The filter stands above ``withWatermark`` in the query; Spark's optimiser moves it below."""
    kept = with_time(rows).where("v % 7 <> 0")
    return kept.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*").alias("n"), F.max("v").alias("top"))


def overtaken(rows: DataFrame, slow: bool = False) -> DataFrame:
    """Rows wait for code of the user, behind an exchange: barriers overtake them there."""

    def seen(frames: Any) -> Any:
        for frame in frames:
            time.sleep(0.05 if slow else 0.0)
            yield frame

    shown = with_time(rows).repartition(2, "k").mapInPandas(seen, SCHEMA)
    return shown.select("ts", "k", (F.col("v") * 2).alias("double"))


def joined(rows: DataFrame) -> DataFrame:
    """State of a join and of deduplication, behind a filter that stands below ``withWatermark`` and stays there."""
    timed = with_time(rows.where("v % 3 < 2"))
    left = timed.dropDuplicates(["ts", "k"]).select("ts", "k", F.col("v").alias("a"))
    right = timed.select(F.col("ts").alias("at"), F.col("k").alias("other"), F.col("v").alias("b"))
    close = F.expr("k = other AND at BETWEEN ts AND ts + INTERVAL 2 SECONDS")
    return left.join(right, close).select("ts", "at", "k", "a", "b")


def small(rows: DataFrame) -> DataFrame:
    return with_time(rows).where("v % 100 < 50").select("ts", "v")


def twice(rows: DataFrame) -> DataFrame:
    """Both halves were read from one source once; they filter differently."""
    few = with_time(rows).where("v % 7 = 1").union(with_time(rows).where("v % 7 = 2"))
    return few.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*").alias("n"))


QUERIES = {"windows": windows, "overtaken": overtaken, "joined": joined}
"""One query, one location."""
APART = {"twice": twice}
"""Queries that were read as one and are read as two now."""
JOB = {"counts": windows, "few": small}
"""Two queries that filter differently behind one ``withWatermark`` over one source."""


def writer(df: DataFrame, output: str, **options: object) -> Any:
    return (
        tidegate.writeStream(df)
        .format("parquet")
        .options(**{"parallelism": 2, **options})
        .option("path", str(PLACE / output))
    )


def expected(spark: SparkSession, query: str) -> list[str]:
    return comparable({**QUERIES, **APART, **JOB}[query](rows_of(spark, streaming=False)))


def comparable(rows: DataFrame) -> list[str]:
    return sorted(json.dumps(row.asDict(recursive=True), default=str, sort_keys=True) for row in rows.collect())


def pack(target: Path, *parts: str, below: Path = PLACE) -> None:
    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(target, "w:xz") as archive:
        for part in parts:
            archive.add(below / part, part, filter=plain)


def unpack(source: Path, write: Callable[[], None] = lambda: write_input(PLACE / "in")) -> None:
    """Into the place, beside the input that the location was read from."""
    with tarfile.open(source) as archive:
        archive.extractall(PLACE, filter="data")
    write()
