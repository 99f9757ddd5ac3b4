"""The corpus: named queries as PySpark users write them. Each must give on Tidegate what it gives on Spark batch.

A query is a function from ``Sources`` to a DataFrame; ``@query`` says how its result is judged. Keep them small: the value of
the corpus is its breadth, and every one starts a real Spark job.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.compare import EXACT, Rules
from tests.differential.harness import Admits, Build, Sources

DELAY = "10 seconds"


@dataclass(frozen=True)
class Query:
    name: str
    build: Build
    options: dict[str, Any] = field(default_factory=dict)


CORPUS: dict[str, Query] = {}


def query(
    *,
    mode: str = "append",
    keys: tuple[str, ...] = (),
    rules: Rules = EXACT,
    admits: Admits | None = None,
    partition_by: tuple[str, ...] = (),
    format: str = "parquet",
    empty: bool = False,
) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        name = build.__name__
        assert name not in CORPUS, name
        options = {"mode": mode, "keys": keys, "rules": rules, "admits": admits, "partition_by": partition_by}
        CORPUS[name] = Query(name, build, {**options, "format": format, "empty": empty})
        return build

    return register


# Projections and filters


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


# Functions


@query()
def string_functions(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.upper("text").alias("u"),
        F.lower("text").alias("l"),
        F.length("text").alias("n"),
        F.trim("key").alias("t"),
        F.substring("text", 2, 4).alias("s"),
        F.concat("key", F.lit("-"), "text").alias("c"),
    )


@query()
def more_string_functions(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.concat_ws("|", "key", "text").alias("ws"),
        F.lpad("key", 6, "*").alias("lp"),
        F.rpad("key", 6, "*").alias("rp"),
        F.replace("text", F.lit("quick"), F.lit("slow")).alias("r"),
        F.initcap("text").alias("i"),
        F.reverse("key").alias("rev"),
        F.instr("text", "q").alias("pos"),
    )


@query()
def string_predicates(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.col("text").startswith("The").alias("a"),
        F.col("text").endswith("bob").alias("b"),
        F.col("text").contains("ï").alias("c"),
    )


@query()
def regular_expressions(s: Sources) -> DataFrame:
    return s.bids.select(
        "auction",
        F.regexp_extract("url", r"/([0-9a-f]{4})/", 1).alias("code"),
        F.regexp_replace("url", "[0-9]+", "#").alias("masked"),
        F.split("url", "/").getItem(2).alias("host"),
    )


@query()
def math_functions(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.abs("amount").alias("a"),
        F.round("price", 1).alias("r"),
        F.floor("price").alias("f"),
        F.ceil("price").alias("c"),
        F.greatest("amount", "grp").alias("g"),
        F.least("amount", "grp").alias("l"),
        F.signum("price").alias("s"),
    )


@query(rules=Rules(approximate=("root", "power", "logarithm"), keys=("id",)))
def transcendental_functions(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.sqrt(F.abs("price")).alias("root"),
        F.pow("grp", F.lit(3)).alias("power"),
        F.log1p(F.abs("amount")).alias("logarithm"),
    )


@query()
def date_parts(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.year("ts").alias("y"),
        F.month("ts").alias("m"),
        F.dayofmonth("ts").alias("d"),
        F.hour("ts").alias("h"),
        F.minute("ts").alias("mi"),
        F.second("ts").alias("s"),
        F.dayofweek("day").alias("w"),
        F.quarter("day").alias("q"),
    )


@query()
def date_arithmetic(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.to_date("ts").alias("date"),
        F.date_add("day", 40).alias("later"),
        F.datediff("day", F.lit("1970-01-01").cast("date")).alias("days"),
        F.date_trunc("hour", "ts").alias("hour"),
        F.last_day("day").alias("last"),
    )


@query()
def timestamps_and_intervals(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "ts + interval 90 seconds as later",
        "unix_timestamp(ts) as seconds",
        "ts > timestamp'2026-03-02 00:00:00' as after",
    )


@query()
def formatted_dates(s: Sources) -> DataFrame:
    return s.events.select(
        "id", F.date_format("ts", "yyyy-MM-dd HH:mm:ss").alias("text"), F.date_format("day", "yyyy/MM").alias("m")
    )


@query()
def casts(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "cast(amount as string) as a",
        "cast(price as bigint) as b",
        "cast(grp as double) as c",
        "cast(flag as int) as d",
        "cast(day as string) as e",
        "cast(cost as double) as f",
        "cast(small as boolean) as g",
        "cast(id as decimal(20,3)) as h",
        "cast(ts as date) as i",
    )


@query()
def texts_read_by_a_pattern(s: Sources) -> DataFrame:
    text = F.date_format("ts", "yyyy/MM/dd HH:mm:ss")
    pattern = "yyyy/MM/dd HH:mm:ss"
    return s.events.select(
        "id",
        F.to_timestamp(text, pattern).alias("a"),
        F.to_date(text, pattern).alias("b"),
        F.unix_timestamp(text, pattern),
    )


@query()
def casts_that_may_fail(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id", "try_cast(text as int) as a", "try_cast(key as date) as b", "try_cast(huge as int) as c"
    )


@query()
def casts_from_strings(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "cast(cast(amount as string) as bigint) as a",
        "cast(cast(day as string) as date) as b",
        "cast(concat(' ', cast(grp as string)) as int) as c",
    )


@query()
def case_when(s: Sources) -> DataFrame:
    size = F.when(F.col("amount") > 500, "big").when(F.col("amount") > 0, "small").otherwise("none")
    return s.events.select("id", size.alias("size"), F.when(F.col("flag"), F.col("grp")).alias("maybe"))


@query()
def nulls_replaced(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "coalesce(key, text, 'none') as a",
        "nvl(grp, -1) as b",
        "nullif(grp, 0) as c",
        "if(flag, amount, id) as d",
        "nanvl(ratio, 0.5) as e",
    )


@query()
def fill_and_drop(s: Sources) -> DataFrame:
    return s.events.select("id", "key", "grp").na.fill({"key": "?", "grp": 0}).dropna()


@query()
def structs(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        "point.x",
        F.col("point")["y"].alias("why"),
        F.struct("id", F.col("key").alias("k")).alias("pair"),
        "point",
    )


@query()
def arrays(s: Sources) -> DataFrame:
    return s.events.select("id", "tags", F.size("tags").alias("n"), F.array_contains("tags", "ann").alias("has"))


@query()
def binary(s: Sources) -> DataFrame:
    return s.events.select("id", "raw", F.length("raw").alias("n"), F.hex("raw").alias("h"))


@query()
def literals(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.lit(None).cast("int").alias("n"),
        F.lit("ü").alias("s"),
        F.lit(datetime.date(2020, 2, 29)).alias("d"),
        F.lit(1.5).alias("f"),
    )


@query()
def bitwise(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id", "amount & 255 as a", "amount | 1 as b", "amount ^ id as c", "shiftleft(grp, 2) as d"
    )


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


# User functions


@query()
def python_udf(s: Sources) -> DataFrame:
    @F.udf("string")
    def initials(text):
        return None if text is None else "".join(word[0] for word in text.split())

    return s.events.select("id", initials("text").alias("i"))


@query()
def python_udf_of_every_type(s: Sources) -> DataFrame:
    @F.udf("struct<when:timestamp,day:date,cost:decimal(12,2),tags:array<string>,x:int,raw:binary>")
    def echo(ts, day, cost, tags, point, raw):
        return (ts, day, cost, tags, None if point is None else point.x, raw)

    return s.events.select("id", echo("ts", "day", "cost", "tags", "point", "raw").alias("e"))


@query()
def python_udf_in_a_filter(s: Sources) -> DataFrame:
    odd = F.udf(lambda n: n % 2 == 1, "boolean")
    return s.events.where(odd("id")).select("id")


@query()
def chained_python_udfs(s: Sources) -> DataFrame:
    twice = F.udf(lambda n: n * 2, "long")
    return s.events.select("id", twice(twice("id") + 1).alias("four"))


@query()
def pandas_udf(s: Sources) -> DataFrame:
    @F.pandas_udf("double")
    def scaled(price: pd.Series, amount: pd.Series) -> pd.Series:
        return price * 2 + amount.fillna(0)

    return s.events.select("id", scaled("price", "amount").alias("v"))


@query()
def pandas_udf_with_structs(s: Sources) -> DataFrame:
    @F.pandas_udf("struct<x:bigint,y:string>")
    def moved(point: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"x": point["x"].fillna(-1).astype("int64") + 1, "y": point["y"]})

    return s.events.where("point is not null").select("id", moved("point").alias("p"))


@query()
def iterator_pandas_udf(s: Sources) -> DataFrame:
    @F.pandas_udf("long")
    def plus_one(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for batch in batches:
            yield batch + 1

    return s.events.select("id", plus_one("id").alias("next"))


@query()
def map_in_arrow(s: Sources) -> DataFrame:
    def positive(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(pc.greater(batch["amount"], 0))

    return s.events.select("id", "key", "amount").mapInArrow(positive, "id long, key string, amount long")


@query()
def map_in_pandas(s: Sources) -> DataFrame:
    def twice(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame.assign(hour=frame.ts.dt.hour)[["id", "ts", "hour"]]
            yield frame.assign(hour=-1)[["id", "ts", "hour"]]

    return s.events.select("id", "ts").mapInPandas(twice, "id long, ts timestamp, hour int")


@query()
def sliding_windows_behind_a_udf(s: Sources) -> DataFrame:
    bucket = F.udf(lambda text: 0 if text is None else len(text) % 3, "int")
    grouped = s.events.withColumn("bucket", bucket("text")).withWatermark("ts", DELAY)
    return (
        grouped.groupBy(F.window("ts", "20 seconds", "10 seconds"), "bucket")
        .count()
        .select("window.start", "bucket", "count")
    )


# Static joins


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


# SQL text and temp views


@query()
def sql_text(s: Sources) -> DataFrame:
    s.view("e", s.events)
    return s.spark.sql(
        "select id, upper(key) as k, case when amount > 0 then 'in' else 'out' end as way from e where grp is not null"
    )


@query()
def sql_windows_over_a_view_of_a_view(s: Sources) -> DataFrame:
    s.view("b", s.bids.withWatermark("date_time", DELAY))
    s.view("dear", s.spark.sql("select * from b where price > 10000"))
    return s.spark.sql(
        "select window.start as start, auction, count(*) as n, max(price) as top from dear group by window(date_time, '10 seconds'), auction having count(*) > 1"
    )


@query()
def sql_with_common_table_expression_and_join(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    s.view("p", s.static("persons"))
    return s.spark.sql(
        "with or_people as (select id, name from p where state = 'OR') select b.price, o.name from b join or_people o on b.bidder = o.id"
    )


@query(mode="update", keys=("channel",))
def sql_running_aggregate(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    return s.spark.sql("select channel, count(*) as n, sum(price) as total from b group by channel")


# Nexmark


@query()
def nexmark_q0(s: Sources) -> DataFrame:
    return s.bids.select("auction", "bidder", "price", "date_time")


@query()
def nexmark_q1(s: Sources) -> DataFrame:
    return s.bids.selectExpr("auction", "bidder", "0.908 * price as price", "date_time")


@query()
def nexmark_q2(s: Sources) -> DataFrame:
    return s.bids.where("auction % 3 = 0").select("auction", "price")


@query()
def nexmark_q5_counts(s: Sources) -> DataFrame:
    hops = (
        s.bids.withWatermark("date_time", DELAY)
        .groupBy(F.window("date_time", "10 seconds", "2 seconds"), "auction")
        .count()
    )
    return hops.select("window.start", "window.end", "auction", "count")


@query()
def nexmark_q7_highest_bid(s: Sources) -> DataFrame:
    highest = (
        s.bids.withWatermark("date_time", DELAY)
        .groupBy(F.window("date_time", "10 seconds"))
        .agg(F.max("price").alias("top"))
    )
    return highest.select("window.start", "window.end", "top")


@query()
def nexmark_q7_per_auction(s: Sources) -> DataFrame:
    grouped = s.bids.withWatermark("date_time", DELAY).groupBy(F.window("date_time", "10 seconds"), "auction")
    return grouped.agg(F.count("*").alias("n"), F.max("price").alias("top")).select(
        "window.start", "auction", "n", "top"
    )


@query()
def nexmark_q8_with_static_people(s: Sources) -> DataFrame:
    people = s.static("persons").withColumnRenamed("id", "seller")
    grouped = s.table("auctions").join(people, "seller").withWatermark("date_time", DELAY)
    return (
        grouped.groupBy(F.window("date_time", "10 seconds"), "seller", "name")
        .count()
        .select("window.start", "seller", "name")
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
