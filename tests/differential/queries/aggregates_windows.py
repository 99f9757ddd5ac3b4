"""Windows of every shape, windows of windows, and grouping sets."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources


def _stream(s: Sources) -> DataFrame:
    return s.events.withWatermark("ts", DELAY)


@query()
def sliding_windows_that_do_not_divide(s: Sources) -> DataFrame:
    grouped = _stream(s).groupBy(F.window("ts", "17 seconds", "5 seconds", "2 seconds"))
    return grouped.agg(F.count("*").alias("n"), F.sum("amount").alias("total")).select("window.*", "n", "total")


@query()
def windows_of_milliseconds(s: Sources) -> DataFrame:
    grouped = _stream(s).groupBy(F.window("ts", "1500 milliseconds", "700 milliseconds", "-300 milliseconds"))
    return grouped.count().select("window.start", "window.end", "count")


@query()
def daily_windows_with_a_start_time(s: Sources) -> DataFrame:
    grouped = _stream(s).groupBy(F.window("ts", "1 day", startTime="23 hours 59 minutes 30 seconds"), "flag")
    return grouped.agg(F.count("key").alias("n")).select("window.start", "flag", "n")


@query()
def the_time_of_a_window(s: Sources) -> DataFrame:
    counts = _stream(s).groupBy(F.window("ts", "10 seconds"), "grp").count()
    return counts.select(F.window_time("window").alias("at"), "grp", "count")


@query()
def windows_of_windows_by_their_time(s: Sources) -> DataFrame:
    counts = _stream(s).groupBy(F.window("ts", "5 seconds"), "key").count()
    wider = counts.groupBy(F.window(F.window_time("window"), "20 seconds"), "key")
    return wider.agg(F.max("count").alias("most"), F.sum("count").alias("all")).select(
        "window.start", "key", "most", "all"
    )


@query()
def windows_of_windows(s: Sources) -> DataFrame:
    counts = _stream(s).groupBy(F.window("ts", "5 seconds")).agg(F.sum("amount").alias("total"))
    wider = counts.groupBy(F.window("window", "15 seconds"))
    return wider.agg(F.avg("total").alias("mean"), F.count("*").alias("n")).select("window.start", "mean", "n")


@query()
def sliding_windows_of_tumbling_windows(s: Sources) -> DataFrame:
    counts = _stream(s).groupBy(F.window("ts", "5 seconds")).count()
    wider = counts.groupBy(F.window("window", "20 seconds", "10 seconds"))
    return wider.agg(F.sum("count").alias("n"), F.max("window.end").alias("last")).select("window.start", "n", "last")


@query()
def the_best_of_each_window(s: Sources) -> DataFrame:
    counts = _stream(s).groupBy(F.window("ts", "10 seconds"), "key").count()
    best = counts.groupBy("window").agg(
        F.max("count").alias("most"), F.max_by("key", F.struct("count", "key")).alias("key")
    )
    return best.select("window.start", "most", "key")


@query()
def three_aggregations_in_a_row(s: Sources) -> DataFrame:
    first = _stream(s).groupBy(F.window("ts", "5 seconds"), "key", "grp").agg(F.count("*").alias("n"))
    second = first.groupBy(F.window("window", "10 seconds"), "key").agg(F.max("n").alias("n"))
    third = second.where("n > 1").groupBy(F.window("window", "30 seconds")).agg(F.sum("n").alias("n"))
    return third.select("window.start", "n")


@query()
def distinct_counts_of_windows_of_windows(s: Sources) -> DataFrame:
    counts = _stream(s).groupBy(F.window("ts", "5 seconds"), "key").agg(F.count_distinct("grp", "flag").alias("n"))
    wider = counts.groupBy(F.window("window", "20 seconds"))
    return wider.agg(F.count_distinct("n").alias("a"), F.count_distinct("key").alias("b")).select(
        "window.start", "a", "b"
    )


@query()
def grouping_by_the_event_time_itself(s: Sources) -> DataFrame:
    # A group without time never closes in a stream.
    seconds = s.events.where("ts is not null").withColumn("at", F.date_trunc("second", "ts")).withWatermark("at", DELAY)
    return seconds.groupBy("at", "flag").agg(F.count("*").alias("n"))


@query()
def a_window_and_its_parts_as_keys(s: Sources) -> DataFrame:
    windowed = _stream(s).withColumn("w", F.window("ts", "10 seconds"))
    grouped = windowed.groupBy("w", F.hour("w.start").alias("hour"), F.upper("key").alias("k"))
    return grouped.agg(F.count("*").alias("n")).select("w.end", "hour", "k", "n")


@query()
def having_over_several_aggregates(s: Sources) -> DataFrame:
    s.view("having_events", _stream(s))
    return s.spark.sql(
        "SELECT window.start AS start, key, count(*) AS n, max(amount) - min(amount) AS width FROM having_events "
        "GROUP BY window(ts, '10 seconds'), key HAVING count(*) > 5 AND avg(amount) > 0 AND count(DISTINCT grp) > 3"
    )


@query()
def expressions_over_aggregates(s: Sources) -> DataFrame:
    grouped = _stream(s).groupBy(F.window("ts", "10 seconds"), F.col("amount") % 3)
    return grouped.agg(
        (F.sum("price") / F.count("price")).alias("mean"),
        F.round(F.max("price") - F.min("price"), 1).alias("width"),
        F.coalesce(F.max("cost"), F.lit(0)).alias("cost"),
        (F.col("amount") % 3 + F.count("*")).alias("k"),
    ).select("window.start", "mean", "width", "cost", "k")


# Grouping sets


@query()
def a_rollup_inside_windows(s: Sources) -> DataFrame:
    s.view("rolled_events", _stream(s))
    return s.spark.sql(
        "SELECT w.start AS start, flag, grp, grouping(flag) AS f, grouping_id() AS id, count(*) AS n, sum(amount) AS total "
        "FROM (SELECT window(ts, '20 seconds') AS w, flag, grp, amount FROM rolled_events) GROUP BY w, ROLLUP (flag, grp)"
    )


@query()
def a_cube_inside_windows(s: Sources) -> DataFrame:
    s.view("cube_events", _stream(s))
    return s.spark.sql(
        "SELECT window(ts, '20 seconds').end AS end, flag, small, count(*) AS n, max(price) AS high FROM cube_events "
        "GROUP BY window(ts, '20 seconds'), CUBE (flag, small)"
    )


@query()
def grouping_sets_inside_windows(s: Sources) -> DataFrame:
    s.view("set_events", _stream(s))
    return s.spark.sql(
        "SELECT w.start AS start, key, grp, count(*) AS n, count(DISTINCT flag) AS flags, avg(cost) AS cost "
        "FROM (SELECT window(ts, '30 seconds') AS w, * FROM set_events) GROUP BY GROUPING SETS ((w, key), (w, grp), (w))"
    )


@query(mode="update", keys=("key", "grp", "id"))
def a_running_rollup(s: Sources) -> DataFrame:
    rolled = s.events.rollup("key", "grp")
    return rolled.agg(F.grouping_id().alias("id"), F.count("*").alias("n"), F.sum("price").alias("total"))


@query(mode="update", keys=("flag", "grp", "f", "g"))
def a_running_cube(s: Sources) -> DataFrame:
    cubed = s.events.cube("flag", "grp")
    return cubed.agg(
        F.grouping("flag").alias("f"),
        F.grouping("grp").alias("g"),
        F.count("*").alias("n"),
        F.avg("amount").alias("mean"),
    )


@query(mode="update", keys=("start", "grp", "id"))
def a_rollup_of_windows_as_they_grow(s: Sources) -> DataFrame:
    rolled = _stream(s).rollup(F.window("ts", "20 seconds"), "grp")
    return rolled.agg(F.grouping_id().alias("id"), F.count("*").alias("n")).select("window.start", "grp", "id", "n")


@query()
def a_pivot_of_windows(s: Sources) -> DataFrame:
    pivoted = _stream(s).groupBy(F.window("ts", "10 seconds")).pivot("grp", [1, 2, 9]).agg(F.sum("amount"))
    return pivoted.select("window.start", "1", "2", "9")


@query()
def a_pivot_of_several_aggregates(s: Sources) -> DataFrame:
    grouped = _stream(s).groupBy(F.window("ts", "20 seconds"), "flag").pivot("small", [-7, 0, 3])
    return grouped.agg(F.count("id").alias("n"), F.max("price").alias("high")).drop("window")
