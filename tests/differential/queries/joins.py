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


@query()
def static_right_join_keeps_the_stream(s: Sources) -> DataFrame:
    people = s.static("persons").where("state IS NOT NULL")
    return people.join(s.bids, F.expr("id = bidder"), "right").select("bidder", "price", "name")


@query()
def static_side_on_the_left(s: Sources) -> DataFrame:
    return s.static("persons").join(s.bids, F.expr("id = bidder AND price > 10000")).select("name", "price")


@query()
def static_join_with_several_partners(s: Sources) -> DataFrame:
    rows = s.static("events").where("id < 60").selectExpr("id AS other", "grp AS g", "key AS k")
    return s.events.where("id > 1000").join(rows, F.expr("grp = g AND key = k"), "left").select("id", "other")


@query()
def static_join_with_computed_keys(s: Sources) -> DataFrame:
    people = s.static("persons").selectExpr("id % 7 AS seventh", "name").where("id < 1010")
    return s.bids.join(people, F.expr("bidder % 7 = seventh")).select("bidder", "price", "name")


@query()
def static_join_with_a_range(s: Sources) -> DataFrame:
    bands = s.spark.createDataFrame([(0, 1_000), (1_000, 50_000), (50_000, 10**9)], "low long, high long")
    return s.bids.join(bands, F.expr("price >= low AND price < high")).select("price", "low")


@query()
def static_left_join_without_keys(s: Sources) -> DataFrame:
    bands = s.spark.createDataFrame([(100_000, "dear"), (500_000, "very dear")], "above long, word string")
    return s.bids.join(bands, F.expr("price > above"), "left").select("price", "word")


@query()
def static_semi_join_with_a_condition(s: Sources) -> DataFrame:
    auctions = s.static("auctions").selectExpr("id", "date_time AS opened")
    return s.bids.join(auctions, F.expr("auction = id AND date_time < opened"), "left_semi").select("auction", "price")


@query()
def static_anti_join_with_nulls(s: Sources) -> DataFrame:
    known = s.static("events").where("id < 20").select(F.col("key").alias("k"))
    events = s.events
    return events.join(known, events.key == known.k, "left_anti").select("id", "key")


@query()
def static_in_subquery(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    s.view("p", s.static("persons"))
    return s.spark.sql("SELECT bidder, price FROM b WHERE bidder IN (SELECT id FROM p WHERE city = 'Bend')")


@query()
def static_not_in_subquery(s: Sources) -> DataFrame:
    s.view("b", s.bids.where("price > 20000000"))
    s.view("p", s.static("persons"))
    return s.spark.sql("SELECT bidder, price FROM b WHERE bidder NOT IN (SELECT id FROM p WHERE city = 'Bend')")


@query()
def static_not_exists_subquery(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    s.view("p", s.static("persons"))
    return s.spark.sql("SELECT bidder, price FROM b WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.id = b.bidder)")


@query()
def static_in_or_something_else(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    s.view("p", s.static("persons"))
    return s.spark.sql(
        "SELECT bidder, price FROM b WHERE price > 90000000 OR bidder IN (SELECT id FROM p WHERE state = 'OR')"
    )


@query()
def static_exists_or_something_else(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    s.view("a", s.static("auctions"))
    return s.spark.sql(
        "SELECT auction, price, CASE WHEN EXISTS (SELECT 1 FROM a WHERE a.id = b.auction AND a.seller < 1020) "
        "THEN 'ours' ELSE 'theirs' END AS whose FROM b"
    )


@query()
def static_joins_one_after_another(s: Sources) -> DataFrame:
    people, auctions = s.static("persons"), s.static("auctions").drop("date_time")
    sellers = people.selectExpr("id AS seller", "name AS seller_name")
    bidders = people.selectExpr("id AS bidder", "city")
    return (
        s.bids.join(auctions, F.expr("auction = id"), "left")
        .join(sellers, "seller", "left")
        .join(bidders, "bidder")
        .select("item", "price", "seller_name", "city")
    )


@query()
def static_join_with_an_aggregate(s: Sources) -> DataFrame:
    totals = s.static("bids").groupBy("bidder").agg(F.sum("price").alias("total"), F.max("date_time").alias("last"))
    return s.bids.join(totals, "bidder").selectExpr("bidder", "price", "price / total AS share", "last")


@query()
def static_join_on_structs_and_decimals(s: Sources) -> DataFrame:
    rows = s.static("events").where("id < 200").selectExpr("id AS other", "point AS p", "cost AS c")
    return s.events.join(rows, F.expr("point = p AND cost > c"), "left").select("id", "other", "c")
