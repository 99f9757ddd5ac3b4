"""All Nexmark queries: at once as jobs that read what they share once, and each alone over a million events, with failures."""

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


JOINS = ("q4", "q6", "q9", "q20")
GROUPS = {
    "bids": (tuple(query.name for query in QUERIES if query.name not in (*JOINS, "q3", "q8")), 1),
    "joins": (JOINS, 3),
    "q3": (("q3",), 2),
    "q8": (("q8",), 2),
}
"""Queries that filter alike before event time counts, and how many sources they read together: bids; bids, auctions by their beginning
and auctions by their end; persons and auctions."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", GROUPS)
def test_queries_as_one_job_equal_their_oracles_though_a_slot_is_killed(
    spark: SparkSession, tmp_path: Path, group: str
) -> None:
    """T22: what the queries share is read once, in one consistent cut."""
    names, sources = GROUPS[group]
    queries = [query for query in QUERIES if query.name in names]
    job = tidegate.Job("nexmark", checkpointLocation=str(tmp_path / "checkpoints"), parallelism=2, atEnd="drain")
    job.trigger(availableNow=True, checkpoint="500 milliseconds")
    frames = {}
    for query in queries:
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
        assert scans == sources
        while not pipeline.wait_ended(0.05):
            now = pipeline.snapshot()
            if now.restarts == 0 and now.history.completed and now.pids:
                os.kill(now.pids[0], signal.SIGKILL)
                break
        running.awaitTermination()
        different = {}
        for query in queries:
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
