"""SQL text and temp views."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Sources


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


@query()
def window_count_and_highest_price_per_auction(s: Sources) -> DataFrame:
    grouped = s.bids.withWatermark("date_time", DELAY).groupBy(F.window("date_time", "10 seconds"), "auction")
    return grouped.agg(F.count("*").alias("n"), F.max("price").alias("top")).select(
        "window.start", "auction", "n", "top"
    )


@query()
def windows_over_auctions_with_static_people(s: Sources) -> DataFrame:
    people = s.static("persons").withColumnRenamed("id", "seller")
    grouped = s.table("auctions").join(people, "seller").withWatermark("date_time", DELAY)
    return (
        grouped.groupBy(F.window("date_time", "10 seconds"), "seller", "name")
        .count()
        .select("window.start", "seller", "name")
    )


@query()
def sql_case_in_and_between(s: Sources) -> DataFrame:
    s.view("e", s.events)
    return s.spark.sql(
        """
        select id, case grp when 1 then 'one' when 2 then 'two' else 'many' end as word, amount between -10 and 500 as middling
        from e where key in ('ann', 'bob', 'Zoë') and amount not in (0, 1)
        """
    )


@query()
def sql_like_and_coalesce(s: Sources) -> DataFrame:
    s.view("e", s.events)
    return s.spark.sql(
        "select id, coalesce(key, '-') as k, nvl(grp, -1) as g from e where text like '%quick%' or key is null"
    )


@query()
def sql_union_all_of_two_filters(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    return s.spark.sql(
        """
        select auction, price, 'cheap' as kind from b where price < 1000
        union all
        select auction, price, 'dear' as kind from b where price > 100000
        """
    )


@query()
def sql_union_of_a_view_with_itself(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    return s.spark.sql("select auction, price from b union all select auction, price from b where auction % 2 = 0")


@query(mode="update", keys=("key", "grp"))
def sql_group_by_position_and_having(s: Sources) -> DataFrame:
    s.view("e", s.events)
    return s.spark.sql("select key, grp, count(*) as n, min(amount) as low from e group by 1, 2 having n > 3")


@query()
def sql_window_with_alias_and_filter_clause(s: Sources) -> DataFrame:
    s.view("b", s.bids.withWatermark("date_time", DELAY))
    return s.spark.sql(
        """
        select window.end as until, count(*) filter (where price > 10000) as dear, count(*) as n
        from b group by window(date_time, '20 seconds')
        """
    )


@query()
def sql_nested_subqueries(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    return s.spark.sql(
        "select auction, double * 2 as quadruple from (select auction, price * 2 as double from (select * from b where price > 50) where auction > 1000)"
    )


@query()
def sql_values_as_static_side(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    return s.spark.sql(
        "select b.auction, b.price, c.label from b join (values ('Google', 'G'), ('Apple', 'A')) as c(channel, label) on b.channel = c.channel"
    )


@query()
def sql_left_join_with_static_people(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    s.view("p", s.static("persons"))
    return s.spark.sql("select b.bidder, b.price, p.name from b left join p on b.bidder = p.id and p.state = 'ID'")


@query()
def sql_structs_and_arrays(s: Sources) -> DataFrame:
    s.view("e", s.events)
    return s.spark.sql(
        "select id, point.x as x, size(tags) as tags, named_struct('k', key, 'g', grp) as pair from e where point.y is not null"
    )


@query()
def sql_interval_arithmetic(s: Sources) -> DataFrame:
    s.view("e", s.events)
    return s.spark.sql(
        "select id, ts + interval 90 minutes as later, date_add(day, 7) as week from e where ts > timestamp '2026-03-01'"
    )


@query()
def sql_expressions_over_aggregates(s: Sources) -> DataFrame:
    s.view("b", s.bids.withWatermark("date_time", DELAY))
    return s.spark.sql(
        """
        select window.start as since, channel, max(price) - min(price) as spread, round(sum(price) / count(*), 2) as mean
        from b group by window(date_time, '10 seconds'), channel
        """
    )


@query()
def sql_two_levels_of_windows(s: Sources) -> DataFrame:
    s.view("b", s.bids.withWatermark("date_time", DELAY))
    return s.spark.sql(
        """
        with small as (select window, auction, count(*) as n from b group by window(date_time, '5 seconds'), auction)
        select window.start as since, count(*) as auctions, max(n) as most from small group by window
        """
    )


@query(mode="update", keys=("way",))
def sql_group_by_an_expression(s: Sources) -> DataFrame:
    s.view("e", s.events)
    return s.spark.sql(
        "select case when amount > 0 then 'in' when amount < 0 then 'out' end as way, count(amount) as n from e group by 1"
    )


@query()
def sql_lateral_column_alias(s: Sources) -> DataFrame:
    s.view("b", s.bids)
    return s.spark.sql("select auction, price * 2 as double, double + 1 as more from b where price < 5000")
