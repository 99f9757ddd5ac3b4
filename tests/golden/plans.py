"""Some dozens of plans: the names of their operators, what their state means, and how ``explain`` shows them.

State is found again by the names and kept only where it means the same: whatever changes them changes every stored location.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.golden.world import PLACE

from tidegate.catalyst.translate import SinkRequest, translate
from tidegate.model.errors import InvalidQuery
from tidegate.plan.explain import explain
from tidegate.plan.relational import OutputMode
from tidegate.plan.stages import build_graph

_SCHEMA = "ts timestamp, k bigint, v bigint, s string, more array<bigint>"


class Streams:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def __call__(self, name: str) -> DataFrame:
        directory = PLACE.with_name(f"{PLACE.name}-plans") / name
        directory.mkdir(parents=True, exist_ok=True)
        return self.spark.readStream.schema(_SCHEMA).json(str(directory))

    def timed(self, name: str = "a", delay: str = "5 seconds") -> DataFrame:
        return self(name).withWatermark("ts", delay)

    def rates(self) -> DataFrame:
        return self.spark.readStream.format("rate").option("rowsPerSecond", 10).load()


Build = Callable[[Streams], DataFrame]


def by_window(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.window("ts", "10 seconds"), "k").agg(F.count("*").alias("n"))


def by_session(rows: DataFrame) -> DataFrame:
    return rows.groupBy(F.session_window("ts", "5 seconds"), "k").agg(F.sum("v").alias("total"))


def others(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("ts AS at", "k AS other", "v AS b")


def is_odd(v: int) -> bool:
    return v % 2 == 1


def joined_on() -> Column:
    return F.expr("k = other AND at BETWEEN ts AND ts + INTERVAL 10 SECONDS")


PLANS: dict[str, Build] = {
    "pass through": lambda s: s("a"),
    "projection and filter": lambda s: s("a").where("v > 1").selectExpr("k", "v * 2 AS d"),
    "running total": lambda s: s("a").groupBy("k").agg(F.sum("v").alias("total")),
    "windows": lambda s: by_window(s.timed()),
    "windows, sliding": lambda s: s.timed().groupBy(F.window("ts", "10 seconds", "5 seconds")).count(),
    "windows, by several": lambda s: (
        s.timed().groupBy("k", F.window("ts", "1 minute"), "s").agg(F.max("v"), F.avg("v"))
    ),
    "filter below the watermark": lambda s: by_window(s("a").where("v > 1").withWatermark("ts", "5 seconds")),
    "filter above the watermark": lambda s: by_window(s.timed().where("v > 1")),
    "filter above, of the event time": lambda s: by_window(s.timed().where("ts > TIMESTAMP'2024-01-01'")),
    "filter above, of a projection": lambda s: by_window(s.timed().withColumn("d", F.col("v") * 2).where("d > 4")),
    "filters below and above": lambda s: by_window(
        s("a").where("v > 1").withWatermark("ts", "5 seconds").where("k < 9")
    ),
    "filter above, of a function": lambda s: by_window(s.timed().where(F.udf(is_odd, "boolean")("v"))),
    "filter of the result": lambda s: by_window(s.timed()).where("n > 1"),
    "watermark over a computed time": lambda s: by_window(
        s("a").withColumn("ts", F.expr("ts + INTERVAL 1 HOUR")).withWatermark("ts", "5 seconds")
    ),
    "watermark over a window": lambda s: (
        s("a").select(F.window("ts", "1 minute").alias("w"), "v").withWatermark("w", "5 seconds").groupBy("w").count()
    ),
    "union below the watermark": lambda s: by_window(s("a").union(s("b")).withWatermark("ts", "5 seconds")),
    "union below, filtered branch": lambda s: by_window(
        s("a").where("v > 1").union(s("b")).withWatermark("ts", "5 seconds")
    ),
    "union below, filter above": lambda s: by_window(
        s("a").union(s("b")).withWatermark("ts", "5 seconds").where("v > 1")
    ),
    "union of three below": lambda s: by_window(s("a").union(s("b")).union(s("c")).withWatermark("ts", "5 seconds")),
    "union below, projection between": lambda s: by_window(
        s("a").union(s("b")).select("ts", "k", F.upper("s").alias("s")).withWatermark("ts", "5 seconds")
    ),
    "union of watermarks": lambda s: by_window(s.timed("a").union(s.timed("b", "9 seconds"))),
    "union with itself": lambda s: by_window(s.timed().where("v > 1").union(s.timed().where("v < 1"))),
    "union with one without time": lambda s: s.timed("a").union(s("b")).select("ts", "k"),
    "deduplicate by time and key": lambda s: s.timed().dropDuplicates(["ts", "k"]),
    "deduplicate by key": lambda s: s("a").dropDuplicates(["k"]),
    "deduplicate, filter above": lambda s: s.timed().dropDuplicates(["ts", "k"]).where("v > 1"),
    "deduplicate within watermark": lambda s: s.timed().dropDuplicatesWithinWatermark(["k"]),
    "deduplicate below the watermark": lambda s: by_window(
        s("a").dropDuplicates(["k"]).withWatermark("ts", "5 seconds")
    ),
    "sessions": lambda s: by_session(s.timed()),
    "sessions, filter above": lambda s: by_session(s.timed().where("v > 1")),
    "join, inner": lambda s: s.timed("a").join(others(s.timed("b")), joined_on()).select("ts", "k", "v", "b"),
    "join, left": lambda s: s.timed("a").join(others(s.timed("b")), joined_on(), "left").select("ts", "k", "v", "b"),
    "join, filters on both sides": lambda s: (
        s.timed("a").where("v > 1").join(others(s.timed("b")).where("b < 9"), joined_on()).select("ts", "k", "v", "b")
    ),
    "join, filter above": lambda s: (
        s.timed("a").join(others(s.timed("b")), joined_on()).where("v > 1 AND b < 9").select("ts", "k")
    ),
    "join with itself": lambda s: s.timed().join(others(s.timed()), joined_on()).select("ts", "k", "v", "b"),
    "join with itself, filtered": lambda s: (
        s.timed().where("v > 1").join(others(s.timed()).where("b < 1"), joined_on()).select("ts", "k", "v", "b")
    ),
    "join, one side without time": lambda s: (
        s.timed("a").join(others(s("b")), F.expr("k = other")).select("ts", "k", "b")
    ),
    "join of windows": lambda s: by_window(s.timed("a")).join(
        by_window(s.timed("b")).withColumnRenamed("n", "m"), ["window", "k"]
    ),
    "windows of windows": lambda s: (
        by_window(s.timed()).groupBy(F.window("window", "1 minute")).agg(F.sum("n").alias("n"))
    ),
    "repartition above the watermark": lambda s: by_window(s.timed().repartition(2, "k")),
    "repartition below the watermark": lambda s: by_window(s("a").repartition(2).withWatermark("ts", "5 seconds")),
    "repartition by key below": lambda s: by_window(s("a").repartition(2, "k").withWatermark("ts", "5 seconds")),
    "explode below the watermark": lambda s: by_window(
        s("a").select("ts", F.explode("more").alias("k")).withWatermark("ts", "5 seconds")
    ),
    "explode above the watermark": lambda s: by_window(s.timed().select("ts", F.explode("more").alias("k"))),
    "distinct count": lambda s: (
        s.timed().groupBy(F.window("ts", "10 seconds")).agg(F.countDistinct("k"), F.countDistinct("s"))
    ),
    "limit": lambda s: s("a").limit(5),
    "rates": lambda s: (
        s.rates().withWatermark("timestamp", "1 second").groupBy(F.window("timestamp", "1 second")).count()
    ),
    "column names that clash": lambda s: s.timed("a").join(s.timed("b"), "k").select("k"),
}
UPDATE = ("running total", "filter of the result")


def described(spark: SparkSession) -> dict[str, dict[str, Any]]:
    return {name: _described(Streams(spark), name, build) for name, build in PLANS.items()}


def _described(streams: Streams, name: str, build: Build) -> dict[str, Any]:
    mode = OutputMode.UPDATE if name in UPDATE else OutputMode.APPEND
    try:
        plan = translate(build(streams), mode=mode, sink=SinkRequest("noop")).plan
    except InvalidQuery as refused:
        return {"refused": refused.message}
    graph = build_graph(plan, parallelism=2, max_parallelism=128)
    return {
        "ids": list(graph.stateful_ids()),
        "shapes": [[shape.operator, [list(part) for part in shape.parts]] for shape in graph.state_shapes()],
        "explain": explain(plan, graph).splitlines(),
    }
