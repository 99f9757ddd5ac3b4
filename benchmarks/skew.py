"""One key with half of all rows: throughput beside that of the same query over evenly spread keys, as a ratio.

    python -m benchmarks.skew

Two slots, each with a core of its own, on Spark; windows, a running aggregate, deduplication and a join with a static table read Parquet files to their
end. Even and skewed files take turns, so that a busy moment of the machine hits both; printed are the ratio of each pair and the median.

Sizes by environment: SKEW_ROWS (4000000), SKEW_KEYS (100000), SKEW_PAIRS (5).
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate

ROWS = int(os.environ.get("SKEW_ROWS", "4000000"))
KEYS = int(os.environ.get("SKEW_KEYS", "100000"))
PAIRS = int(os.environ.get("SKEW_PAIRS", "5"))
FILES = 16
SCHEMA = "k long, v long, ts timestamp"
RATIO_MIN = 0.5


def windows(rows: DataFrame) -> DataFrame:
    grouped = rows.withWatermark("ts", "1 second").groupBy(F.window("ts", "10 seconds"), "k")
    return grouped.agg(F.count("*").alias("n"), F.sum("v").alias("total")).select("window.start", "k", "n", "total")


def running(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))


def distinct(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["k"])


def sessions(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("ts", "1 second").groupBy(F.session_window("ts", "2 seconds"), "k").count()


WORKLOADS: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "windows": (windows, "append"),
    "running": (running, "update"),
    "deduplication": (distinct, "append"),
    "sessions": (sessions, "append"),
}


def main() -> int:
    failed = False
    with tempfile.TemporaryDirectory(prefix="tidegate-skew-") as folder:
        root = Path(folder)
        data = {"even": write_rows(root / "even", hot=0.0), "skewed": write_rows(root / "skewed", hot=0.5)}
        spark = tidegate.local_session("tidegate-skew", cores=2, spark__driver__memory="2g")
        for name in WORKLOADS:
            run_s(spark, name, data["even"], root)  # Compilers and workers are warm before anything counts.
            ratios = []
            for pair in range(PAIRS):
                order = ("even", "skewed") if pair % 2 else ("skewed", "even")
                spent_s = {which: run_s(spark, name, data[which], root) for which in order}
                ratios.append(spent_s["even"] / spent_s["skewed"])
            median = statistics.median(ratios)
            failed |= median <= RATIO_MIN
            shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"{name:14} skewed at {median:.2f} of the even throughput (pairs: {shown})", flush=True)
        spark.stop()
    return 1 if failed else 0


def write_rows(folder: Path, hot: float) -> Path:
    """``hot``: which part of the rows has key 0; the others are spread over all keys."""
    folder.mkdir()
    random = np.random.default_rng(7)
    size = ROWS // FILES
    for number in range(FILES):
        keys = np.where(random.random(size) < hot, 0, random.integers(1, KEYS, size))
        at = pl.int_range(number * size, (number + 1) * size, eager=True) * 50
        frame = pl.DataFrame({"k": keys, "v": random.integers(0, 1000, size), "ts": at.cast(pl.Datetime("us", "UTC"))})
        frame.write_parquet(folder / f"part-{number:03}.parquet")
    return folder


def run_s(spark: SparkSession, name: str, data: Path, root: Path) -> float:
    build, mode = WORKLOADS[name]
    query_df = build(spark.readStream.schema(SCHEMA).parquet(str(data)))
    began_s = time.monotonic()
    query = (
        tidegate.writeStream(query_df)
        .format("noop")
        .outputMode(mode)
        .option("checkpointLocation", tempfile.mkdtemp(dir=root))
        .option("parallelism", 2)
        .option("progress", "off")
        .option("atEnd", "drain")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.monotonic() - began_s


if __name__ == "__main__":
    sys.exit(main())
