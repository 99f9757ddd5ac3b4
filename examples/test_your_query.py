"""Your own query under failure, in one thread and in any order of events. Run it: .venv/bin/python examples/test_your_query.py

The plan of a real PySpark query runs on rows the test wrote down: every slot's real loop, real barriers, real state. The run is
abandoned in the middle, as kill -9 would, and restored with another number of slots; the result must not change. One seed is one
order of events, so a failure can be replayed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
from pyspark.sql import functions as F

import tidegate
from tidegate.catalyst.translate import SinkRequest, translate
from tidegate.model.config import QueryConfig
from tidegate.model.output_mode import OutputMode
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Sink
from tidegate.plan.stages import build_graph
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource, ScriptedSplit
from tidegate.testing.slots import SlotHarness

START = datetime(2024, 1, 1, tzinfo=UTC)
ROWS = 600


def plan_of_the_query() -> Sink:
    """The query is plain PySpark; its source is never opened, only its schema counts."""
    spark = tidegate.local_session("test your query", cores=1)
    trips = spark.readStream.format("rate").load()
    trips = trips.withColumn("k", F.col("value") % 7).withWatermark("timestamp", "5 seconds")
    counts = trips.groupBy(F.window("timestamp", "10 seconds"), "k").agg(F.count("*").alias("n"))
    query = counts.select(F.unix_seconds(F.col("window.start")).alias("start"), "k", "n")
    return translate(query, mode=OutputMode.APPEND, sink=SinkRequest("memory")).plan


def connectors(graph: JobGraph) -> tuple[ScriptedConnectors, ScriptedSink]:
    """Two splits of one event per 100 ms, under the plan's own column names."""
    scan, sink = graph.scans()[0], graph.sinks()[0]
    times, values = (field.name for field in scan.schema)
    rows = pl.DataFrame({times: [START + timedelta(milliseconds=100 * i) for i in range(ROWS)], values: range(ROWS)})
    rows = rows.with_columns(pl.col(times).cast(pl.Datetime("us", "UTC")), pl.col(values).cast(pl.Int64))
    splits = [ScriptedSplit(rows[: ROWS // 2]), ScriptedSplit(rows[ROWS // 2 :])]
    written = ScriptedSink()
    return ScriptedConnectors({scan.id: ScriptedSource(splits, batch_rows=20)}, {sink.id: written}), written


def result_of(plan: Sink, seed: int, *, fails: bool) -> list[tuple[object, ...]]:
    config = QueryConfig(max_parallelism=8, bounded=True, drain=True, channel_batches_max=2)
    graph = build_graph(plan, parallelism=2, max_parallelism=8)
    world, written = connectors(graph)
    harness = SlotHarness(graph, world, config, seed=seed)
    if fails:
        harness.advance(40 + seed * 7)
        snapshot = harness.checkpoint()
        harness.advance(100)  # Rows behind the barrier: all of this is lost, and read again.
        graph = build_graph(plan, parallelism=3, max_parallelism=8)
        harness = SlotHarness(graph, world, config, seed=seed, attempt=2, restore=snapshot, store=harness.store)
    harness.finish()
    return written.rows()


if __name__ == "__main__":
    plan = plan_of_the_query()
    expected = result_of(plan, seed=0, fails=False)
    assert sum(row[2] for row in expected) == ROWS  # type: ignore[misc]
    for seed in range(20):
        assert result_of(plan, seed, fails=True) == expected, f"seed {seed}"
    print(f"{len(expected)} groups, the same in 20 runs that failed and were restored with other slots")
