"""Output mode complete: the whole result of an aggregation, sorted and limited where the query says so. And ``limit`` on a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.compare import Rules
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Build, Sources


def in_order(build: Build) -> Build:
    """The rows of batch, in the order of batch: for queries whose order leaves nothing open."""

    def admits(s: Sources, rows: list[Any]) -> str:
        expected = [tuple(row) for row in build(s).collect()]
        return "" if repr(rows) == repr(expected) else f"expected, in this order: {expected[:10]} …, got: {rows[:10]} …"

    return query(mode="complete", admits=admits)(build)


def some_of(count: int, whole: Build) -> Callable[[Build], Build]:
    """Any ``count`` rows of what ``whole`` gives."""

    def admits(s: Sources, rows: list[Any]) -> str:
        left = [tuple(row) for row in whole(s).collect()]
        if len(rows) != min(count, len(left)):
            return f"expected {min(count, len(left))} rows, got {len(rows)}"
        for row in rows:
            if row not in left:
                return f"{row} is no row of the input, or there once too often"
            left.remove(row)
        return ""

    return query(admits=admits)


# Complete


@query(mode="complete")
def all_counts_per_key(s: Sources) -> DataFrame:
    return s.events.groupBy("key").count()


@query(mode="complete")
def one_row_for_everything(s: Sources) -> DataFrame:
    return s.events.agg(F.count("*").alias("n"), F.sum("amount").alias("total"), F.max("ts").alias("last"))


@query(mode="complete")
def all_windows_at_once(s: Sources) -> DataFrame:
    grouped = s.events.withWatermark("ts", "1 second").groupBy(F.window("ts", "10 seconds"), "grp")
    return grouped.agg(F.sum("cost").alias("c"), F.avg("price").alias("p")).select("window", "grp", "c", "p")


@query(mode="complete")
def sliding_windows_at_once(s: Sources) -> DataFrame:
    return s.events.groupBy(F.window("ts", "20 seconds", "5 seconds").alias("w")).count().select("w.start", "count")


@query(mode="complete")
def all_sessions_at_once(s: Sources) -> DataFrame:
    return s.events.groupBy("key", F.session_window("ts", "2 seconds").alias("w")).count().select("key", "w", "count")


@query(mode="complete")
def sessions_with_a_watermark_at_once(s: Sources) -> DataFrame:
    stream = s.events.withWatermark("ts", DELAY)
    return (
        stream.groupBy("grp", F.session_window("ts", "1 second").alias("w"))
        .agg(F.max("id").alias("m"))
        .select("grp", "w", "m")
    )


@query(mode="complete")
def a_result_with_having(s: Sources) -> DataFrame:
    return (
        s.events.groupBy("key", "grp").agg(F.sum("amount").alias("t")).where("t > 0").withColumn("half", F.col("t") / 2)
    )


@query(mode="complete", empty=True)
def a_result_that_is_empty(s: Sources) -> DataFrame:
    return s.events.groupBy("key").count().where("count > 1000000")


@query(mode="complete", rules=Rules(unordered=("ids",)))
def collected_lists_at_once(s: Sources) -> DataFrame:
    return s.events.groupBy("grp").agg(F.collect_list("id").alias("ids"), F.first("grp").alias("g"))


@query(mode="complete")
def a_static_join_below_a_whole_result(s: Sources) -> DataFrame:
    named = s.bids.join(s.static("persons").select(F.col("id").alias("bidder"), "city"), "bidder")
    return named.groupBy("city").agg(F.max("price").alias("top"), F.count("*").alias("n"))


@query(mode="complete")
def a_static_join_above_a_whole_result(s: Sources) -> DataFrame:
    counts = s.bids.groupBy("bidder").agg(F.count("*").alias("n"))
    return counts.join(s.static("persons").select(F.col("id").alias("bidder"), "city"), "bidder").select(
        "city", "bidder", "n"
    )


@query(mode="complete")
def a_python_function_over_a_whole_result(s: Sources) -> DataFrame:
    @F.pandas_udf("long")  # type: ignore[call-overload]
    def twice(numbers):  # type: ignore[no-untyped-def]
        return numbers * 2

    return s.events.groupBy("key").count().select("key", twice("count").alias("n"))


@in_order
def a_sorted_result(s: Sources) -> DataFrame:
    return s.events.groupBy("key").count().orderBy("key")


@in_order
def a_result_sorted_downwards_with_nulls_first(s: Sources) -> DataFrame:
    sums = s.events.groupBy("grp").agg(F.sum("amount").alias("t"))
    return sums.orderBy(F.desc_nulls_first("grp"))


@in_order
def a_result_sorted_by_several_columns(s: Sources) -> DataFrame:
    counts = s.events.groupBy("grp", "flag", "key").count()
    return counts.orderBy(F.desc("grp"), F.asc_nulls_last("flag"), F.desc("key"))


@in_order
def a_result_sorted_by_an_expression(s: Sources) -> DataFrame:
    counts = s.events.groupBy("key").agg(F.sum("amount").alias("t"))
    return counts.orderBy(F.abs("t"), "key").select(F.upper("key").alias("k"), "t")


@in_order
def a_result_sorted_by_its_window(s: Sources) -> DataFrame:
    return s.events.groupBy(F.window("ts", "30 seconds")).count().orderBy(F.desc("window"))


@in_order
def a_result_sorted_by_a_struct_with_nulls(s: Sources) -> DataFrame:
    return s.events.groupBy("point").count().orderBy("point")


@in_order
def a_result_sorted_by_doubles(s: Sources) -> DataFrame:
    return s.events.groupBy("ratio").count().orderBy("ratio")


@in_order
def the_ten_largest_groups(s: Sources) -> DataFrame:
    return s.bids.groupBy("auction").agg(F.sum("price").alias("t")).orderBy(F.desc("t"), "auction").limit(10)


@in_order
def the_largest_groups_in_sql(s: Sources) -> DataFrame:
    s.view("complete_bids", s.bids)
    return s.spark.sql(
        "SELECT channel, count(*) AS n, max(price) AS top FROM complete_bids GROUP BY channel HAVING n > 5 "
        "ORDER BY n DESC, channel LIMIT 7"
    )


@in_order
def a_filter_above_a_limit(s: Sources) -> DataFrame:
    top = s.bids.groupBy("auction").agg(F.max("price").alias("m")).orderBy(F.desc("m"), "auction").limit(20)
    return top.where("auction % 2 = 0")


def _counts(s: Sources) -> DataFrame:
    return s.events.groupBy("key", "grp").count()


def _any_five(s: Sources, rows: list[Any]) -> str:
    known = {tuple(row) for row in _counts(s).collect()}
    return "" if len(rows) == len(set(rows)) == 5 and set(rows) <= known else f"not five rows of the result: {rows}"


@query(mode="complete", admits=_any_five)
def a_limit_without_an_order(s: Sources) -> DataFrame:
    return _counts(s).limit(5)


# The first rows of a stream


@some_of(25, lambda s: s.events.select("id", "key", "ts"))
def the_first_rows_of_a_stream(s: Sources) -> DataFrame:
    return s.events.select("id", "key", "ts").limit(25)


@some_of(7, lambda s: s.events.where("amount > 900").select("id", "amount"))
def the_first_rows_that_pass_a_filter(s: Sources) -> DataFrame:
    return s.events.where("amount > 900").limit(7).select("id", "amount")


@some_of(1_000_000, lambda s: s.events.select("id"))
def a_limit_that_is_never_reached(s: Sources) -> DataFrame:
    return s.events.limit(1_000_000).select("id")


@some_of(30, lambda s: s.events.select("id").union(s.table("more").select("id")))
def the_first_rows_of_a_union(s: Sources) -> DataFrame:
    return s.events.select("id").union(s.table("more").select("id")).limit(30)


@some_of(3, lambda s: s.events.groupBy(F.window("ts", "10 seconds"), "key").count())
def the_first_windows_that_close(s: Sources) -> DataFrame:
    return s.events.withWatermark("ts", DELAY).groupBy(F.window("ts", "10 seconds"), "key").count().limit(3)


@some_of(4, lambda s: s.events.select("id"))
def a_limit_of_a_limit(s: Sources) -> DataFrame:
    return s.events.limit(9).select("id").limit(4)
