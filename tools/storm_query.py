"""The driver process of ``tools/storm.py``: two queries to their end, then the comparison with Spark batch."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.api import launch
from tidegate.checkpoint import plan as rules
from tidegate.checkpoint import storing
from tidegate.checkpoint.effects import StoreManifest
from tidegate.connectors.files.sink import FileSinkCommitter
from tidegate.connectors.nexmark.datasource import register
from tidegate.spark.session import local_session

FOLDER = Path(os.environ["STORM_FOLDER"])
NAME = os.environ["STORM_NAME"]
RATE = 4_000


def main() -> int:
    work = json.loads((FOLDER / "work.json").read_text())
    if work["harm"] == "look":
        plan_of = launch.plan_of
        launch.plan_of = lambda *args, **kw: rules.replace(plan_of(*args, **kw), rules=rules.without(1))
    if work.get("gates"):
        plant_gates()
    spark = local_session("tidegate-storm", cores=4)
    register(spark)
    queries = start_queries(spark, work)
    while any(query.isActive for query in queries):
        note_pids([pid for query in queries if query.isActive for pid in query.snapshot().pids.values()])
        queries[0].wait_ended(0.1) if queries[0].isActive else queries[-1].wait_ended(0.1)
    note_pids([])
    failures = [str(failure) for query in queries if (failure := query.exception()) is not None]
    if NAME == "A":
        (FOLDER / "A-is-done").touch()
        return 0
    if failures:
        print("\n".join(failures), flush=True)
        return 1
    rows, problems = compare(spark, work)
    (FOLDER / "result.new").write_text(json.dumps({"rows": rows, "problems": problems}))
    (FOLDER / "result.new").rename(FOLDER / "result.json")
    return 0


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


def slowed(bids: DataFrame) -> DataFrame:
    """Half of the rows go through a function that is slow: barriers reach the exchange at very different moments."""

    @F.pandas_udf("long")
    def crawl(price):
        time.sleep(0.25)
        return price

    slow = bids.where("bidder % 2 = 0").withColumn("price", crawl("price"))
    return bids.where("bidder % 2 = 1").union(slow)


def start_queries(spark: SparkSession, work: dict) -> list:
    def stream() -> DataFrame:
        bids = spark.readStream.format("tidegate-nexmark").options(**source(work), rate=str(RATE)).load()
        return slowed(bids) if work["harm"] in ("at-least-once", "alignment") else bids

    def begin(name: str, rows: DataFrame, mode: str):
        writer = tidegate.writeStream(rows).format("parquet").outputMode(mode).queryName(name)
        writer = writer.option("checkpointLocation", str(FOLDER / f"{name}-checkpoints")).option("atEnd", "drain")
        if work["harm"] == "at-least-once":
            writer = writer.option("checkpointMode", "at-least-once")
        writer = writer.option("parallelism", 2).trigger(availableNow=True, checkpoint="1 second")
        return writer.start(str(FOLDER / f"{name}-output"))

    queries = [begin("running", running(stream()), "update")]
    if not work.get("gates"):
        queries.append(begin("windows", windows(stream()), "append"))
    return queries


def note_pids(pids: list[int]) -> None:
    (FOLDER / f"pids.{NAME}").write_text(json.dumps(pids))
    (FOLDER / f"pids.{NAME}").rename(FOLDER / "pids.json")


def compare(spark: SparkSession, work: dict) -> tuple[int, list[str]]:
    batch = spark.read.format("tidegate-nexmark").options(**source(work)).load()
    problems: list[str] = []
    expected = {tuple(row) for row in running(batch).collect()}
    found = [
        tuple(row) for row in spark.read.parquet(str(FOLDER / "running-output")).select("k", "bids", "total").collect()
    ]
    repeated = len(found) - len({(k, bids) for k, bids, _ in found})
    if repeated:
        problems.append(f"running aggregate: {repeated} rows repeat an earlier count of their key")
    last = {k: (k, bids, total) for k, bids, total in sorted(found)}
    wrong = len(expected.symmetric_difference(last.values()))
    if wrong:
        problems.append(f"running aggregate: {wrong} final rows differ from Spark batch's")
    rows = len(expected)
    if (FOLDER / "windows-output").exists():
        wanted = Counter(map(tuple, windows(batch).collect()))
        columns = ("start", "auction", "bids", "total")
        got = Counter(map(tuple, spark.read.parquet(str(FOLDER / "windows-output")).select(*columns).collect()))
        if wanted != got:
            problems.append(f"windows: {(wanted - got).total()} rows missing, {(got - wanted).total()} too many")
        rows += wanted.total()
    return rows, problems


def plant_gates() -> None:
    """Holds A between the last acknowledgement and the manifest, and B between its choice and its sweep."""
    perform, sweep = storing.perform, FileSinkCommitter.sweep

    def gated_perform(plan, effect, store, now_ms):
        if NAME == "A" and isinstance(effect, StoreManifest) and effect.manifest.checkpoint >= 4:
            pass_gate("A-holds-manifest", "A-may-go-on")
        return perform(plan, effect, store, now_ms)

    def gated_sweep(self, older_than, keep):
        if NAME == "B":
            pass_gate("B-holds-sweep", "B-may-go-on")
        return sweep(self, older_than, keep)

    storing.perform, FileSinkCommitter.sweep = gated_perform, gated_sweep


def pass_gate(reached: str, opened: str) -> None:
    (FOLDER / reached).touch()
    while not (FOLDER / opened).exists():
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
