"""SQL text and temp views."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources

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
