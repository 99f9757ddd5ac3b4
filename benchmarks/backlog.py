"""What a backlog of thousands of files costs: windows over it with statistics, without, and with ``maxFilesPerTrigger``.

    python -m benchmarks.backlog

A year in small: the files follow each other in time, each covers a minute, its rows in random order; windows of ten seconds and a hundred
keys, two slots. ``micros``: Parquet with statistics of the time; ``int96``: Spark's default, without; ``csv``: text. Printed for each: rows
per second, the most groups held in state and their bytes, the largest slot's memory, and when the first window was visible.

Sizes by environment: BACKLOG_FILES (5000), BACKLOG_ROWS (2000, per file), BACKLOG_LIMIT (100 files per trigger).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate

FILES = int(os.environ.get("BACKLOG_FILES", "5000"))
ROWS = int(os.environ.get("BACKLOG_ROWS", "2000"))
LIMIT = int(os.environ.get("BACKLOG_LIMIT", "100"))
FILE_S, KEYS = 60, 100
START_S = 1_750_000_000
SCHEMA = "ts timestamp, k bigint, v bigint"
PROBE_S = 0.1


@dataclass(frozen=True, slots=True)
class Measured:
    rows_per_second: float
    state_rows: int
    state_bytes: int
    memory_bytes: int
    first_window_s: float


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="tidegate-backlog-") as folder:
        root = Path(folder)
        for kind in ("micros", "int96", "csv"):
            write_files(root / kind, kind)
        spark = tidegate.local_session("tidegate-backlog", cores=2)
        print(
            f"{FILES:,} files of {ROWS:,} rows: {'':12} {'rows/s':>10} {'groups':>10} {'state MB':>9} {'slot MB':>8} {'first s':>8}"
        )
        for kind, limit in (("micros", None), ("int96", None), ("int96", LIMIT), ("csv", None), ("csv", LIMIT)):
            measured = measure(spark, root / kind, kind, limit, Path(tempfile.mkdtemp(dir=root)))
            name = kind if limit is None else f"{kind}, maxFilesPerTrigger={limit}"
            print(
                f"{name:36} {measured.rows_per_second:>10,.0f} {measured.state_rows:>10,} {measured.state_bytes / 1e6:>9.1f} "
                f"{measured.memory_bytes / 1e6:>8.0f} {measured.first_window_s:>8.1f}",
                flush=True,
            )
        spark.stop()
    return 0


def write_files(folder: Path, kind: str) -> None:
    folder.mkdir()
    chance = np.random.default_rng(1)
    for number in range(FILES):
        low_us = (START_S + number * FILE_S) * 1_000_000
        times = pa.array(low_us + chance.integers(0, FILE_S * 1_000_000, ROWS), pa.timestamp("us", "UTC"))
        rows = pa.table({"ts": times, "k": chance.integers(0, KEYS, ROWS), "v": chance.integers(0, 1_000, ROWS)})
        path = folder / f"{number:06}.{'csv' if kind == 'csv' else 'parquet'}"
        if kind == "csv":
            pc.write_csv(rows, path, pc.WriteOptions(include_header=False))
        else:
            pq.write_table(rows, path, use_deprecated_int96_timestamps=kind == "int96")
        os.utime(path, (START_S + number, START_S + number))


def windows(events: DataFrame) -> DataFrame:
    grouped = events.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "10 seconds"), "k")
    return grouped.agg(F.count("*").alias("n"), F.sum("v").alias("total")).select("window.start", "k", "n", "total")


def measure(spark: SparkSession, source: Path, kind: str, limit: int | None, place: Path) -> Measured:
    reader = spark.readStream.schema(SCHEMA).format("csv" if kind == "csv" else "parquet")
    if limit is not None:
        reader = reader.option("maxFilesPerTrigger", limit)
    output = place / "out"
    writer = tidegate.writeStream(windows(reader.load(str(source)))).format("parquet").option("parallelism", 2)
    writer = writer.option("checkpointLocation", str(place / "checkpoints")).option("atEnd", "drain")
    writer = writer.option("progressInterval", f"{PROBE_S} seconds")
    began_s = time.monotonic()
    query = writer.trigger(availableNow=True, checkpoint="1 second").start(str(output))
    groups = state = memory = 0
    running_s = first_s = None
    while not query.awaitTermination(PROBE_S):
        now = query.snapshot()
        if running_s is None and now.phase == "running":
            running_s = time.monotonic()
        groups = max(groups, *_state(query, "numRowsTotal"))
        state = max(state, *_state(query, "memoryUsedBytes"))
        memory = max(memory, *map(_resident, now.pids.values()), 0)
        if first_s is None and any(output.glob("*.parquet")):
            first_s = time.monotonic() - began_s
    # From the first row on, as far as can be seen from outside: deploying the slots is not what is measured.
    took_s = time.monotonic() - (running_s or began_s)
    return Measured(FILES * ROWS / took_s, groups, state, memory, first_s or took_s)


def _state(query: Any, name: str) -> tuple[int, int]:
    last = query.lastProgress
    return 0, sum(operator[name] for operator in last["stateOperators"]) if last is not None else 0


def _resident(pid: int) -> int:
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.NoSuchProcess:
        return 0


if __name__ == "__main__":
    sys.exit(main())
