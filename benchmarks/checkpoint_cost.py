"""What a checkpoint every second costs: CPU-seconds per million rows, with and without, as a ratio.

    python -m benchmarks.checkpoint_cost

A running aggregate over a million keys reads Parquet files to their end, once with an interval of one second and once with none but the final
checkpoint, in turn. Counted is the CPU time of all processes: driver, JVM, Python workers. Printed are the ratio of each pair, their
median, and the interval that holds the middle half of them.

Sizes by environment: COST_ROWS (20000000), COST_KEYS (1000000), COST_PAIRS (7).
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

COST_ROWS = int(os.environ.get("COST_ROWS", "20000000"))
COST_PAIRS = int(os.environ.get("COST_PAIRS", "7"))
FILE_SET_ROWS = min(COST_ROWS, 5_000_000)
# The bench module reads its sizes when it is imported.
os.environ["BENCH_ROWS"] = str(FILE_SET_ROWS)
os.environ["BENCH_KEYS"] = os.environ.get("COST_KEYS", "1000000")

import psutil  # noqa: E402
from benchmarks.bench import SCHEMA, WORKLOADS, write_bids  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

import tidegate  # noqa: E402


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="tidegate-cost-") as folder:
        data = write_bids(Path(folder) / "bids")
        repeat_files(data, COST_ROWS // FILE_SET_ROWS)
        spark = tidegate.local_session("tidegate-cost", cores=2, spark__driver__memory="2g")
        cpu_seconds(spark, data, Path(folder), "1 second")  # Compilers and workers are warm before anything counts.
        ratios = []
        for pair in range(COST_PAIRS):
            order = ("1 second", "1 hour") if pair % 2 else ("1 hour", "1 second")
            spent = {interval: cpu_seconds(spark, data, Path(folder), interval) for interval in order}
            ratios.append(spent["1 second"] / spent["1 hour"])
            per_million = {interval: s / (COST_ROWS / 1e6) for interval, s in spent.items()}
            print(
                f"pair {pair + 1}: {per_million['1 hour']:.3f} CPU-s per million rows without, "
                f"{per_million['1 second']:.3f} with: {ratios[-1] - 1:+.1%}",
                flush=True,
            )
        spark.stop()
    low, _, high = statistics.quantiles(ratios, n=4)
    median = statistics.median(ratios)
    print(
        f"a checkpoint every second costs {median - 1:+.1%} CPU (middle half of the pairs: {low - 1:+.1%} … {high - 1:+.1%})"
    )
    return 0 if median <= 1.10 else 1


def repeat_files(data: Path, times: int) -> None:
    for number, file in enumerate(sorted(data.iterdir())):
        for copy in range(1, times):
            again = data / f"part-{copy:02d}-{number:05d}.parquet"
            again.hardlink_to(file)


def cpu_seconds(spark: SparkSession, data: Path, folder: Path, interval: str) -> float:
    place = Path(tempfile.mkdtemp(dir=folder))
    running = WORKLOADS["running"].build(spark.readStream.schema(SCHEMA).parquet(str(data)))
    before = total_cpu_seconds()
    query = (
        tidegate.writeStream(running)
        .format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(place))
        .option("parallelism", 2)
        .option("progress", "off")
        .trigger(availableNow=True, checkpoint=interval)
        .start()
    )
    query.awaitTermination()
    return total_cpu_seconds() - before


def total_cpu_seconds() -> float:
    """Of this process and everything under it. Workers are reused, so none takes its share with it when a query ends."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    times = [one.cpu_times() for one in family]
    return sum(one.user + one.system for one in times)


if __name__ == "__main__":
    sys.exit(main())
