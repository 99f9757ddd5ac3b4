"""Session windows: fixed and per-row gaps, with and without keys, under other operators."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from tests.differential.compare import Rules
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources

BY_SESSION = Rules(keys=("start",))


def sessions(s: Sources, gap: str | Column, *keys: str) -> DataFrame:
    return s.events.withWatermark("ts", DELAY).groupBy(*keys, F.session_window("ts", gap).alias("session"))


@query(rules=Rules(keys=("start", "key")))
def sessions_per_key(s: Sources) -> DataFrame:
    grouped = sessions(s, "2 seconds", "key").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
    return grouped.select("key", "session.start", "session.end", "n", "total")


@query()
def sessions_with_the_session_column(s: Sources) -> DataFrame:
    return s.events.withWatermark("ts", DELAY).groupBy(F.session_window("ts", "1 second"), "key").count()


@query(rules=BY_SESSION)
def sessions_of_the_whole_stream(s: Sources) -> DataFrame:
    """Spark streams sessions only beside another key; here they need none."""
    sparse = s.events.where("id % 50 = 0").withWatermark("ts", DELAY)
    return (
        sparse.groupBy(F.session_window("ts", "3 seconds").alias("w")).agg(F.count("*").alias("n")).select("w.*", "n")
    )


@query()
def sessions_whose_key_may_be_null(s: Sources) -> DataFrame:
    return sessions(s, "1500 milliseconds", "grp").agg(F.max("price").alias("high")).select("grp", "session", "high")


@query()
def sessions_by_several_keys(s: Sources) -> DataFrame:
    grouped = sessions(s, "4 seconds", "grp", "flag", "key").agg(F.count("id").alias("n"), F.min("ts").alias("first"))
    return grouped.select("session.start", "grp", "flag", "key", "n", "first")


@query()
def sessions_by_a_double_and_a_decimal(s: Sources) -> DataFrame:
    return (
        sessions(s, "3 seconds", "ratio", "small")
        .agg(F.sum("cost").alias("c"))
        .select("ratio", "small", "session", "c")
    )


@query()
def sessions_by_a_struct(s: Sources) -> DataFrame:
    return sessions(s, "10 seconds", "point").count().select("point", "session.start", "session.end", "count")


@query(rules=Rules(approximate=("spread",), unordered=("ids", "kinds")))
def sessions_with_many_aggregates(s: Sources) -> DataFrame:
    return (
        sessions(s, "2 seconds", "key")
        .agg(
            F.avg("amount").alias("mean"),
            F.stddev("price").alias("spread"),
            F.collect_list("id").alias("ids"),
            F.collect_set("grp").alias("kinds"),
            F.max_by("id", F.struct("ts", "id")).alias("newest"),
            F.min("day").alias("day"),
            F.bool_or("flag").alias("any"),
            F.sum("cost").alias("cost"),
            F.count_if(F.col("amount") > 0).alias("gains"),
        )
        .select("key", "session", "mean", "spread", "ids", "kinds", "newest", "day", "any", "cost", "gains")
    )


@query()
def sessions_without_aggregates(s: Sources) -> DataFrame:
    return sessions(s, "1 second", "key").agg(F.count("*").alias("n")).select("key", "session")


@query()
def sessions_with_a_filter_in_the_aggregate(s: Sources) -> DataFrame:
    s.view("session_events", s.events.withWatermark("ts", DELAY))
    return s.spark.sql(
        "SELECT key, session_window.start AS start, count(*) FILTER (WHERE amount > 0) AS gains, sum(amount) AS total "
        "FROM session_events GROUP BY key, session_window(ts, '2 seconds')"
    )


@query()
def sessions_with_having(s: Sources) -> DataFrame:
    counts = sessions(s, "2 seconds", "key").count()
    return counts.where("count > 5").select("key", "session.start", (F.col("count") * 2).alias("twice"))


@query()
def lengths_of_sessions(s: Sources) -> DataFrame:
    """No filter on the length: Spark's optimiser would push it below the aggregation, where every session is one row long."""
    grouped = sessions(s, "3 seconds", "key").count()
    length = F.unix_micros("session.end") - F.unix_micros("session.start")
    return grouped.select("key", "session", length.alias("length"))


@query()
def sessions_with_a_gap_chosen_by_key(s: Sources) -> DataFrame:
    gap = F.when(F.col("key") == "ann", "500 milliseconds").when(F.col("grp") > 2, "4 seconds").otherwise("1 second")
    return (
        sessions(s, gap, "key").agg(F.count("*").alias("n"), F.max("id").alias("m")).select("key", "session", "n", "m")
    )


@query()
def sessions_with_a_gap_computed_from_a_column(s: Sources) -> DataFrame:
    gap = F.concat(F.col("grp").cast("string"), F.lit(" seconds"))
    return sessions(s, gap, "key").agg(F.count("*").alias("n")).select("key", "session", "n")


@query()
def sessions_with_a_gap_in_many_spellings(s: Sources) -> DataFrame:
    gap = F.expr(
        "CASE pmod(id, 6) WHEN 0 THEN '1 second' WHEN 1 THEN 'interval 2 SECONDS' WHEN 2 THEN '0.75 seconds' "
        "WHEN 3 THEN '1 second 250 milliseconds' WHEN 4 THEN 'nonsense' ELSE '-1 second' END || left(key, 0)"
    )
    return (
        sessions(s, gap, "key").agg(F.count("*").alias("n"), F.sum("id").alias("t")).select("key", "session", "n", "t")
    )


@query()
def sessions_of_a_day(s: Sources) -> DataFrame:
    return sessions(s, "1 day", "key").count().select("key", "session.start", "session.end", "count")


@query()
def sessions_over_a_computed_time(s: Sources) -> DataFrame:
    shifted = s.events.withColumn("at", F.expr("ts + INTERVAL 3 HOURS")).withWatermark("at", DELAY)
    return shifted.groupBy("key", F.session_window("at", "2 seconds").alias("w")).count().select("key", "w", "count")


@query()
def sessions_after_a_union(s: Sources) -> DataFrame:
    both = s.events.select("key", "ts").union(s.table("more").select("key", "ts")).withWatermark("ts", DELAY)
    return both.groupBy("key", F.session_window("ts", "1 second").alias("w")).count().select("key", "w", "count")


@query()
def sessions_of_a_static_join(s: Sources) -> DataFrame:
    bids = s.bids.withWatermark("date_time", DELAY)
    named = bids.join(s.static("persons").select(F.col("id").alias("bidder"), "state"), "bidder", "left")
    return (
        named.groupBy("state", F.session_window("date_time", "300 milliseconds").alias("w"))
        .agg(F.max("price").alias("p"))
        .select("state", "w", "p")
    )


@query()
def windows_over_sessions(s: Sources) -> DataFrame:
    """Chained: each session counts in the window its last moment falls into."""
    ended = sessions(s, "2 seconds", "key").count()
    per_window = ended.groupBy(F.window(F.window_time("session"), "20 seconds").alias("w"))
    return per_window.agg(F.count("*").alias("sessions"), F.sum("count").alias("rows")).select("w", "sessions", "rows")


@query()
def a_python_function_over_sessions(s: Sources) -> DataFrame:
    @F.udf("string")
    def shout(text: str | None) -> str | None:
        return None if text is None else text.upper()

    return sessions(s, "2 seconds", "key").count().select(shout("key").alias("k"), "session.start", "count")
