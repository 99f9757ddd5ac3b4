#!/usr/bin/env python3
"""`make eventtime`: which rows are late, on real Spark beside Structured Streaming, many times. And how soon a window is visible.

Every scenario of tests/integration/event_time with other rows in each run, on Tidegate with 1, 2 and 4 slots. Prints a line per
scenario: whether every row was there that Structured Streaming gave, when it gave it, none that batch lacks, and whether late rows reported
are rows missing.

    python tools/event_time.py [--runs 10] [--first 0] [--scenario TEXT] [--parallelism 1,2,4]
    python tools/event_time.py --latency [--runs 20]

--latency: files come one by one into a quiet directory, checkpoints every 200 ms: the time from a file's arrival until the windows that it
closes are visible in the sink. The arrival is up to ``discoveryInterval`` before the file is found.

Exit code 1: a row was late that must not be, or the median latency is over a second.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

from tests.integration.event_time.engines import run_on_tidegate  # noqa: E402
from tests.integration.event_time.scenarios import SCENARIOS, scenario  # noqa: E402
from tests.integration.event_time.verdict import oracle  # noqa: E402
from tests.jvm import prefer_short_lives  # noqa: E402

import tidegate  # noqa: E402
from tidegate.spark.session import local_session  # noqa: E402

LATENCY_MAX_S = 1.0
FILE_S = 20
"""Of event time in a file: each closes the windows of the one before."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first run")
    parser.add_argument("--scenario", default="", help="only those whose name holds this text")
    parser.add_argument("--parallelism", default="1,2,4")
    parser.add_argument("--latency", action="store_true")
    options = parser.parse_args()
    if options.latency:
        return measure_latency(options.runs or 20)
    prefer_short_lives()
    slots = [int(one) for one in options.parallelism.split(",")]
    names = [name for name in SCENARIOS if options.scenario in name]
    return judge(names, range(options.first, options.first + (options.runs or 10)), slots)


def judge(names: list[str], seeds: range, slots: list[int]) -> int:
    spark = local_session("tidegate-event-time", cores=max(slots))
    began_s, bad = time.monotonic(), 0
    totals: Counter[str] = Counter()
    print(f"{'scenario':50} {'runs':>5} {'wrong':>6} {'rows':>8} {'late: Spark':>12} {'Tidegate':>9}", flush=True)
    for name in names:
        counts: Counter[str] = Counter()
        for seed in seeds:
            counts += judge_once(spark, name, seed, slots)
        totals += counts
        bad += counts["wrong"] > 0
        print(table_line(name, counts), flush=True)
    print(table_line("all", totals))
    print(f"{time.monotonic() - began_s:.0f} seconds; {bad} of {len(names)} scenarios with a wrong run")
    return 1 if totals["wrong"] else 0


def judge_once(spark: SparkSession, name: str, seed: int, slots: list[int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    made = scenario(name, seed)
    with tempfile.TemporaryDirectory(prefix="tidegate-event-time-") as folder:
        asked = oracle(spark, made, Path(folder))
        for parallelism in slots:
            run = run_on_tidegate(spark, made, Path(folder) / f"slots-{parallelism}", parallelism)
            problems = asked.problems(run)
            counts += Counter(
                runs=1,
                wrong=bool(problems),
                rows=run.moments[-1].total(),
                spark=asked.dropped_by_spark,
                tidegate=run.late,
            )
            for problem in problems:
                print(f"  {name}, seed {seed}, {parallelism} slots: {problem}", flush=True)
    return counts


def table_line(name: str, counts: Counter[str]) -> str:
    numbers = f"{counts['rows']:>8,} {counts['spark']:>12,} {counts['tidegate']:>9,}"
    return f"{name:50} {counts['runs']:>5} {counts['wrong']:>6} {numbers}"


# --- how soon --------------------------------------------------------------------------------------------------------


def measure_latency(runs: int) -> int:
    spark = local_session("tidegate-event-time", cores=2)
    with tempfile.TemporaryDirectory(prefix="tidegate-event-time-") as folder:
        ages_ms = [1_000 * age_s for age_s in window_ages(spark, Path(folder), runs)]
    median = statistics.median(ages_ms)
    print(f"windows visible after: {', '.join(f'{age:.0f}' for age in ages_ms)} ms")
    print(f"median of {len(ages_ms)}: {median:.0f} ms, most {max(ages_ms):.0f} ms")
    return 1 if median > LATENCY_MAX_S * 1_000 else 0


def window_ages(spark: SparkSession, folder: Path, runs: int) -> list[float]:
    source, output = folder / "in", folder / "out"
    source.mkdir()
    add_file(source, 0)
    rows = spark.readStream.schema("ts timestamp, id bigint").parquet(str(source)).withWatermark("ts", "5 seconds")
    counts = rows.groupBy(F.window("ts", "10 seconds")).count().select("window.end", "count")
    writer = tidegate.writeStream(counts).format("parquet").option("checkpointLocation", str(folder / "checkpoints"))
    query = writer.option("parallelism", 2).trigger(checkpoint="200 milliseconds").start(str(output))
    ages: list[float] = []
    try:
        query.processAllAvailable()
        for number in range(1, runs + 1):
            # A quiet directory, and another moment between two looks and two checkpoints each time.
            query.awaitTermination(random.uniform(1.0, 2.0))
            began_s = add_file(source, number)
            while not window_is_out(output, number):
                if query.awaitTermination(0.01):
                    raise RuntimeError("the query ended")
            ages.append(time.monotonic() - began_s)
    finally:
        query.stop()
    return ages


def add_file(source: Path, number: int) -> float:
    """One more stretch of event time, its rows in no order. Returns when it was moved in."""
    at_ms = pl.int_range(number * FILE_S * 1_000, (number + 1) * FILE_S * 1_000, 10, eager=True).shuffle(seed=number)
    rows = pl.DataFrame({"ts": (at_ms * 1_000).cast(pl.Datetime("us")).dt.replace_time_zone("UTC"), "id": at_ms})
    rows.write_parquet(source / f".{number:03}.tmp")
    (source / f".{number:03}.tmp").rename(source / f"{number:03}.parquet")
    return time.monotonic()


def window_is_out(output: Path, number: int) -> bool:
    """Of the windows that file ``number`` closes, the last: the first half of its own rows."""
    files = [str(file) for file in output.glob("*.parquet")]
    if not files:
        return False
    newest = pl.read_parquet(files).get_column("end").dt.epoch("s").max()
    return newest is not None and int(newest) >= number * FILE_S + FILE_S // 2  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    sys.exit(main())
