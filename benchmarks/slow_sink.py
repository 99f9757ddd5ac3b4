"""A sink a hundred times slower than its source: do checkpoints still complete, does memory stay flat, is the culprit named?

    python -m benchmarks.slow_sink [--seconds 60] [--only defaults …]

Bids as fast as they can be made → keyed exchange → running count → ``foreach`` that sleeps for every row. First the source runs without a
slow sink, which gives the rate; a row of the sink then takes a hundred times as long. Each setting runs for a minute after warm-up:

* ``defaults``: rows under way are bounded by time (``channelTimeMax``), barriers are aligned;
* ``unaligned``: the same with ``alignedTimeout`` 500 ms;
* ``unaligned only``: rows under way are bounded by credit alone, minutes of work for the sink, so only overtaking gets barriers through;
* ``neither``: no checkpoint gets through, and the query says which subtask it waits for.

Claims, by exit code: in the first three, memory of every process is flat (median of the second half against that of the first, within 5 % and
10 MB) and no checkpoint fails; with unaligned barriers every checkpoint but the first completes in under 5 s; the last one names the sink.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.checkpoint.statistics import CheckpointReport, Outcome
from tidegate.connectors.nexmark.datasource import register

SLOTS = 2
KEYS = 20_000
TIMES_SLOWER = 100
WARM_S = 15
SAMPLE_S = 1.0
UNALIGNED_MAX_MS = 5_000
GROWTH_SHARE_MAX = 0.05
GROWTH_BYTES_MAX = 10 * 2**20
UNALIGNED = {"alignedTimeout": "500 milliseconds"}
BY_CREDIT_ALONE = {"channelTimeMax": "off"}
SETTINGS: dict[str, dict[str, str]] = {
    "defaults": {},
    "unaligned": UNALIGNED,
    "unaligned only": {**UNALIGNED, **BY_CREDIT_ALONE},
    "neither": {**BY_CREDIT_ALONE, "unhealthyAfter": "10 seconds"},
}
NEITHER = "neither"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each setting is watched")
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    arguments = parser.parse_args()
    spark = tidegate.local_session("tidegate-slow-sink", cores=SLOTS, spark__driver__memory="1g")
    rate = source_rate(spark)
    row_s = TIMES_SLOWER * SLOTS / rate
    print(f"the source alone: {rate:,.0f} rows/s; a row of the slow sink: {row_s * 1e6:.0f} µs per slot", flush=True)
    broken: list[str] = []
    for name in arguments.only:
        broken += blamed(spark, name, row_s) if name == NEITHER else watched(spark, name, row_s, arguments.seconds)
    spark.stop()
    print("\n".join(f"NOT HELD: {claim}" for claim in broken) or "all claims held")
    return 1 if broken else 0


# --- queries -----------------------------------------------------------------------------------------------------------


def counts(spark: SparkSession) -> DataFrame:
    """The state stays as it is once every key has come; every batch changes hundreds of groups, each a row for the sink."""
    register(spark)
    bids = spark.readStream.format("tidegate-nexmark").options(table="bid", events=str(10**12), seed="7").load()
    return bids.groupBy((F.col("price") % KEYS).alias("k")).agg(F.count("*").alias("n"))


def sleeping(row_s: float) -> Callable[[Any], None]:
    def slow(row: Any) -> None:  # noqa: ARG001 - foreach hands it over
        """Sleeps, and makes up for what the operating system sleeps too long."""
        until_s = time.perf_counter() + row_s
        time.sleep(row_s / 2)
        while time.perf_counter() < until_s:
            pass

    return slow


def started(frame: DataFrame, folder: str, row_s: float | None, options: dict[str, str]) -> Any:
    writer = tidegate.writeStream(frame).outputMode("update")
    writer = writer.format("noop") if row_s is None else writer.foreach(sleeping(row_s))
    for name, value in {"parallelism": SLOTS, "checkpointLocation": folder, **options}.items():
        writer = writer.option(name, value)
    return writer.trigger(checkpoint="1 second").start()


def source_rate(spark: SparkSession) -> float:
    with tempfile.TemporaryDirectory(prefix="tidegate-slow-sink-") as folder:
        query = started(counts(spark), folder, None, {})
        wait_for(query, lambda: query.snapshot().history.completed >= 2)
        rows, began = rows_read(query), time.monotonic()
        time.sleep(5)  # The interval of the measurement.
        rate = (rows_read(query) - rows) / (time.monotonic() - began)
        query.stop()
    return rate


def rows_read(query: Any) -> int:
    return sum(progress.metrics[0].rows_out for progress in query.snapshot().slots.values())


def wait_for(query: Any, condition: Callable[[], bool], patience_s: float = 60.0) -> bool:
    """False: it did not come in time."""
    give_up = time.monotonic() + patience_s
    while not condition():
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        if time.monotonic() > give_up:
            return False
        time.sleep(0.1)
    return True


# --- claims ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that only this process holds, once a second."""

    who: str
    sizes: list[int]

    @property
    def halves(self) -> tuple[float, float]:
        middle = len(self.sizes) // 2
        return statistics.median(self.sizes[:middle]), statistics.median(self.sizes[middle:])

    @property
    def flat(self) -> bool:
        first, second = self.halves
        return second - first <= GROWTH_SHARE_MAX * first + GROWTH_BYTES_MAX

    def __str__(self) -> str:
        first, second = (half / 2**20 for half in self.halves)
        peak = max(self.sizes) / 2**20
        return f"{self.who}: {first:.0f} → {second:.0f} MB ({second - first:+.1f}), at most {peak:.0f} MB"


def watched(spark: SparkSession, name: str, row_s: float, seconds: float) -> Iterator[str]:
    """Runs one setting and prints what was seen. Yields the claims that did not hold."""
    with tempfile.TemporaryDirectory(prefix="tidegate-slow-sink-") as folder:
        query = started(counts(spark), folder, row_s, SETTINGS[name])
        wait_for(query, lambda: bool(query.snapshot().slots))
        time.sleep(WARM_S)
        memories, sunk = memory_over(query, seconds)
        history, status = query.snapshot().history, query.status
        query.stop()
    done = [one for one in history.reports if one.outcome in (Outcome.COMPLETED, Outcome.COMMITTED)]
    print(f"\n{name}: {SETTINGS[name] or 'no options'}; the sink took {sunk / seconds:,.0f} rows/s")
    print(f"  checkpoints: {described(done)}; failed: {history.failed}")
    for one in history.reports:
        if one.outcome is Outcome.FAILED:
            print(f"  {one}")
    for memory in memories:
        print(f"  {memory}")
    print(f"  health: {status['health']}{': ' if status['reason'] else ''}{status['reason']}", flush=True)
    if history.failed or len(done) < 2:
        yield f"{name}: {history.failed} checkpoints failed, {len(done)} completed"
    late = [one for one in done[1:] if one.duration_ms >= UNALIGNED_MAX_MS]
    if name.startswith("unaligned") and late:
        yield f"{name}: {len(late)} of {len(done)} checkpoints took {UNALIGNED_MAX_MS} ms or longer"
    yield from (f"{name}: memory of {memory}" for memory in memories if not memory.flat)


def blamed(spark: SparkSession, name: str, row_s: float) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="tidegate-slow-sink-") as folder:
        query = started(counts(spark), folder, row_s, SETTINGS[name])
        unhealthy = wait_for(query, lambda: query.status["health"] == "unhealthy")
        status = query.status
        query.stop()
    print(f"\n{name}: {SETTINGS[name]}\n  health: {status['health']}: {status['reason']}", flush=True)
    if not unhealthy or "subtask 2/" not in status["reason"] or "sink" not in status["reason"]:
        yield f"{name}: the reason names no subtask of the sink: {status}"


def described(done: list[CheckpointReport]) -> str:
    if not done:
        return "none"
    took_ms = [one.duration_ms for one in done[1:] or done]
    overtook = sum(one.unaligned for one in done)
    in_flight = max(one.in_flight_bytes for one in done)
    return (
        f"{len(done)} in view, median {statistics.median(took_ms):.0f} ms, max {max(took_ms)} ms, the first {done[0].duration_ms} ms; "
        f"{overtook} overtook rows, {in_flight / 2**20:.1f} MB at most"
    )


def memory_over(query: Any, seconds: float) -> tuple[list[Memory], int]:
    """Every process that works for the query, all idle ones together, and how many rows its sink took meanwhile."""
    own = psutil.Process()
    slots = query.snapshot().pids
    family = {f"slot {slot}": psutil.Process(pid) for slot, pid in sorted(slots.items())}
    family["driver"] = own
    idle: list[psutil.Process] = []
    for child in own.children(recursive=True):
        if child.name() == "java":
            family["Spark's JVM"] = child
        elif child.pid not in slots.values():
            idle.append(child)
    memories = {who: Memory(who, []) for who in family}
    workers = Memory("idle workers of PySpark, together", [])
    before = rows_sunk(query)
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        for who, process in family.items():
            memories[who].sizes.append(process.memory_full_info().uss)
        workers.sizes.append(sum(map(share_of, idle)))
        time.sleep(SAMPLE_S)
    return [*memories.values(), workers], rows_sunk(query) - before


def share_of(worker: psutil.Process) -> int:
    """With its share of the pages it has in common with others: those of a fork that ended fall to the ones that live on."""
    try:
        return int(worker.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0


def rows_sunk(query: Any) -> int:
    return sum(progress.metrics[-1].rows_in for progress in query.snapshot().slots.values())


if __name__ == "__main__":
    sys.exit(main())
