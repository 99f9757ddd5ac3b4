"""`make bench`: Tidegate beside Spark Structured Streaming, in one run, on the same files, as ratios.

Throughput: Nexmark q0, q1, q2, q7 and a running aggregate over a million keys, read from Parquet files; the clock runs from
``start()`` to the end of the query, set-up included. The engines take turns, so that a busy moment of the machine hits both.
Latency: events of one Python Data Source, the same for both engines, at a steady rate → running count per key → ``foreach``;
an event's latency is the wall-clock time from its creation to the call of the user's ``process`` for the row that contains it.

Spark runs with its RocksDB state store with changelog checkpoints, four files per micro-batch.

Sizes by environment: BENCH_ROWS (5000000), BENCH_KEYS (1000000), BENCH_REPEATS (2), BENCH_QUERIES (q0,q1,q2,q7,running),
BENCH_RATE (20000 events per second), BENCH_LATENCY_S (20; 0 leaves it out), BENCH_JSON (a file for the numbers).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from benchmarks.latency import measure_latency
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.connectors.nexmark.config import NexmarkConfig
from tidegate.connectors.nexmark.generator import NexmarkGenerator

ROWS = int(os.environ.get("BENCH_ROWS", "5000000"))
KEYS = int(os.environ.get("BENCH_KEYS", "1000000"))
REPEATS = int(os.environ.get("BENCH_REPEATS", "2"))
QUERIES = os.environ.get("BENCH_QUERIES", "q0,q1,q2,q7,running").split(",")
RATE = int(os.environ.get("BENCH_RATE", "20000"))
LATENCY_S = int(os.environ.get("BENCH_LATENCY_S", "20"))
FILE_ROWS = 250_000
SCHEMA = "auction long, bidder long, price long, channel string, url string, date_time timestamp, k long"
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Workload:
    """A query and how it is written; ``mode`` and ``format`` are the same for both engines."""

    name: str
    what: str
    mode: str = "append"
    format: str = "noop"

    def build(self, bids: DataFrame) -> DataFrame:
        match self.name:
            case "q0":
                return bids.select("auction", "bidder", "price", "channel", "url", "date_time")
            case "q1":
                price = (F.col("price") * F.lit(0.908)).alias("price")
                return bids.select("auction", "bidder", price, "channel", "url", "date_time")
            case "q2":
                return bids.where("auction % 123 = 0").select("auction", "price")
            case "q7":
                windows = bids.withWatermark("date_time", "1 second").groupBy(
                    F.window("date_time", "10 seconds"), "auction"
                )
                totals = windows.agg(F.count("*").alias("bids"), F.max("price").alias("top"))
                return totals.select(F.col("window.start").alias("start"), "auction", "bids", "top")
            case "running":
                return bids.groupBy("k").agg(F.count("*").alias("bids"), F.sum("price").alias("total"))
        raise ValueError(f"no query {self.name!r}: choose from {', '.join(WORKLOADS)}")


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("q0", "pass-through"),
        Workload("q1", "projection"),
        Workload("q2", "filter"),
        Workload("q7", "10 s windows per auction", format="parquet"),
        Workload("running", f"running aggregate, {KEYS:,} keys", mode="update"),
    )
}


@dataclass
class Result:
    workload: Workload
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"tidegate": [], "spark": []})

    def rate(self, engine: str) -> float:
        """Rows per second: the median of the repeats."""
        return ROWS / statistics.median(self.seconds[engine])

    @property
    def ratio(self) -> float:
        return self.rate("tidegate") / self.rate("spark")


def main() -> int:
    # Spark's Python workers import the source and the writer of latency.py by name.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
    )
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        return run(Path(folder))


def run(folder: Path) -> int:
    say(f"writing {ROWS:,} bids as Parquet …")
    data = write_bids(folder / "bids")
    spark = tidegate.local_session(
        "tidegate-bench",
        cores=2,
        spark__driver__memory="4g",
        spark__sql__streaming__stateStore__providerClass=STATE_STORE,
        spark__sql__streaming__stateStore__rocksdb__changelogCheckpointing__enabled="true",
    )
    warm_up(spark, data, folder)
    results = [measure(spark, WORKLOADS[name], data, folder) for name in QUERIES if name]
    latency = measure_latency(spark, RATE, LATENCY_S, folder) if LATENCY_S else {}
    spark.stop()
    report(results, latency)
    return 0


def write_bids(target: Path) -> Path:
    """Consecutive stretches of the bid stream, one file each, with a key column ``k`` spread evenly over ``KEYS`` values."""
    target.mkdir()
    generator = NexmarkGenerator(NexmarkConfig(table="bid"))
    for number, low in enumerate(range(0, ROWS, FILE_ROWS)):
        rows = np.arange(low, min(low + FILE_ROWS, ROWS), dtype=np.int64)
        scattered = (rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)
        key = pl.Series("k", (scattered % np.uint64(KEYS)).astype(np.int64))
        columns = ("auction", "bidder", "price", "channel", "url", "date_time")
        file = target / f"part-{number:05d}.parquet"
        generator.rows(rows).select(columns).with_columns(key).write_parquet(file, compression="snappy")
        # Spark's file source reads in order of modification time.
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return target


def warm_up(spark: SparkSession, data: Path, folder: Path) -> None:
    """Compilers, code caches and Python workers of both engines are warm before anything is measured."""
    say("warming both engines up …")
    first = folder / "warm"
    first.mkdir()
    (first / "part-00000.parquet").hardlink_to(data / "part-00000.parquet")
    for name in QUERIES:
        for engine in ("tidegate", "spark"):
            run_once(spark, engine, WORKLOADS[name], first, folder)


def measure(spark: SparkSession, workload: Workload, data: Path, folder: Path) -> Result:
    result = Result(workload)
    outputs: dict[str, Path] = {}
    for _ in range(REPEATS):
        for engine in ("tidegate", "spark"):
            seconds, outputs[engine] = run_once(spark, engine, workload, data, folder)
            result.seconds[engine].append(seconds)
            say(f"{workload.name:8} {engine:9} {seconds:6.2f} s  {ROWS / seconds / 1e6:6.2f} M rows/s")
    if workload.format == "parquet":
        check_equal_work(spark, outputs)
    return result


def run_once(spark: SparkSession, engine: str, workload: Workload, data: Path, folder: Path) -> tuple[float, Path]:
    """Seconds from start() to the end of the query, and where its output lies."""
    place = Path(tempfile.mkdtemp(dir=folder, prefix=f"{workload.name}-{engine}-"))
    bids = workload.build(spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 4).parquet(str(data)))
    writer: Any = tidegate.writeStream(bids) if engine == "tidegate" else bids.writeStream
    writer = writer.format(workload.format).outputMode(workload.mode)
    writer = writer.option("checkpointLocation", str(place / "checkpoints")).trigger(availableNow=True)
    if engine == "tidegate":
        writer = writer.trigger(checkpoint="1 second").option("parallelism", 2)
    if workload.format == "parquet":
        writer = writer.option("path", str(place / "output"))
    began_s = time.perf_counter()
    query = writer.start()
    query.awaitTermination()
    return time.perf_counter() - began_s, place / "output"


def check_equal_work(spark: SparkSession, outputs: dict[str, Path]) -> None:
    """Every window Spark closed is in Tidegate's output with the same values (both leave the last ones open)."""
    ours, theirs = (spark.read.parquet(str(outputs[engine])) for engine in ("tidegate", "spark"))
    unequal = theirs.join(ours, ["start", "auction", "bids", "top"], "left_anti").count()
    if unequal:
        sys.exit(f"bench: {unequal} rows of Spark's output are not in Tidegate's: the comparison would be void")
    say(f"         same work: all {theirs.count():,} rows of Spark's output are in Tidegate's")


def report(results: list[Result], latency: dict[str, dict[str, float]]) -> None:
    print(f"\n{'query':34} {'Tidegate':>14} {'Spark':>14} {'ratio':>8}")
    for result in results:
        ours, theirs = (f"{result.rate(engine) / 1e6:.2f} M/s" for engine in ("tidegate", "spark"))
        print(f"{result.workload.name + ': ' + result.workload.what:34} {ours:>14} {theirs:>14} {result.ratio:>7.1f}×")
    for point in ("p50", "p99"):
        if latency:
            ours, theirs = latency["tidegate"][point], latency["spark"][point]
            title = f"latency {point} at {RATE:,} events/s"
            print(f"{title:34} {ours:>11.0f} ms {theirs:>11.0f} ms {theirs / ours:>7.1f}×")
    if "BENCH_JSON" in os.environ:
        numbers = {r.workload.name: {e: r.rate(e) for e in r.seconds} | {"ratio": r.ratio} for r in results}
        Path(os.environ["BENCH_JSON"]).write_text(
            json.dumps({"rows": ROWS, "queries": numbers, "latency_ms": latency}, indent=2)
        )


def say(text: str) -> None:
    print(f"bench: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
