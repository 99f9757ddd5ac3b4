"""Joins of two streams. No row is late, so that Spark batch is the oracle."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources

SOON = "auction = id AND date_time BETWEEN opened AND opened + INTERVAL 20 SECONDS"


def bids(s: Sources) -> DataFrame:
    return s.bids.withWatermark("date_time", DELAY)


def auctions(s: Sources) -> DataFrame:
    return s.table("auctions").withColumnRenamed("date_time", "opened").withWatermark("opened", DELAY)


def events(s: Sources) -> DataFrame:
    return s.events.withWatermark("ts", DELAY)


def more(s: Sources) -> DataFrame:
    """Another stream of events, under names of its own."""
    columns = [
        F.col(name).alias(f"m_{name}") for name in ("id", "key", "grp", "amount", "ratio", "cost", "ts", "point")
    ]
    return s.table("more").select(*columns).withWatermark("m_ts", DELAY)


def near(seconds: int = 4) -> str:
    return f"m_ts BETWEEN ts - INTERVAL {seconds} SECONDS AND ts + INTERVAL {seconds} SECONDS"


# kinds, with a range of event times


@query()
def streams_inner_within_a_range(s: Sources) -> DataFrame:
    return auctions(s).join(bids(s), F.expr(SOON)).select("id", "item", "bidder", "price", "opened", "date_time")


@query()
def streams_left_within_a_range(s: Sources) -> DataFrame:
    return auctions(s).join(bids(s), F.expr(SOON), "left").select("id", "item", "bidder", "price", "date_time")


@query()
def streams_right_within_a_range(s: Sources) -> DataFrame:
    return auctions(s).join(bids(s), F.expr(SOON), "right").select("id", "item", "auction", "price", "date_time")


@query()
def streams_full_within_a_range(s: Sources) -> DataFrame:
    return auctions(s).join(bids(s), F.expr(SOON), "full").select("id", "item", "auction", "price")


@query()
def streams_semi_within_a_range(s: Sources) -> DataFrame:
    return auctions(s).join(bids(s), F.expr(SOON), "left_semi").select("id", "item")


@query()
def streams_semi_of_the_larger_side(s: Sources) -> DataFrame:
    return bids(s).join(auctions(s), F.expr(SOON), "left_semi").select("auction", "price", "date_time")


# windows and event time as keys


@query()
def streams_inner_on_windows(s: Sources) -> DataFrame:
    left = events(s).where("grp > 2").select(F.window("ts", "1 second").alias("w"), "key", "id")
    right = (
        more(s).where("m_grp > 2").select(F.window("m_ts", "1 second").alias("w"), F.col("m_key").alias("key"), "m_id")
    )
    return left.join(right, ["w", "key"]).select(F.col("w.start"), "key", "id", "m_id")


@query()
def streams_full_on_windows(s: Sources) -> DataFrame:
    left = events(s).where("grp > 3").select(F.window("ts", "2 seconds").alias("w"), "key", "id")
    right = (
        more(s).where("m_grp > 2").select(F.window("m_ts", "2 seconds").alias("w"), F.col("m_key").alias("key"), "m_id")
    )
    return left.join(right, ["w", "key"], "full").select(F.col("w.start"), "key", "id", "m_id")


@query()
def streams_left_on_sliding_windows(s: Sources) -> DataFrame:
    left = events(s).where("grp = 4").select(F.window("ts", "4 seconds", "2 seconds").alias("w"), "id")
    right = more(s).where("m_grp = 1").select(F.window("m_ts", "4 seconds", "2 seconds").alias("w"), "m_id")
    return left.join(right, "w", "left").select(F.col("w.end"), "id", "m_id")


@query()
def streams_on_equal_event_times(s: Sources) -> DataFrame:
    left, right = events(s), s.events.selectExpr("ts", "id AS other", "amount").withWatermark("ts", DELAY)
    return left.select("ts", "id").join(right, "ts", "left").select("ts", "id", "other", "amount")


@query()
def streams_on_shifted_event_times(s: Sources) -> DataFrame:
    left = events(s).select("ts", "id")
    right = s.events.selectExpr("ts + INTERVAL 3 SECONDS AS later", "id AS other").withWatermark("later", DELAY)
    return left.join(right, F.expr("ts = later - INTERVAL 3 SECONDS"), "right").select("id", "other", "later")


# keys and conditions


@query()
def streams_with_nulls_among_the_keys(s: Sources) -> DataFrame:
    on = F.expr(f"key = m_key AND grp = m_grp AND {near()}")
    return events(s).join(more(s), on, "full").select("id", "key", "grp", "m_id", "m_key", "m_grp")


@query()
def streams_with_null_safe_keys(s: Sources) -> DataFrame:
    on = F.expr(f"key <=> m_key AND grp <=> m_grp AND {near(2)}")
    return events(s).join(more(s), on, "left").select("id", "key", "grp", "m_id")


@query()
def streams_with_computed_keys(s: Sources) -> DataFrame:
    on = F.expr(f"lower(trim(key)) = lower(m_key) AND grp + 1 = m_grp AND {near()}")
    return events(s).join(more(s), on, "left").select("id", "key", "m_id", "m_key")


@query()
def streams_with_float_keys(s: Sources) -> DataFrame:
    on = F.expr(f"ratio = m_ratio AND {near(1)}")
    return events(s).join(more(s), on, "left").select("id", "m_id", "ratio", "m_ratio")


@query()
def streams_with_decimal_and_struct_keys(s: Sources) -> DataFrame:
    on = F.expr(f"point = m_point AND {near()}")
    return events(s).join(more(s), on, "left").select("id", "m_id", "m_cost")


@query()
def streams_with_keys_of_two_types(s: Sources) -> DataFrame:
    on = F.expr(f"grp = m_amount % 5 AND {near(1)}")
    return events(s).join(more(s), on).select("id", "grp", "m_id", "m_amount")


@query()
def streams_with_a_condition_on_both(s: Sources) -> DataFrame:
    on = F.expr(f"key = m_key AND amount < m_amount AND {near()}")
    return events(s).join(more(s), on, "left").select("id", "amount", "m_id", "m_amount")


@query()
def streams_with_a_condition_on_one_side(s: Sources) -> DataFrame:
    on = F.expr(f"key = m_key AND grp > 1 AND m_grp < 3 AND {near()}")
    return events(s).join(more(s), on, "full").select("id", "grp", "m_id", "m_grp")


@query()
def streams_with_a_one_sided_range(s: Sources) -> DataFrame:
    on = F.expr("key = m_key AND grp = m_grp AND ts < m_ts AND m_ts < ts + INTERVAL 10 SECONDS")
    return events(s).join(more(s), on, "left").select("id", "ts", "m_id", "m_ts")


@query()
def streams_with_a_range_in_seconds(s: Sources) -> DataFrame:
    on = F.expr("key = m_key AND cast(m_ts AS long) - cast(ts AS long) BETWEEN 0 AND 2")
    return events(s).join(more(s), on).select("id", "m_id")


@query()
def streams_without_a_watermark(s: Sources) -> DataFrame:
    auctions = s.table("auctions").select("id", "item")
    return s.bids.join(auctions, F.expr("auction = id")).select("auction", "price", "item")


@query()
def streams_with_a_watermark_on_one_side(s: Sources) -> DataFrame:
    people = s.table("persons").select(F.col("id").alias("bidder"), "name")
    return bids(s).join(people, "bidder").select("bidder", "price", "name", "date_time")


@query()
def streams_of_nested_rows(s: Sources) -> DataFrame:
    on = F.expr(f"key = m_key AND {near(1)}")
    return events(s).join(more(s), on, "right").select("m_id", "tags", "point", "raw", "cost", "day", "text", "m_point")


@query(mode="update", keys=("id", "bidder", "price", "date_time"))
def streams_inner_in_update_mode(s: Sources) -> DataFrame:
    return auctions(s).join(bids(s), F.expr(SOON)).select("id", "bidder", "price", "date_time")


# what stands around a join


@query()
def stream_with_itself(s: Sources) -> DataFrame:
    e = events(s).select("id", "key", "ts", "amount")
    on = "a.key = b.key AND a.id < b.id AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts + INTERVAL 1 SECOND"
    return e.alias("a").join(e.alias("b"), F.expr(on)).select(F.col("a.id").alias("one"), F.col("b.id").alias("other"))


@query()
def streams_then_windows(s: Sources) -> DataFrame:
    joined = auctions(s).join(bids(s), F.expr(SOON)).drop("opened")
    return (
        joined.groupBy(F.window("date_time", "10 seconds"), "item")
        .agg(F.count("*").alias("n"), F.max("price").alias("top"))
        .select("window.start", "item", "n", "top")
    )


@query()
def streams_outer_then_windows(s: Sources) -> DataFrame:
    joined = auctions(s).join(bids(s), F.expr(SOON), "left").drop("date_time")
    return (
        joined.groupBy(F.window("opened", "5 seconds"))
        .agg(F.count("*").alias("n"), F.count("price").alias("bids"))
        .select("window.start", "n", "bids")
    )


@query()
def windows_then_streams(s: Sources) -> DataFrame:
    """Hot items: the auctions with the most bids of each window."""
    counts = bids(s).groupBy(F.window("date_time", "10 seconds"), "auction").agg(F.count("*").alias("n"))
    most = bids(s).groupBy(F.window("date_time", "10 seconds")).agg(F.max("price").alias("top"))
    return counts.join(most, "window").select("window.start", "auction", "n", "top")


@query()
def windows_left_join_windows(s: Sources) -> DataFrame:
    sold = bids(s).groupBy(F.window("date_time", "5 seconds")).agg(F.sum("price").alias("total"))
    opened = auctions(s).groupBy(F.window("opened", "5 seconds")).agg(F.count("*").alias("n"))
    return opened.join(sold, "window", "full").select("window.start", "n", "total")


@query()
def three_streams(s: Sources) -> DataFrame:
    people = s.table("persons").selectExpr("id AS seller", "name")
    joined = auctions(s).join(bids(s), F.expr(SOON)).join(people, "seller")
    return joined.select("item", "price", "name")


@query()
def three_streams_on_windows(s: Sources) -> DataFrame:
    def windows(of: DataFrame, ts: str, count: str) -> DataFrame:
        return of.groupBy(F.window(ts, "10 seconds")).agg(F.count("*").alias(count))

    one, two, three = (
        windows(bids(s), "date_time", "b"),
        windows(auctions(s), "opened", "a"),
        windows(events(s), "ts", "e"),
    )
    return one.join(two, "window", "left").join(three, "window", "left").select("window.start", "b", "a", "e")


@query()
def streams_of_unions_and_static_sides(s: Sources) -> DataFrame:
    people = s.static("persons").selectExpr("id AS seller", "state")
    both = events(s).select("key", "ts").union(s.table("more").select("key", "ts").withWatermark("ts", DELAY))
    kept = auctions(s).join(people, "seller", "left").selectExpr("opened", "state", "id")
    on = F.expr("id % 7 = length(key) AND ts BETWEEN opened AND opened + INTERVAL 2 SECONDS")
    return kept.join(both, on, "left").select("id", "state", "key", "ts")


@query()
def streams_in_sql(s: Sources) -> DataFrame:
    s.view("a", auctions(s))
    s.view("b", bids(s))
    return s.spark.sql(
        "SELECT a.item, b.price FROM a LEFT JOIN b ON a.id = b.auction AND b.date_time >= a.opened "
        "AND b.date_time <= a.opened + INTERVAL 30 SECONDS AND b.price > 100000"
    )
