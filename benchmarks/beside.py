"""This tree beside another checkout of the project (the commit before, say): the same work in turns, as ratios.

    git clone . /elsewhere && git -C /elsewhere checkout COMMIT && make -C /elsewhere setup
    python -m benchmarks.beside /elsewhere [--work bench|kafka|latency] [--rounds 5] [--rows N]

bench: the throughput queries of ``benchmarks.bench``; kafka: the exactly-once copy of ``benchmarks.kafka_to_kafka``; latency: the running
count of ``benchmarks.bench`` at a steady rate. Only Tidegate runs. Data, broker and work are this tree's for both, the engine is each
checkout's own: every measurement is a process of its own with the Python of its checkout, warmed up by a smaller run. The order is turned
around in every round, so that a machine that slows down or speeds up hits both alike.

Prints per query the median of both, the ratio of each round (below 1: this tree is slower) and their median.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KAFKA_WARM_ROWS = 1_000_000
RATES = (2_000, 20_000)

Measure = Callable[[str], dict[str, float]]
"""Runs the work once on ``this`` or ``other``. Numbers by name, more is better."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("other", type=Path, help="another checkout, set up")
    parser.add_argument("--work", choices=("bench", "kafka", "latency"), default="bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="5,000,000 for bench, 6,000,000 for kafka")
    options = parser.parse_args()
    trees = {"this": ROOT, "other": options.other.resolve()}
    for tree in trees.values():
        if not _python(tree).exists():
            parser.error(f"{tree} is not set up: run make setup there")
    with tempfile.TemporaryDirectory(prefix="tidegate-beside-") as folder:
        work = {"bench": _bench, "kafka": _kafka, "latency": _latency}[options.work]
        with work(trees, Path(folder), options.rows) as measure:
            _report(_rounds(measure, options.rounds))
    return 0


def _rounds(measure: Measure, rounds: int) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: {"this": [], "other": []})
    for number in range(rounds):
        for side in ("this", "other") if number % 2 else ("other", "this"):
            for name, value in measure(side).items():
                found[name][side].append(value)
                print(f"beside: round {number + 1} {side:5} {name:24} {value:,.4g}", flush=True)
    return found


def _report(found: dict[str, dict[str, list[float]]]) -> None:
    print(f"\n{'work':28} {'this':>12} {'other':>12} {'this : other, median (rounds)'}")
    for name, sides in found.items():
        ratios = [this / other for this, other in zip(sides["this"], sides["other"], strict=True)]
        this, other = (f"{statistics.median(sides[side]):,.4g}" for side in ("this", "other"))
        rounds = ", ".join(f"{one:.2f}" for one in ratios)
        print(f"{name:28} {this:>12} {other:>12} {statistics.median(ratios):.3f} ({rounds})", flush=True)


def _python(tree: Path) -> Path:
    return tree / ".venv" / "bin" / "python"


def _run(tree: Path, work: str, **told: Any) -> dict[str, float]:
    """``work`` of this file, in a process with the engine of ``tree``."""
    command = [str(_python(tree)), "-c", f"from benchmarks import beside; beside.{work}()", json.dumps(told)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tree / 'src'}"}
    done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"beside: {work} failed in {tree} with exit code {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


# --- queries over files -----------------------------------------------------------------------------------------------


@contextmanager
def _bench(trees: dict[str, Path], folder: Path, rows: int | None) -> Iterator[Measure]:
    from benchmarks import bench

    bench.ROWS = rows or bench.ROWS
    data = bench.write_bids(folder / "bids")
    yield lambda side: {
        name: bench.ROWS / seconds for name, seconds in _run(trees[side], "bench_queries", data=str(data)).items()
    }


def bench_queries() -> None:
    from benchmarks import bench

    import tidegate

    data = Path(json.loads(sys.argv[1])["data"])
    with tempfile.TemporaryDirectory(prefix="tidegate-beside-") as folder:
        place = Path(folder)
        (place / "warm").mkdir()
        (place / "warm" / "part-00000.parquet").symlink_to(data / "part-00000.parquet")
        spark = tidegate.local_session("tidegate-beside", cores=2, spark__driver__memory="2g")
        for workload in bench.WORKLOADS.values():
            bench.run_once(spark, "tidegate", workload, place / "warm", place)
        seconds = {
            name: statistics.median(bench.run_once(spark, "tidegate", workload, data, place)[0] for _ in range(3))
            for name, workload in bench.WORKLOADS.items()
        }
        spark.stop()
    print(json.dumps(seconds))


# --- Kafka → Kafka ----------------------------------------------------------------------------------------------------


@contextmanager
def _kafka(trees: dict[str, Path], folder: Path, rows: int | None) -> Iterator[Measure]:
    from benchmarks.kafka_load import fill, summary
    from benchmarks.kafka_to_kafka import PARTITIONS
    from tests.servers.kafka import kafka_broker

    rows = rows or 6_000_000
    with kafka_broker(folder / "broker", heap="512m", java=()) as broker:
        small, large = (broker.topic(partitions=PARTITIONS) for _ in range(2))
        fill(broker.bootstrap, small, KAFKA_WARM_ROWS, PARTITIONS)
        fill(broker.bootstrap, large, rows, PARTITIONS)
        expected = summary(broker.bootstrap, large, PARTITIONS, rows)

        def measure(side: str) -> dict[str, float]:
            warm, target = (broker.topic(partitions=PARTITIONS) for _ in range(2))
            copies = [[small, warm], [large, target]]
            seconds = _run(trees[side], "kafka_copies", bootstrap=broker.bootstrap, copies=copies)
            if summary(broker.bootstrap, target, PARTITIONS, rows) != expected:
                sys.exit(f"beside: the output of {side} is not the input")
            for gone in broker.admin.delete_topics([warm, target]).values():
                gone.result(60)
            return {"kafka → kafka, rows/s": rows / seconds[target]}

        yield measure


def kafka_copies() -> None:
    from tests.servers.jars import jars

    import tidegate

    told = json.loads(sys.argv[1])
    pom = ROOT / "tests" / "servers" / "spark-kafka-pom.xml"
    packages = ",".join(str(jar) for jar in sorted(jars("spark-kafka-4.2.0", pom).glob("*.jar")))
    spark = tidegate.local_session("tidegate-beside", cores=2, spark__driver__memory="2g", spark__jars=packages)
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-beside-") as folder:
        for source, target in told["copies"]:
            servers = {"kafka.bootstrap.servers": told["bootstrap"]}
            reader = spark.readStream.format("kafka").options(**servers, subscribe=source, startingOffsets="earliest")
            writer: Any = tidegate.writeStream(reader.load().select("key", "value")).format("kafka")
            writer = writer.options(**servers, topic=target).option("checkpointLocation", f"{folder}/{target}")
            seconds[target] = _seconds(
                writer.option("parallelism", 2).trigger(availableNow=True, checkpoint="1 second")
            )
        spark.stop()
    print(json.dumps(seconds))


def _seconds(writer: Any) -> float:
    began_s = time.perf_counter()
    writer.start().awaitTermination()
    return time.perf_counter() - began_s


# --- a steady rate ----------------------------------------------------------------------------------------------------


@contextmanager
def _latency(trees: dict[str, Path], _folder: Path, _rows: int | None) -> Iterator[Measure]:
    yield lambda side: _run(trees[side], "steady_rates")


def steady_rates() -> None:
    """One over the milliseconds, since more has to be better."""
    from benchmarks import latency

    import tidegate

    spark = tidegate.local_session("tidegate-beside", cores=2, spark__driver__memory="2g")
    spark.dataSource.register(latency.PacedSource)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-beside-") as folder:
        for rate in RATES:
            aged = latency._measure(spark, "tidegate", rate, 15, Path(folder) / str(rate))
            found |= {f"1/ms at {rate:,} rows/s, {point}": 1 / aged[point] for point in ("p50", "p99")}
        spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
