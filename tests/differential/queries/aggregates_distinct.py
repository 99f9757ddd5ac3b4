"""DISTINCT: several groups of columns in one aggregation, with FILTER, over every kind of value."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.compare import Rules
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources

# Spark refuses DISTINCT on streams; its batch engine is the oracle all the same.


@query(rules=Rules(keys=("start",)))
def distinct_values_of_several_columns(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(
        F.count_distinct("key").alias("keys"),
        F.count_distinct("grp").alias("groups"),
        F.sum_distinct("amount").alias("amounts"),
        F.expr("avg(distinct small)").alias("mean"),
        F.count("*").alias("n"),
        F.sum("price").alias("total"),
    ).select("window.start", "keys", "groups", "amounts", "mean", "n", "total")


@query(rules=Rules(keys=("start",)))
def distinct_combinations(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(
        F.count_distinct("key", "grp").alias("a"),
        F.count_distinct("key", "grp", "flag").alias("b"),
        F.count_distinct("grp", F.col("amount") % 3).alias("c"),
    ).select("window.start", "a", "b", "c")


@query(rules=Rules(keys=("start",)))
def distinct_with_filters(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "20 seconds"))
    return grouped.agg(
        F.expr("count(distinct key) filter (where flag)").alias("a"),
        F.expr("count(distinct key) filter (where not flag)").alias("b"),
        F.expr("sum(distinct grp) filter (where amount > 0)").alias("c"),
        F.expr("count(distinct key)").alias("d"),
        F.expr("count(*) filter (where grp = 2)").alias("e"),
    ).select("window.start", "a", "b", "c", "d", "e")


@query(mode="update", keys=("grp",))
def running_distinct_counts(s: Sources) -> DataFrame:
    return s.events.groupBy("grp").agg(
        F.count_distinct("key").alias("keys"),
        F.count_distinct("cost").alias("costs"),
        F.count_distinct("day").alias("days"),
        F.count_distinct("raw").alias("raws"),
    )


@query(mode="update")
def global_distinct_counts(s: Sources) -> DataFrame:
    return s.bids.agg(
        F.count_distinct("bidder").alias("bidders"),
        F.count_distinct("auction").alias("auctions"),
        F.expr("count(distinct bidder) filter (where price < 10000)").alias("cheap"),
        F.expr("count(distinct auction) filter (where price >= 1000000)").alias("dear"),
    )


@query(mode="update", keys=("grp",))
def one_zero_and_one_nan_among_distinct_values(s: Sources) -> DataFrame:
    values = s.events.withColumn("ratio", F.expr("CASE WHEN ratio = 0 AND amount > 0 THEN -ratio ELSE ratio END"))
    return values.groupBy("grp").agg(
        F.count_distinct("ratio").alias("ratios"),
        F.sort_array(F.collect_set("ratio")).alias("set"),
        F.count_distinct("ratio", "flag").alias("pairs"),
    )


@query(mode="update", keys=("grp",))
def distinct_arrays_and_structs(s: Sources) -> DataFrame:
    return s.events.groupBy("grp").agg(
        F.count_distinct("tags").alias("tags"),
        F.count_distinct("point").alias("points"),
        F.size(F.collect_set("point")).alias("set"),
    )


@query(mode="update", keys=("grp",), rules=Rules(approximate=("b", "c"), unordered=("d",)))
def any_aggregate_over_distinct_values(s: Sources) -> DataFrame:
    return s.events.groupBy("grp").agg(
        F.expr("max(distinct amount)").alias("a"),
        F.expr("stddev(distinct small)").alias("b"),
        F.expr("corr(distinct small, amount % 5)").alias("c"),
        F.expr("collect_list(distinct small)").alias("d"),
        F.expr("median(distinct small)").alias("e"),
        F.expr("count_if(distinct flag)").alias("f"),
        F.expr("bit_xor(distinct small)").alias("g"),
    )


@query(rules=Rules(keys=("start",)))
def distinct_in_sliding_windows(s: Sources) -> DataFrame:
    grouped = s.bids.withWatermark("date_time", DELAY).groupBy(F.window("date_time", "12 seconds", "4 seconds"))
    counted = grouped.agg(F.count_distinct("bidder").alias("bidders"), F.count_distinct("channel").alias("channels"))
    return counted.where("bidders > channels").select("window.start", "bidders", "channels")
