"""Functions in projections."""

from __future__ import annotations

import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.compare import Rules
from tests.differential.corpus import query
from tests.differential.harness import Sources


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
