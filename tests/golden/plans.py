"""Some dozens of plans: the names of their operators, what their state means, and how ``explain`` shows them.

State is found again by the names and kept only where it means the same: whatever changes them changes every stored location.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.golden import users_code
from tests.golden.world import PLACE

from tidegate.catalyst.translate import SinkRequest, translate
from tidegate.connectors import kafka
from tidegate.connectors.nexmark import datasource as nexmark
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.plan.explain import explain
from tidegate.plan.stages import build_graph

_SCHEMA = "ts timestamp, k bigint, v bigint, s string, more array<bigint>"
_SCHEMA_OF_FILES = "ts timestamp, k bigint, v bigint"


class Streams:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def __call__(self, name: str) -> DataFrame:
        directory = PLACE.with_name(f"{PLACE.name}-plans") / name
        directory.mkdir(parents=True, exist_ok=True)
        return self.spark.readStream.schema(_SCHEMA).json(str(directory))

    def timed(self, name: str = "a", delay: str = "5 seconds") -> DataFrame:
        return self(name).withWatermark("ts", delay)

    def files(self, form: str) -> DataFrame:
        directory = PLACE.with_name(f"{PLACE.name}-plans") / form
        directory.mkdir(parents=True, exist_ok=True)
        reader = self.spark.readStream.format(form)
        return (reader if form == "text" else reader.schema(_SCHEMA_OF_FILES)).load(str(directory))

    def kafka(self) -> DataFrame:
        kafka.register(self.spark)
        options = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "in"}
        return self.spark.readStream.format("tidegate-kafka").options(**options).load()

    def nexmark(self) -> DataFrame:
        nexmark.register(self.spark)
        return self.spark.readStream.format("tidegate-nexmark").option("table", "bid").load()

    def counter(self) -> DataFrame:
        self.spark.dataSource.register(users_code.Counter)
        return self.spark.readStream.format("golden-counter").option("rows", 10).load()

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
CONNECTED: dict[str, tuple[Build, SinkRequest]] = {
    "csv to parquet": (lambda s: s.files("csv"), SinkRequest("parquet", {"path": "/data/out"})),
    "parquet to csv, partitioned": (lambda s: s.files("parquet"), SinkRequest("csv", {"path": "/data/out"}, ("k",))),
    "text to text": (
        lambda s: s.files("text").selectExpr("upper(value) AS value"),
        SinkRequest("text", {"path": "/o"}),
    ),
    "windows of parquet to json on S3": (
        lambda s: by_window(s.files("parquet").withWatermark("ts", "5 seconds")),
        SinkRequest("json", {"path": "s3a://bucket/out"}),
    ),
    "json to delta": (lambda s: s("a").select("k", "v"), SinkRequest("delta", {"path": "/data/table"})),
    "json to iceberg": (lambda s: s("a").select("k", "v"), SinkRequest("iceberg", {"path": "db.t"})),
    "kafka to kafka": (
        lambda s: s.kafka().selectExpr("key", "upper(CAST(value AS string)) AS value"),
        SinkRequest("kafka", {"topic": "out", "kafka.bootstrap.servers": "broker:9092"}),
    ),
    "windows of kafka": (
        lambda s: (
            s.kafka()
            .withWatermark("timestamp", "5 seconds")
            .groupBy(F.window("timestamp", "10 seconds"), "key")
            .count()
        ),
        SinkRequest("noop"),
    ),
    "kafka and files": (
        lambda s: s.kafka().selectExpr("CAST(CAST(value AS string) AS bigint) AS v").union(s("a").select("v")),
        SinkRequest("memory"),
    ),
    "json to postgres": (
        lambda s: s("a").select("k", "v"),
        SinkRequest("postgres", {"url": "postgresql://host/db", "dbtable": "public.t"}),
    ),
    "running total to postgres": (
        lambda s: s("a").groupBy("k").agg(F.sum("v").alias("total")),
        SinkRequest("postgres", {"url": "postgresql://host/db", "dbtable": "t", "keys": "k"}),
    ),
    "nexmark to foreachBatch": (lambda s: s.nexmark(), SinkRequest("foreachbatch")),
    "nexmark, windows": (
        lambda s: (
            s.nexmark().withWatermark("date_time", "4 seconds").groupBy(F.window("date_time", "10 seconds")).count()
        ),
        SinkRequest("console"),
    ),
    "python source to foreach": (lambda s: s.counter(), SinkRequest("foreach")),
    "python source to itself": (
        lambda s: s.counter(),
        SinkRequest("golden-numbers", {"folder": "/data/out"}, payload=b"of the user"),
    ),
    "rate to noop": (lambda s: s.rates().select("value"), SinkRequest("noop")),
}
"""From and into every connector; no server is asked."""
UPDATE = ("running total", "filter of the result", "running total to postgres")


def described(spark: SparkSession) -> dict[str, dict[str, Any]]:
    streams = Streams(spark)
    plain = {name: (build, SinkRequest("noop")) for name, build in PLANS.items()}
    return {name: _described(streams, name, build, sink) for name, (build, sink) in {**plain, **CONNECTED}.items()}


def _described(streams: Streams, name: str, build: Build, sink: SinkRequest) -> dict[str, Any]:
    mode = OutputMode.UPDATE if name in UPDATE else OutputMode.APPEND
    try:
        plan = translate(build(streams), mode=mode, sink=sink).plan
    except InvalidQuery as refused:
        return {"refused": refused.message}
    graph = build_graph(plan, parallelism=2, max_parallelism=128)
    return {
        "ids": list(graph.stateful_ids()),
        "shapes": [[shape.operator, [list(part) for part in shape.parts]] for shape in graph.state_shapes()],
        "explain": explain(plan, graph).splitlines(),
    }
