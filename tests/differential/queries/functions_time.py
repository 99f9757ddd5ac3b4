"""Functions of dates, timestamps and intervals."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.corpus import query
from tests.differential.harness import Sources


@query()
def timestamps_moved_by_months(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "ts + interval '1' month as a",
        "day + interval '1' month as b",
        "day - interval '1-2' year to month as c",
        "ts + make_ym_interval(1, grp) as d",
        "add_months(day, grp) as e",
    )


@query()
def timestamps_moved_by_units(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "timestampadd(HOUR, grp, ts) as a",
        "timestampadd(MONTH, grp, ts) as b",
        "dateadd(WEEK, grp, ts) as c",
        "timestampadd(MICROSECOND, amount, ts) as d",
    )


@query()
def distances_in_units(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "timestampdiff(MONTH, day, ts) as a",
        "timestampdiff(HOUR, timestamp'2026-01-01 00:00:00', ts) as b",
        "datediff(YEAR, day, ts) as c",
        "months_between(ts, day) as d",
        "ts - timestamp'2026-03-01 00:00:00' > interval '1' day as e",
    )


@query()
def names_of_days(s: Sources) -> DataFrame:
    return s.events.select(
        "id",
        F.dayname("day").alias("d"),
        F.monthname("ts").alias("m"),
        F.next_day("day", "Mon").alias("n"),
        F.last_day("day").alias("l"),
    )


@query()
def fields_of_timestamps(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "extract(second from ts) as a",
        "date_part('week', day) as b",
        "extract(dow from day) as c",
        "datepart('year', ts) as d",
        "extract(days from ts - timestamp'2026-02-20 00:00:00') as e",
    )


@query()
def timestamps_from_parts(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "make_timestamp(2024, 2, 29, grp + 3, 30, 1.5) as a",
        "try_make_timestamp(2023, 2, 27 + grp, 0, 0, 0) as b",
        "make_timestamp_ntz(2024, 1, 1, 0, 0, 59.999999) as c",
        "make_date(2024, 1 + abs(grp), 3) as d",
    )


@query()
def intervals_scaled(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "ts + interval '90' minute * grp as a",
        "ts + make_dt_interval(1, grp, 0, 0.5) as b",
        "ts - interval '1' day / 4 as c",
        "cast(interval '1' day * grp as string) as d",
    )


@query()
def clocks_of_other_zones(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "convert_timezone('UTC', 'Europe/Paris', cast(ts as timestamp_ntz)) as a",
        "from_utc_timestamp(ts, 'America/New_York') as b",
        "to_utc_timestamp(ts, 'Asia/Kolkata') as c",
    )


@query()
def timestamps_read_from_text(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id",
        "to_date(string(day)) as a",
        "try_to_timestamp(text) as b",
        "try_to_date(key) as c",
        "to_timestamp_ntz(string(cast(ts as timestamp_ntz))) as d",
        "to_char(ts, 'yyyy-MM-dd') as e",
    )


@query()
def partitions_of_a_log(s: Sources) -> DataFrame:
    """Nexmark's query 10: the day and the minute as text."""
    return s.bids.selectExpr(
        "auction",
        "price",
        "date_format(date_time, 'yyyy-MM-dd') as dt",
        "date_format(date_time, 'HH:mm') as hm",
        "from_unixtime(unix_timestamp(date_time)) as at",
    )


@query()
def calendar_intervals(s: Sources) -> DataFrame:
    return s.events.selectExpr("id", "ts + make_interval(0, 1, 0, 2, 3) as a", "ts - make_interval(1) as b")


@query()
def decimals_and_timestamps(s: Sources) -> DataFrame:
    return s.events.selectExpr(
        "id", "cast(ts as decimal(20,6)) as a", "cast(cost as timestamp) as b", "timestamp_millis(amount) as c"
    )
