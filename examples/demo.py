"""`make demo`: a real query on real Spark, killed twice in front of you, and its result compared with Spark batch.

Auction bids (Nexmark) arrive at a steady pace; the query keeps the highest bid and the number of bids per auction and two-second
window and writes them to Parquet. Twice, the Python process of a slot is ended with kill -9. At the end Spark computes the same
query as a batch over the same bids, and the two results are compared row by row.

Sizes for the impatient: DEMO_SECONDS (25), DEMO_RATE (40000 events per second), DEMO_KILLS (2).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.connectors.nexmark.datasource import register
from tidegate.spark.session import local_session, spark_log_path

SECONDS = int(os.environ.get("DEMO_SECONDS", "25"))
RATE = int(os.environ.get("DEMO_RATE", "40000"))
KILLS = int(os.environ.get("DEMO_KILLS", "2"))
RECOVERY_LIMIT_S = 60.0


def top_bids(bids: DataFrame) -> DataFrame:
    """The query: plain PySpark, the same function for the stream and for the batch."""
    windows = bids.withWatermark("date_time", "1 second").groupBy(F.window("date_time", "2 seconds"), "auction")
    return windows.agg(F.count("*").alias("bids"), F.max("price").alias("top")).select(
        F.col("window.start").alias("start"), "auction", "bids", "top"
    )


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="tidegate-demo-"))
    say("starting Spark …")
    spark = local_session("tidegate-demo")
    register(spark)
    warm_up(spark)
    source = {"table": "bid", "events": str(SECONDS * RATE), "eventRate": str(RATE), "seed": "7"}
    bids = spark.readStream.format("tidegate-nexmark").options(**source, rate=str(RATE)).load()
    query = (
        tidegate.writeStream(top_bids(bids))
        .format("parquet")
        .outputMode("append")
        .queryName("top bids")
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("atEnd", "drain")
        .option("progress", "live")
        .trigger(availableNow=True, checkpoint="1 second")
        .start(str(folder / "output"))
    )
    say(f"{SECONDS * RATE:,} events at {RATE:,} per second → windows → Parquet, a checkpoint every second")
    kills = kill_workers(query)
    query.awaitTermination()
    say("the stream has ended; Spark now computes the same query as a batch over the same bids …")
    same, text = compare(
        spark, spark.read.format("tidegate-nexmark").options(**source).load(), folder / "output", kills
    )
    if same:
        shutil.rmtree(folder)
    else:
        say(f"output and checkpoints are kept in {folder}, Spark's log in {spark_log_path()}")
    spark.stop()
    print(text, flush=True)
    return 0 if same else 1


def warm_up(spark: SparkSession) -> None:
    """Starts the Python workers once: the pace of the bids begins with the query, and its first seconds should show them."""
    slots = spark.sparkContext.defaultParallelism
    spark.range(0, slots, 1, slots).mapInArrow(lambda batches: batches, "id long").collect()


def kill_workers(query: tidegate.StreamingQuery) -> int:
    """Ends ``KILLS`` slots with kill -9, evenly spread over the run, and shows each recovery. Returns how many."""
    chance = random.Random()
    started_s = time.monotonic()
    for number in range(1, KILLS + 1):
        due_s = started_s + SECONDS * number / (KILLS + 1)
        if not wait_until(query, lambda due_s=due_s: time.monotonic() >= due_s and running(query), SECONDS + 30.0):
            return number - 1
        slot, pid = chance.choice(sorted(query.snapshot().pids.items()))
        attempt, killed_s = query.snapshot().attempt, time.monotonic()
        say(f"kill -9 {pid}: the Python worker of slot {slot}")
        os.kill(pid, signal.SIGKILL)
        recovered = wait_until(query, lambda attempt=attempt: checkpoint_after(query, attempt), RECOVERY_LIMIT_S)
        if recovered:
            say(
                f"recovered, next checkpoint complete {time.monotonic() - killed_s:.1f} s after the kill; {query.recoveries[-1]}"
            )
        elif query.isActive:
            say(f"no checkpoint within {RECOVERY_LIMIT_S:.0f} s of the kill")
    return KILLS


def running(query: tidegate.StreamingQuery) -> bool:
    """All slots run and a checkpoint of this query is complete."""
    now = query.snapshot()
    return now.phase == "running" and now.history.completed > 0 and bool(now.pids)


def checkpoint_after(query: tidegate.StreamingQuery, attempt: int) -> bool:
    """A later attempt has completed a checkpoint: the query has recovered and makes progress."""
    last = query.snapshot().history.last_completed()
    return last is not None and last.attempt > attempt


def wait_until(query: tidegate.StreamingQuery, holds, limit_s: float) -> bool:
    deadline_s = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline_s or query.wait_ended(0.05):
            return False
    return True


def compare(spark: SparkSession, bids: DataFrame, output: Path, kills: int) -> tuple[bool, str]:
    expected = Counter(map(tuple, top_bids(bids).collect()))
    actual = Counter(map(tuple, spark.read.parquet(str(output)).select("start", "auction", "bids", "top").collect()))
    if expected == actual and expected and (kills or not KILLS):
        return True, f"OK: {actual.total()} rows equal Spark batch's after {kills} kills (exactly once)"
    for title, rows in (("missing", expected - actual), ("too many or wrong", actual - expected)):
        for row in list(rows.elements())[:5]:
            say(f"{title}: {row}")
    return False, (
        f"FAILED: {(expected - actual).total()} rows missing, {(actual - expected).total()} rows too many or wrong "
        f"of {expected.total()}, after {kills} of {KILLS} kills"
    )


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
