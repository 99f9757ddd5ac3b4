"""Windows and running aggregates."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.compare import Rules
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources

# Aggregates with event-time windows


@query(rules=Rules(keys=("start", "key")))
def tumbling_windows(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "10 seconds"), "key")
    totals = grouped.agg(
        F.count("*").alias("n"),
        F.sum("amount").alias("total"),
        F.min("price").alias("low"),
        F.max("price").alias("high"),
    )
    return totals.select(
        F.col("window.start").alias("start"), F.col("window.end").alias("end"), "key", "n", "total", "low", "high"
    )


@query()
def tumbling_windows_with_the_window_column(s: Sources) -> DataFrame:
    return s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "30 seconds")).count()


@query()
def sliding_windows(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds", "5 seconds"), "grp")
    return grouped.agg(F.sum("price").alias("total"), F.avg("amount").alias("mean")).select(
        "window.start", "grp", "total", "mean"
    )


@query()
def windows_with_an_offset(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "10 seconds", "10 seconds", "3 seconds"))
    return grouped.agg(F.count("grp").alias("n")).select("window.start", "n")


@query()
def having(s: Sources) -> DataFrame:
    counts = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "10 seconds"), "key").count()
    return counts.where("count > 12").select("window.start", "key", "count")


@query()
def filter_before_and_projection_after(s: Sources) -> DataFrame:
    positive = s.events.where("amount > 0").withColumn("tenth", F.col("amount") / 10)
    grouped = positive.withWatermark("ts", DELAY).groupBy(F.window("ts", "15 seconds"))
    return grouped.agg(F.max("tenth").alias("m")).select(
        F.date_format("window.start", "HH:mm:ss").alias("at"), (F.col("m") * 2).alias("m2")
    )


@query()
def averages_and_decimals(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(
        F.sum("cost").alias("a"), F.avg("cost").alias("b"), F.avg("price").alias("c"), F.min("day").alias("d")
    ).select("window.start", "a", "b", "c", "d")


@query(rules=Rules(approximate=("s", "v"), keys=("start",)))
def spread(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(F.stddev("price").alias("s"), F.var_pop("amount").alias("v")).select("window.start", "s", "v")


@query()
def minima_and_maxima_of_every_type(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(
        F.min("key").alias("a"),
        F.max("text").alias("b"),
        F.min("ts").alias("c"),
        F.max("cost").alias("d"),
        F.max("ratio").alias("e"),
        F.min("flag").alias("f"),
    ).select("window.start", "a", "b", "c", "d", "e", "f")


@query()
def conditional_counts(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(
        F.count_if(F.col("flag")).alias("a"),
        F.sum(F.when(F.col("amount") > 0, 1).otherwise(0)).alias("b"),
        F.expr("count(*) filter (where grp = 1)").alias("c"),
    ).select("window.start", "a", "b", "c")


@query()
def distinct_values_of_a_window(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(F.size(F.collect_set("key")).alias("keys"), F.count("*").alias("n")).select(
        "window.start", "keys", "n"
    )


@query(rules=Rules(unordered=("all_groups",)))
def collected_lists(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(F.collect_list("grp").alias("all_groups")).select("window.start", "all_groups")


def _first_is_one_of_the_inputs(s: Sources, rows: list[Any]) -> str:
    admissible = {(row[0], row[1]) for row in s.events.select(F.window("ts", "20 seconds")["start"], "id").collect()}
    wrong = [row for row in rows if tuple(row) not in admissible]
    windows = {start for start, _ in admissible}
    if {row[0] for row in rows} != windows or len(rows) != len(windows):
        return f"{len(rows)} rows for {len(windows)} windows"
    return f"not among the inputs: {wrong[:10]}" if wrong else ""


@query(admits=_first_is_one_of_the_inputs)
def first_of_a_window(s: Sources) -> DataFrame:
    return (
        s.events.withWatermark("ts", DELAY)
        .groupBy(F.window("ts", "20 seconds"))
        .agg(F.first("id").alias("id"))
        .select("window.start", "id")
    )


@query()
def grouping_by_expressions(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(
        F.window("ts", "20 seconds"), F.upper("key").alias("k"), (F.col("grp") % 2).alias("odd")
    )
    return grouped.agg(F.count("*").alias("n")).select("window.start", "k", "odd", "n")


@query()
def grouping_by_floats_and_structs(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "30 seconds"), "ratio", "point")
    return grouped.agg(F.count("*").alias("n")).select("window.start", "ratio", "point", "n")


# Update mode: no window, or windows that are reported as they grow


@query(mode="update", keys=("key",))
def running_totals(s: Sources) -> DataFrame:
    return s.events.groupBy("key").agg(
        F.count("*").alias("n"), F.sum("amount").alias("total"), F.avg("price").alias("mean")
    )


@query(mode="update")
def global_aggregate(s: Sources) -> DataFrame:
    return s.events.agg(F.count("*").alias("n"), F.sum("price").alias("total"), F.max("ts").alias("latest"))


@query(mode="update", keys=("key", "grp"))
def running_aggregate_by_two_keys(s: Sources) -> DataFrame:
    return s.events.groupBy("key", "grp").agg(F.min("amount").alias("low"), F.max("amount").alias("high"))


@query(mode="update", keys=("start", "grp"))
def growing_windows(s: Sources) -> DataFrame:
    counts = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "10 seconds"), "grp").count()
    return counts.select("window.start", "grp", "count")


@query(mode="update", keys=("grp",))
def running_distinct_values(s: Sources) -> DataFrame:
    return s.events.groupBy("grp").agg(F.size(F.collect_set("key")).alias("keys"))


@query(mode="update", keys=("day",))
def running_aggregate_by_date(s: Sources) -> DataFrame:
    return s.events.groupBy("day").agg(F.sum("cost").alias("cost"))
