"""Unions, sources and sinks."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources

# Union


@query()
def union_of_two_streams(s: Sources) -> DataFrame:
    return s.events.select("id", "key").union(s.table("more").select("id", "key"))


@query()
def union_by_name_with_a_literal(s: Sources) -> DataFrame:
    left = s.events.select("id", F.lit("a").alias("side"))
    return left.unionByName(s.table("more").select(F.lit("b").alias("side"), "id"))


@query()
def windows_over_a_union(s: Sources) -> DataFrame:
    both = s.events.select("ts", "amount").union(s.table("more").select("ts", "amount"))
    return (
        both.withWatermark("ts", DELAY)
        .groupBy(F.window("ts", "10 seconds"))
        .agg(F.sum("amount").alias("t"))
        .select("window.start", "t")
    )


# Sources and sinks


@query()
def json_source(s: Sources) -> DataFrame:
    return s.json("bids_json", "auction long, price long, channel string, date_time timestamp").where("price > 500")


@query(format="json")
def json_sink(s: Sources) -> DataFrame:
    return s.bids.select("auction", "price", "channel", "date_time")


@query(format="memory")
def memory_sink(s: Sources) -> DataFrame:
    return s.events.select("id", "key", "ts")


@query(partition_by=("grp",))
def partitioned_sink(s: Sources) -> DataFrame:
    return s.events.select("id", "amount", "grp")
