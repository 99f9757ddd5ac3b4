"""The driver process of ``tools/storm.py``: two queries to their end, then the comparison with Spark batch."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from storm_driver import FOLDER, NAME, SILENCE, difference, put, put_result, run_to_end

import tidegate
from tidegate.api import preparing
from tidegate.checkpoint import storing
from tidegate.checkpoint.effects import StoreManifest
from tidegate.checkpoint.plan import without
from tidegate.connectors.files.committer import FileSinkCommitter
from tidegate.connectors.nexmark.datasource import register
from tidegate.spark.session import local_session

RATE = 4_000
SKEWED_ROWS, NAP_S, NAP_EVERY = 100, 1.5, 30
"""Rows of a batch, and the naps of slot 0: how long, and one in how many batches."""


def main() -> int:
    work = json.loads((FOLDER / "work.json").read_text())
    if work["harm"] == "look":
        plan_of = preparing.plan_of
        preparing.plan_of = lambda *args: replace(plan_of(*args), rules=without(1))
    if work["gates"]:
        plant_gates()
    spark = local_session("tidegate-storm", cores=4)
    register(spark)
    queries = start_queries(spark, work)
    failures = run_to_end(queries, int(source(work)["events"]), RATE)
    if NAME == "A":
        put("A-is-done", "; ".join(failure.splitlines()[0] for failure in failures))
        return 0
    if failures:
        print("\n".join(failures), flush=True)
        return 1
    put_result(*compare(spark, work))
    return 0


# --- the queries ----------------------------------------------------------------------------------------------------------


def source(work: dict) -> dict[str, str]:
    return {"table": "bid", "events": str(int(work["seconds"] * RATE)), "eventRate": str(RATE), "seed": "11"}


def windows(bids: DataFrame) -> DataFrame:
    grouped = bids.withWatermark("date_time", "1 second").groupBy(F.window("date_time", "2 seconds"), "auction")
    return grouped.agg(F.count("*").alias("bids"), F.sum("price").alias("total")).select(
        F.col("window.start").alias("start"), "auction", "bids", "total"
    )


def running(bids: DataFrame) -> DataFrame:
    return bids.groupBy((F.col("auction") % 500).alias("k")).agg(
        F.count("*").alias("bids"), F.sum("price").alias("total")
    )


def skewed(bids: DataFrame) -> DataFrame:
    """All slots take equally long, but slot 0 in few long naps: its barriers reach the exchange up to ``NAP_S`` after the others',
    and meanwhile the others go on. The naps also set the pace, in place of the clock: any machine has as much time to kill in."""

    @F.pandas_udf("long")  # pyright: ignore[reportCallIssue]
    def doze(price):
        if TaskContext.get().partitionId() != 0:  # pyright: ignore[reportOptionalMemberAccess]
            time.sleep(NAP_S / NAP_EVERY)
        elif random.random() < 1 / NAP_EVERY:
            time.sleep(NAP_S)
        return price

    return bids.withColumn("price", doze("price"))


class Journal:
    """Every update of the running aggregate as a line of a file per slot process. A line is one write: kill -9 tears none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None

    def process(self, row) -> None:
        if self._file is None:
            self._folder.mkdir(exist_ok=True)
            self._file = os.open(
                self._folder / f"{os.getpid()}-{time.time_ns()}", os.O_CREAT | os.O_APPEND | os.O_WRONLY
            )
        os.write(self._file, f"{row.k} {row.bids} {row.total}\n".encode())


def start_queries(spark: SparkSession, work: dict) -> dict:
    pace = {} if work["skewed"] else {"rate": str(RATE)}
    bids = spark.readStream.format("tidegate-nexmark").options(**source(work), **pace).load()
    bids = skewed(bids) if work["skewed"] else bids

    def writer(name: str, rows: DataFrame):
        writer = tidegate.writeStream(rows).queryName(name).options(**work["storage"])
        writer = writer.option("checkpointLocation", f"{work['location']}/{name}-checkpoints")
        writer = writer.option("atEnd", "drain").option("parallelism", 2)
        writer = (
            writer.option("batchRowsMax", SKEWED_ROWS) if work["skewed"] else writer.option("silenceTimeout", SILENCE)
        )
        if work["harm"] == "at-least-once":
            writer = writer.option("checkpointMode", "at-least-once")
        return writer.trigger(availableNow=True, checkpoint="1 second")

    queries = {"windows": writer("windows", windows(bids)).format("parquet").start(str(FOLDER / "windows-output"))}
    if not work["gates"]:
        updates = writer("running", running(bids)).outputMode("update")
        queries["running"] = updates.foreach(Journal(FOLDER / "running-output")).start()
    return queries


# --- the comparison -------------------------------------------------------------------------------------------------------


def compare(spark: SparkSession, work: dict) -> tuple[int, list[str]]:
    """How many rows Spark batch has, and in words what is wrong with ours."""
    batch = spark.read.format("tidegate-nexmark").options(**source(work)).load()
    rows, problems = compare_windows(spark, batch)
    if not work["gates"]:
        more_rows, more_problems = compare_running(batch)
        rows, problems = rows + more_rows, problems + more_problems
    return rows, problems


def compare_windows(spark: SparkSession, batch: DataFrame) -> tuple[int, list[str]]:
    """Row for row, as often as Spark batch has it."""
    wanted = Counter(map(tuple, windows(batch).collect()))
    columns = ("start", "auction", "bids", "total")
    found = Counter(map(tuple, spark.read.parquet(str(FOLDER / "windows-output")).select(*columns).collect()))
    surplus = sum(row[2] * times for row, times in found.items()) - sum(row[2] * times for row, times in wanted.items())
    problems = [f"windows: {line}" for line in difference(wanted, found)]
    return wanted.total(), [*problems, f"windows: {surplus:+,} bids counted"] if problems else []


def compare_running(batch: DataFrame) -> tuple[int, list[str]]:
    """``foreach`` sees rows again after a restart, as an upsert may; counts only grow, so the highest is the last one."""
    wanted = {row.k: (row.bids, row.total) for row in running(batch).collect()}
    last: dict[int, tuple[int, int]] = {}
    for file in (FOLDER / "running-output").iterdir():
        for line in file.read_text().splitlines():
            k, bids, total = map(int, line.split())
            last[k] = max(last.get(k, (0, 0)), (bids, total))
    wrong = [k for k in wanted.keys() | last.keys() if wanted.get(k) != last.get(k)]
    if not wrong:
        return len(wanted), []
    surplus = sum(bids for bids, _ in last.values()) - sum(bids for bids, _ in wanted.values())
    return len(wanted), [
        f"running aggregate: of {len(wanted):,} keys {len(wrong):,} are wrong; {surplus:+,} bids counted"
    ]


# --- two drivers at once --------------------------------------------------------------------------------------------------


def plant_gates() -> None:
    """Holds A between the last acknowledgement and the manifest, and B between its choice and its sweep."""
    perform, sweep = storing.perform, FileSinkCommitter.sweep

    def gated_perform(plan, effect, store, now_ms):
        if (
            NAME == "A"
            and isinstance(effect, StoreManifest)
            and has_output(effect)
            and not (FOLDER / "A-may-go-on").exists()
        ):
            pass_gate("A-holds-manifest", "A-may-go-on")
        return perform(plan, effect, store, now_ms)

    def gated_sweep(self, older_than, keep):
        if NAME == "B":
            pass_gate("B-holds-sweep", "B-may-go-on")
        return sweep(self, older_than, keep)

    storing.perform, FileSinkCommitter.sweep = gated_perform, gated_sweep


def has_output(effect: StoreManifest) -> bool:
    return effect.manifest.checkpoint >= 3 and any(entry.committables for entry in effect.manifest.operators)


def pass_gate(reached: str, opened: str) -> None:
    put(reached, "")
    while not (FOLDER / opened).exists():
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
