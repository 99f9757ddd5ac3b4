"""Joins."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources


@query()
def static_inner_join(s: Sources) -> DataFrame:
    return s.bids.join(s.static("persons"), F.expr("bidder = id")).select("bidder", "price", "name", "state")


@query()
def static_left_join(s: Sources) -> DataFrame:
    return s.bids.join(s.static("persons").withColumnRenamed("id", "bidder"), "bidder", "left").select(
        "bidder", "price", "name"
    )


@query()
def static_semi_join(s: Sources) -> DataFrame:
    oregon = s.static("persons").where("state = 'OR'")
    bids = s.bids
    return bids.join(oregon, bids.bidder == oregon.id, "left_semi").select("bidder", "price")


@query()
def static_anti_join(s: Sources) -> DataFrame:
    known = s.static("persons").select(F.col("id").alias("bidder"))
    return s.bids.join(known, "bidder", "left_anti").select("bidder", "price")


@query()
def static_broadcast_join_with_a_condition(s: Sources) -> DataFrame:
    auctions = s.static("auctions").withColumnRenamed("date_time", "opened")
    bids = s.bids
    return bids.join(
        F.broadcast(auctions), (bids.auction == auctions.id) & (bids.date_time >= auctions.opened), "left"
    ).select("auction", "price", "item")


@query()
def static_cross_join(s: Sources) -> DataFrame:
    tiny = s.static("persons").where("id < 1003").select(F.col("id").alias("person"))
    return s.events.where("id < 40").select("id").crossJoin(tiny)


@query()
def static_null_safe_join(s: Sources) -> DataFrame:
    events = s.events
    early = s.static("events").where("id < 30")
    names = early.groupBy("key").agg(F.count("*").alias("n")).withColumnRenamed("key", "other")
    return events.join(names, events.key.eqNullSafe(names.other)).select("id", "other", "n")


@query()
def static_join_then_windows(s: Sources) -> DataFrame:
    people = s.static("persons").select(F.col("id").alias("bidder"), "city")
    joined = s.bids.join(people, "bidder").withWatermark("date_time", DELAY)
    return (
        joined.groupBy(F.window("date_time", "10 seconds"), "city")
        .agg(F.sum("price").alias("t"))
        .select("window.start", "city", "t")
    )
