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


@query(mode="update")
def a_union_of_which_only_the_rows_count(s: Sources) -> DataFrame:
    """Spark's optimiser takes every column out of it."""
    rows = s.events.selectExpr("id", "0 as side").union(s.table("more").selectExpr("id", "1 as side"))
    return rows.agg(F.count("*").alias("n"))


@query(mode="complete")
def a_union_below_constants_only(s: Sources) -> DataFrame:
    both = s.events.select("id").union(s.events.select("id")).union(s.table("more").select("id"))
    return both.selectExpr("0.5D as half", "id").cube("half").agg(F.count("*").alias("n"))


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


# Where rows go


@query()
def union_of_many_streams(s: Sources) -> DataFrame:
    parts = [s.events.where(F.col("grp") == number).select("id", "key", "grp") for number in range(-2, 5)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole


@query()
def union_by_name_with_missing_columns(s: Sources) -> DataFrame:
    return s.events.select("id", "key").unionByName(s.table("more").select("amount", "id"), allowMissingColumns=True)


@query()
def union_that_widens_types(s: Sources) -> DataFrame:
    return s.events.select("id", "grp").union(s.table("more").select("id", "huge"))


@query()
def repartition_in_turn(s: Sources) -> DataFrame:
    return s.events.repartition(3).selectExpr("id", "amount + 1 as next")


@query()
def repartition_by_a_column(s: Sources) -> DataFrame:
    return s.events.repartition("key").select("id", "key")


@query()
def repartition_by_an_expression(s: Sources) -> DataFrame:
    return s.events.repartition(2, F.col("amount") % 3).select("id", "amount")


@query()
def repartition_by_range(s: Sources) -> DataFrame:
    return s.events.repartitionByRange(2, "amount").select("id", "amount")


@query()
def everything_to_one_subtask(s: Sources) -> DataFrame:
    return s.events.repartition(1).select("id", "ts").union(s.table("more").coalesce(1).select("id", "ts"))


@query()
def windows_behind_a_repartition(s: Sources) -> DataFrame:
    spread = s.events.repartition(4).withWatermark("ts", DELAY)
    return spread.groupBy(F.window("ts", "10 seconds"), "key").count().selectExpr("window.start", "key", "count")


@query()
def windows_over_a_computed_time_behind_a_repartition(s: Sources) -> DataFrame:
    moved = s.events.repartition("key").selectExpr("ts + interval 1 hour as later", "amount")
    counts = (
        moved.withWatermark("later", DELAY).groupBy(F.window("later", "20 seconds")).agg(F.sum("amount").alias("t"))
    )
    return counts.selectExpr("window.start", "t")


@query()
def a_repartition_between_watermark_and_window(s: Sources) -> DataFrame:
    timed = s.events.withWatermark("ts", DELAY).repartition("grp")
    return timed.groupBy(F.window("ts", "10 seconds")).agg(F.max("amount").alias("m")).selectExpr("window.start", "m")


@query()
def hints_change_nothing(s: Sources) -> DataFrame:
    return s.events.hint("rebalance").select("id").union(s.table("more").hint("broadcast").select("id"))


# Where rows were read


@query()
def file_metadata_columns(s: Sources) -> DataFrame:
    return s.events.select(
        "id", "_metadata.file_path", "_metadata.file_name", "_metadata.file_size", "_metadata.row_index"
    )


@query()
def the_whole_metadata_struct(s: Sources) -> DataFrame:
    return s.events.select("id", "_metadata")


@query()
def metadata_of_json_files(s: Sources) -> DataFrame:
    return s.json("bids_json", "auction long, price long").select(
        "price", "_metadata.file_name", "_metadata.file_modification_time"
    )


@query()
def only_metadata(s: Sources) -> DataFrame:
    return s.bids.select("_metadata.file_block_start", "_metadata.file_block_length", "_metadata.file_name")


@query()
def filter_by_the_file_name(s: Sources) -> DataFrame:
    return s.events.where(F.col("_metadata.file_name") == "part-1.parquet").select("id", "_metadata.row_index")


@query()
def input_file_name_of_rows(s: Sources) -> DataFrame:
    return s.events.where("amount > 0").select(
        "id", F.input_file_name().alias("f"), F.expr("input_file_block_length() as n")
    )


@query()
def windows_per_file(s: Sources) -> DataFrame:
    timed = s.events.withWatermark("ts", DELAY).select("ts", F.input_file_name().alias("f"))
    return timed.groupBy(F.window("ts", "20 seconds"), "f").count().selectExpr("window.start", "f", "count")


# Scalar subqueries over static data


@query()
def a_scalar_subquery_in_a_filter(s: Sources) -> DataFrame:
    s.view("stream_of_bids", s.bids)
    s.view("all_persons", s.static("persons"))
    return s.spark.sql("select auction, bidder from stream_of_bids where bidder > (select avg(id) from all_persons)")


@query()
def scalar_subqueries_in_a_projection(s: Sources) -> DataFrame:
    s.view("stream_of_events", s.events)
    s.view("known_auctions", s.static("auctions"))
    return s.spark.sql(
        "select id, amount - (select max(seller) from known_auctions) as d, "
        "(select item from known_auctions where id = 1003) as item, "
        "(select min(date_time) from known_auctions) as first, (select id from known_auctions where false) as none "
        "from stream_of_events"
    )


@query()
def a_struct_from_a_scalar_subquery(s: Sources) -> DataFrame:
    s.view("some_events", s.events)
    s.view("known_persons", s.static("persons"))
    return s.spark.sql(
        "select id, one.a, one.b from (select id, (select named_struct('a', max(id), 'b', min(name)) from known_persons) as one "
        "from some_events)"
    )


@query()
def rows_in_a_static_subquery(s: Sources) -> DataFrame:
    s.view("bids_to_filter", s.bids)
    s.view("auctions_to_keep", s.static("auctions"))
    return s.spark.sql(
        "select auction, price from bids_to_filter where auction in (select id from auctions_to_keep where seller < 1020)"
    )
