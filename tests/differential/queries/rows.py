"""Projections and filters."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.corpus import query
from tests.differential.harness import Sources


@query()
def pass_through(s: Sources) -> DataFrame:
    return s.events


@query()
def reorder_and_rename(s: Sources) -> DataFrame:
    return s.events.select(F.col("key").alias("who"), "id", F.col("ts").alias("at"))


@query()
def arithmetic(s: Sources) -> DataFrame:
    return s.events.select(
        "id", (F.col("amount") * 2 - 7).alias("a"), (F.col("price") / 4).alias("b"), (-F.col("amount")).alias("c")
    )


@query()
def integer_division_and_remainder(s: Sources) -> DataFrame:
    return s.events.selectExpr("id", "amount div 7 as d", "amount % 7 as m", "pmod(amount, 7) as p")


@query()
def division_where_the_divisor_may_be_zero(s: Sources) -> DataFrame:
    safe = F.when(F.col("grp") != 0, F.col("amount") / F.col("grp"))
    return s.events.select("id", safe.alias("ratio"), F.expr("try_divide(amount, grp)").alias("tried"))


@query()
def decimal_arithmetic(s: Sources) -> DataFrame:
    return s.events.selectExpr("id", "cost + 1.5 as a", "cost * 2 as b", "cost - cost as c")


@query()
def filter_by_comparison(s: Sources) -> DataFrame:
    return s.events.where((F.col("amount") > 0) & (F.col("price") <= 1_000)).select("id", "amount", "price")


@query()
def filter_by_nulls(s: Sources) -> DataFrame:
    return s.events.where("key is null or grp is not null and flag").select("id", "key", "grp", "flag")


@query()
def filter_by_list_and_range(s: Sources) -> DataFrame:
    return s.events.where(F.col("key").isin("ann", "Zoë") | F.col("amount").between(-10, 10)).select("id", "key")


@query()
def filter_by_pattern(s: Sources) -> DataFrame:
    return s.events.where("text like 'The%' or text rlike 'n.c'").select("id", "text")


@query(empty=True)
def filter_that_keeps_nothing(s: Sources) -> DataFrame:
    return s.events.where("id < 0").select("id")


@query()
def three_valued_logic(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "flag and amount > 0 as a",
        "flag or amount > 0 as b",
        "not flag as c",
        "key <=> text as d",
        "grp = small as e",
    )


@query()
def comparisons_of_nan_and_infinity(s: Sources) -> DataFrame:
    return s.events.selectExpr("id", "ratio > 1 as a", "ratio = ratio as b", "isnan(ratio) as c", "ratio < price as d")


# The time of day: values differ from run to run, what is said about them does not


@query()
def rows_older_than_now(s: Sources) -> DataFrame:
    return s.events.where("ts > current_timestamp() - interval 36500 days").select("id", "ts")


@query()
def all_uses_of_the_clock_agree_for_a_row(s: Sources) -> DataFrame:
    stamped = s.events.select("id", F.current_timestamp().alias("a"), F.now().alias("b"), F.current_date().alias("d"))
    return stamped.selectExpr("id", "a = b as same", "d = cast(a as date) as day", "a is null as missing")


@query(mode="update", keys=("key",))
def counts_with_the_time_of_the_last_row(s: Sources) -> DataFrame:
    counted = s.events.groupBy("key").agg(F.count("*").alias("n"), F.max(F.current_timestamp()).alias("at"))
    return counted.selectExpr("key", "n", "at is not null as stamped", "at <= current_timestamp() as before")
