"""Queries whose results say which rows of the input are in them: a result row stands for ``n`` rows of a key.

Result columns: ``key``, ``deadline`` (the event time at which a result that is not there yet may be demanded; null: at once), ``n``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

SCHEMA = "id bigint, ts timestamp, value bigint"
DELAY = "10 seconds"
Streams = Mapping[str, DataFrame]


@dataclass(frozen=True, slots=True)
class Query:
    """``counts_rows``: a dropped row is a missing row of the result, one for one."""

    name: str
    build: Callable[[Streams], DataFrame]
    streams: tuple[str, ...] = ("a",)
    counts_rows: bool = True


def windows(of: Streams) -> DataFrame:
    """Every row in a group of its own: the result says which rows came through."""
    rows = of["a"].withWatermark("ts", DELAY)
    grouped = rows.groupBy(F.window("ts", "10 seconds").alias("w"), "id").agg(F.count("*").alias("n"))
    return grouped.selectExpr("concat_ws(' ', w.start, id) as key", "w.end as deadline", "n")


def counts(of: Streams) -> DataFrame:
    """The ordinary query: few groups of many rows."""
    rows = of["a"].withWatermark("ts", DELAY)
    grouped = rows.groupBy(F.window("ts", "10 seconds").alias("w"), F.expr("id % 3").alias("k"))
    return grouped.agg(F.count("*").alias("n")).selectExpr(
        "concat_ws(' ', w.start, k) as key", "w.end as deadline", "n"
    )


def filtered_windows(of: Streams) -> DataFrame:
    """The filter stands behind ``withWatermark``: Spark's optimiser moves it before."""
    rows = of["a"].withWatermark("ts", DELAY).where("value >= 0")
    grouped = rows.groupBy(F.window("ts", "10 seconds").alias("w"), "id").agg(F.count("*").alias("n"))
    return grouped.selectExpr("concat_ws(' ', w.start, id) as key", "w.end as deadline", "n")


def sessions(of: Streams) -> DataFrame:
    rows = of["a"].withWatermark("ts", DELAY)
    grouped = rows.groupBy(F.session_window("ts", "7 seconds").alias("w"), "id").agg(F.count("*").alias("n"))
    return grouped.selectExpr("concat_ws(' ', w.start, id) as key", "w.end as deadline", "n")


def distinct(of: Streams) -> DataFrame:
    """Rows leave as they come; late is what is not after the watermark."""
    rows = of["a"].withWatermark("ts", DELAY).dropDuplicates(["id", "ts"])
    return rows.selectExpr("concat_ws(' ', ts, id) as key", "cast(null as timestamp) as deadline", "1L as n")


def united(of: Streams) -> DataFrame:
    """Two streams with a watermark each: the slower counts."""
    rows = of["a"].withWatermark("ts", DELAY).union(of["b"].withWatermark("ts", DELAY))
    grouped = rows.groupBy(F.window("ts", "10 seconds").alias("w"), "id").agg(F.count("*").alias("n"))
    return grouped.selectExpr("concat_ws(' ', w.start, id) as key", "w.end as deadline", "n")


def joined(of: Streams) -> DataFrame:
    left = of["a"].withWatermark("ts", DELAY).selectExpr("id", "ts")
    right = of["b"].withWatermark("ts", DELAY).selectExpr("id as r_id", "ts as r_ts")
    near = "id = r_id and r_ts between ts - interval 30 seconds and ts + interval 30 seconds"
    pairs = left.join(right, F.expr(near))
    return pairs.selectExpr("concat_ws(' ', ts, r_ts, id) as key", "cast(null as timestamp) as deadline", "1L as n")


WINDOWS = Query("windows", windows)
COUNTS = Query("counts", counts)
FILTERED = Query("filtered windows", filtered_windows)
SESSIONS = Query("sessions", sessions)
DISTINCT = Query("distinct", distinct)
UNITED = Query("united", united, ("a", "b"))
JOINED = Query("joined", joined, ("a", "b"), counts_rows=False)
