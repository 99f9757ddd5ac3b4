"""dropDuplicates, distinct, dropDuplicatesWithinWatermark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.differential.compare import canonical
from tests.differential.corpus import DELAY, query
from tests.differential.harness import Admits, Sources


def one_of_each(rows: Callable[[Sources], DataFrame], *keys: str) -> Admits:
    """Every key of ``rows`` once, each with a row that was there: which one is the engine's choice."""

    def admits(batch: Sources, actual: list[Any]) -> str:
        frame = rows(batch)
        positions = [frame.columns.index(key) for key in keys]
        offered = {canonical(tuple(row)) for row in frame.collect()}
        wanted = {tuple(row[at] for at in positions) for row in offered}
        got = [canonical(tuple(row)) for row in actual]
        taken = [tuple(row[at] for at in positions) for row in got]
        if invented := [row for row in got if row not in offered]:
            return f"not among the input: {invented[:5]}"
        if len(taken) != len(set(taken)):
            return f"{len(taken)} rows for {len(set(taken))} keys"
        if missing := wanted - set(taken):
            return f"keys without a row: {sorted(map(repr, missing))[:5]}"
        return "" if wanted else "the query has no result: it would prove nothing"

    return admits


def _events(s: Sources) -> DataFrame:
    return s.events.select("id", "key", "grp", "amount", "ts")


def _timed(s: Sources) -> DataFrame:
    return s.events.select("id", "key", "ts").withWatermark("ts", DELAY)


# dropDuplicates


@query(admits=one_of_each(_events, "key"))
def drop_duplicates_by_a_column_with_nulls(s: Sources) -> DataFrame:
    return _events(s).dropDuplicates(["key"])


@query(admits=one_of_each(_events, "key", "grp"))
def drop_duplicates_by_two_columns(s: Sources) -> DataFrame:
    return _events(s).dropDuplicates(["key", "grp"])


@query(mode="update", keys=("key",), admits=one_of_each(_events, "key"))
def drop_duplicates_in_update_mode(s: Sources) -> DataFrame:
    return _events(s).dropDuplicates(["key"])


@query()
def drop_duplicates_of_whole_rows(s: Sources) -> DataFrame:
    return s.events.select("key", "grp", "flag").dropDuplicates()


@query()
def drop_duplicates_of_rows_that_come_twice(s: Sources) -> DataFrame:
    rows = s.events.select("id", "key", "amount", "ts")
    return rows.union(rows).dropDuplicates(["id"])


@query()
def drop_duplicates_by_floats_with_nan_and_zero(s: Sources) -> DataFrame:
    return s.events.select(F.when(F.col("grp") == 0, -0.0).otherwise(F.col("ratio")).alias("r")).dropDuplicates(["r"])


@query()
def drop_duplicates_by_decimal_date_and_binary(s: Sources) -> DataFrame:
    return s.events.selectExpr("cast(cost % 5 as decimal(3,0)) as c", "year(day) % 7 as d", "raw").dropDuplicates()


@query()
def drop_duplicates_by_a_struct(s: Sources) -> DataFrame:
    return s.events.select("point").dropDuplicates(["point"])


@query()
def drop_duplicates_by_an_array(s: Sources) -> DataFrame:
    return s.events.select("tags").dropDuplicates()


@query()
def drop_duplicates_by_the_event_time(s: Sources) -> DataFrame:
    rows = _timed(s)
    return rows.union(rows).dropDuplicates(["id", "ts"])


@query(
    admits=one_of_each(
        lambda s: _timed(s).selectExpr("id", "key", "date_trunc('minute', ts) as minute"), "key", "minute"
    )
)
def drop_duplicates_by_a_time_computed_from_the_event_time(s: Sources) -> DataFrame:
    return _timed(s).selectExpr("id", "key", "date_trunc('minute', ts) as minute").dropDuplicates(["key", "minute"])


@query(admits=one_of_each(lambda s: _timed(s), "key"))
def drop_duplicates_without_the_event_time_among_the_keys(s: Sources) -> DataFrame:
    return _timed(s).dropDuplicates(["key"])


@query()
def drop_duplicates_of_windows(s: Sources) -> DataFrame:
    return _timed(s).select(F.window("ts", "20 seconds").alias("w"), "key").dropDuplicates(["w", "key"])


@query()
def columns_not_read_after_drop_duplicates(s: Sources) -> DataFrame:
    return s.events.dropDuplicates(["id"]).select("key", "amount")


@query()
def a_filter_above_drop_duplicates(s: Sources) -> DataFrame:
    return s.events.select("key", "grp").dropDuplicates().where("grp > 1 or key is null")


@query()
def windows_over_deduplicated_rows(s: Sources) -> DataFrame:
    rows = _timed(s)
    unique = rows.union(rows).dropDuplicates(["id", "ts"])
    return unique.groupBy(F.window("ts", "10 seconds"), "key").count().selectExpr("window.start", "key", "count")


@query(mode="update", keys=("key",))
def a_running_count_of_deduplicated_rows(s: Sources) -> DataFrame:
    return s.events.dropDuplicates(["id"]).groupBy("key").count()


@query()
def drop_duplicates_of_a_join_with_static_rows(s: Sources) -> DataFrame:
    joined = s.bids.join(s.static("auctions"), F.col("auction") == F.col("id"))
    return joined.select("auction", "item", "seller").dropDuplicates(["auction", "item", "seller"])


@query()
def drop_duplicates_twice(s: Sources) -> DataFrame:
    return s.events.select("key", "grp").dropDuplicates().select("grp").dropDuplicates()


# distinct


@query()
def distinct_rows(s: Sources) -> DataFrame:
    return s.bids.select("auction", "channel").distinct()


@query()
def select_distinct(s: Sources) -> DataFrame:
    s.view("bids_to_compare", s.bids)
    return s.spark.sql("select distinct bidder, channel from bids_to_compare where price > 1000")


@query()
def select_distinct_of_an_expression(s: Sources) -> DataFrame:
    s.view("events_to_compare", s.events)
    return s.spark.sql("select distinct upper(key) as who, amount % 3 as rest from events_to_compare")


@query()
def union_without_all(s: Sources) -> DataFrame:
    s.view("left_events", s.events)
    s.view("right_events", s.table("more"))
    return s.spark.sql("select key, grp from left_events union select key, grp from right_events")


@query(mode="update", keys=("key",))
def group_by_without_an_aggregate(s: Sources) -> DataFrame:
    s.view("events_to_group", s.events)
    return s.spark.sql("select key from events_to_group group by key")


@query()
def select_distinct_windows(s: Sources) -> DataFrame:
    s.view("timed_events", _timed(s))
    return s.spark.sql("select distinct window(ts, '10 seconds').start as at, key from timed_events")


# dropDuplicatesWithinWatermark: Spark batch knows it not, but where all rows of a key lie within the delay the answer is unique.


@query(admits=one_of_each(_timed, "id"))
def within_watermark_by_an_id(s: Sources) -> DataFrame:
    rows = s.events.select("id", "key", "ts")
    return rows.union(rows).withWatermark("ts", DELAY).dropDuplicatesWithinWatermark(["id"])


@query(admits=one_of_each(_timed, "id", "key", "ts"))
def within_watermark_of_whole_rows(s: Sources) -> DataFrame:
    rows = s.events.select("id", "key", "ts")
    return rows.union(rows).withWatermark("ts", DELAY).dropDuplicatesWithinWatermark()


@query(admits=one_of_each(lambda s: s.events.select("key", "id", "ts"), "key"))
def within_a_watermark_longer_than_the_data(s: Sources) -> DataFrame:
    return s.events.select("key", "id", "ts").withWatermark("ts", "1 day").dropDuplicatesWithinWatermark(["key"])
