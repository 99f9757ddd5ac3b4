"""All Nexmark queries: at once as one job whose sources are read once, and each alone over a million events, with failures."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.nexmark import QUERIES, NexmarkQuery, RunSettings, run
from tidegate.nexmark.running import compare
from tidegate.nexmark.tables import Events, as_batch, as_stream

pytestmark = pytest.mark.spark
FEW = Events(6_000, seed=3, event_rate=500)
MILLION = Events(1_000_000)


@pytest.mark.timeout(600)
def test_all_queries_as_one_job_equal_their_oracles_though_a_slot_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """T22: bids, auctions and persons are read once, by 23 queries, in one consistent cut."""
    job = tidegate.Job("nexmark", checkpointLocation=str(tmp_path / "checkpoints"), parallelism=2, atEnd="drain")
    job.trigger(availableNow=True, checkpoint="500 milliseconds")
    frames = {}
    for query in QUERIES:
        frames[query.name] = frame = as_stream(spark, query, FEW)
        writer = tidegate.writeStream(frame).queryName(f"all_{query.name}").outputMode(query.mode)
        if query.mode == "update":
            job.add(writer.format("memory"))
        else:
            job.add(
                writer.partitionBy(*query.partition_by).format("parquet").option("path", str(tmp_path / query.name))
            )
    running = job.start()
    (pipeline,) = running.queries
    try:
        scans = pipeline.explain_text().count("  Scan ")
        assert scans == 4, "bids, persons, auctions by their beginning and auctions by their end"
        while not pipeline.wait_ended(0.05):
            now = pipeline.snapshot()
            if now.restarts == 0 and now.history.completed and now.pids:
                os.kill(now.pids[0], signal.SIGKILL)
                break
        running.awaitTermination()
        different = {}
        for query in QUERIES:
            result = (
                last_rows(spark, query)
                if query.mode == "update"
                else spark.read.schema(frames[query.name].schema)
                .parquet(str(tmp_path / query.name))
                .select(*frames[query.name].columns)
            )
            problem, rows = compare(result, as_batch(spark, query, FEW))
            if problem or not rows:
                different[query.name] = problem or "no rows: it would prove nothing"
        assert different == {}
    finally:
        running.stop()


def last_rows(spark: SparkSession, query: NexmarkQuery):
    view = spark.table(f"all_{query.name}")
    newest = F.max_by(F.struct(*view.columns), F.struct(*query.version)).alias("row")
    return view.groupBy(*[F.col(key).alias(f"key {key}") for key in query.keys]).agg(newest).select("row.*")


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("kills", [0, 2])
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_a_query_over_a_million_events_equals_its_oracle(spark: SparkSession, query: NexmarkQuery, kills: int) -> None:
    settings = RunSettings(check=True, kills=kills, checkpoint="300 milliseconds", parallelism=2)
    outcome = run(spark, query, MILLION, settings)
    assert outcome.difference == "" and outcome.rows > 0
    assert outcome.restarts == 0 or kills
