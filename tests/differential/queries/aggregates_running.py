"""Update mode: groups that change as rows come, windows that are reported as they grow."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.compare import Rules
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources


@query(mode="update", keys=("start", "end", "key"))
def sliding_windows_as_they_grow(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds", "10 seconds"), "key")
    return grouped.agg(F.sum("amount").alias("total"), F.count_distinct("grp").alias("groups")).select(
        "window.start", "window.end", "key", "total", "groups"
    )


@query(mode="update", keys=("start",))
def windows_without_a_watermark(s: Sources) -> DataFrame:
    return (
        s.events.groupBy(F.window("ts", "15 seconds")).agg(F.max("price").alias("high")).select("window.start", "high")
    )


@query(mode="update", keys=("point",))
def a_struct_as_running_key(s: Sources) -> DataFrame:
    return s.events.groupBy("point").agg(F.count("*").alias("n"), F.avg("cost").alias("mean"))


@query(mode="update", keys=("tags", "size"))
def an_array_as_running_key(s: Sources) -> DataFrame:
    counts = s.events.groupBy("tags").agg(F.count("*").alias("n"))
    return counts.select(F.array_join("tags", ",", "null").alias("tags"), F.size("tags").alias("size"), "n")


@query(mode="update", keys=("cost", "raw"))
def decimals_and_bytes_as_running_keys(s: Sources) -> DataFrame:
    return s.events.where("id < 200").groupBy("cost", "raw").agg(F.max("id").alias("last"))


@query(mode="update", keys=("key",))
def a_running_group_with_many_aggregates(s: Sources) -> DataFrame:
    return s.events.groupBy("key").agg(
        F.count("*").alias("n"), F.sum("cost").alias("a"), F.min("ts").alias("b"), F.max("day").alias("c"),
        F.avg("amount").alias("d"), F.max_by("id", F.struct("ts", "id")).alias("e"), F.count_distinct("small").alias("f"),
        F.bit_xor("amount").alias("g"), F.sort_array(F.collect_set("grp")).alias("h"), F.median("price").alias("i"),
    )  # fmt: skip


@query(mode="update")
def a_global_aggregate_of_everything(s: Sources) -> DataFrame:
    return s.events.agg(
        F.count("*").alias("n"), F.count_distinct("key").alias("keys"), F.min("key").alias("low"), F.max("text").alias("high"),
        F.sum("cost").alias("cost"), F.avg("cost").alias("mean"), F.min("raw").alias("raw"), F.bool_and("flag").alias("all"),
        F.percentile_approx("amount", 0.5).alias("middle"), F.approx_count_distinct("id").alias("ids"),
    )  # fmt: skip


@query(mode="update", keys=("day_of_year", "even"), rules=Rules(approximate=("spread",)))
def computed_running_keys(s: Sources) -> DataFrame:
    grouped = s.events.groupBy(F.dayofyear("day").alias("day_of_year"), (F.col("id") % 2 == 0).alias("even"))
    return grouped.agg(F.stddev("amount").alias("spread"), F.count("amount").alias("n"))


@query(mode="update", keys=("grp",))
def a_running_aggregate_with_a_condition_after_it(s: Sources) -> DataFrame:
    totals = s.events.groupBy("grp").agg(F.sum("amount").alias("total"), F.count("*").alias("n"))
    return totals.select("grp", F.when(F.col("n") > 0, F.col("total") / F.col("n")).alias("mean"), "n")


@query(mode="update", keys=("channel",))
def running_totals_of_skewed_keys(s: Sources) -> DataFrame:
    return s.bids.groupBy("channel").agg(
        F.sum("price").alias("total"), F.max("price").alias("high"), F.count("*").alias("n")
    )
