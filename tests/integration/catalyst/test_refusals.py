"""Everything that cannot run is refused before anything starts: named, located, with a way out, in a few lines."""

from __future__ import annotations

import pandas as pd
import pytest
from pyspark.sql import functions as F

from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark

CHECKS = {
    "rand() behind an alias": ("SELECT price, rand() AS noise FROM catalyst_bid", ["rand()", "AS noise", "SELECT"]),
    "randn() deep inside": ("SELECT * FROM (SELECT price + cast(randn(3) AS int) AS z FROM catalyst_bid) WHERE z > 3", ["randn()", "SELECT"]),
    "uuid()": ("SELECT uuid() AS id FROM catalyst_bid", ["uuid()"]),
    "shuffle()": ("SELECT shuffle(array(price, bidder)) AS s FROM catalyst_bid", ["shuffle()"]),
    "monotonically_increasing_id()": ("SELECT monotonically_increasing_id() AS id FROM catalyst_bid", ["monotonically_increasing_id()"]),
    "spark_partition_id()": ("SELECT spark_partition_id() AS id FROM catalyst_bid", ["spark_partition_id()"]),
    "input_file_name() of no file": ("SELECT input_file_name() AS f FROM catalyst_bid", ["'input_file_name'", "straight from files"]),
    "current_time()": ("SELECT current_time() AS c FROM catalyst_bid", ["current_time()", "current_timestamp()"]),
    "a Java method": ("SELECT reflect('java.util.UUID', 'randomUUID') AS u FROM catalyst_bid", ["reflect", "not deterministic"]),
    "an unsupported function": ("SELECT price FROM catalyst_bid WHERE xpath_string(url, 'a') = 'x'", ["'xpath'", "xpath(url", "WHERE"]),
    "an order of one's own": ("SELECT array_sort(split(url, '/'), (a, b) -> length(a) - length(b)) AS u FROM catalyst_bid", ["array_sort"]),
    "ORDER BY": ("SELECT price FROM catalyst_bid ORDER BY price", ["Sorting", "sort what the sink holds"]),
    "row_number()": ("SELECT row_number() OVER (PARTITION BY auction ORDER BY price) AS r FROM catalyst_bid", ["row_number"]),
    "a column of months": ("SELECT make_ym_interval(0, 1) AS later FROM catalyst_bid", ["interval year to month"]),
    "a collation": ("SELECT price FROM catalyst_bid WHERE url COLLATE UTF8_LCASE = 'a'", ["UTF8_LCASE"]),
    "a collated column": ("SELECT CAST(url AS STRING COLLATE UTF8_LCASE) AS u FROM catalyst_bid", ["UTF8_LCASE", "'u'"]),
    "variant": ("SELECT parse_json(url) AS v FROM catalyst_bid", ["variant"]),
    "the same name twice": ("SELECT price, auction AS price FROM catalyst_bid", ["more than one column named 'price'"]),
    "an aggregate that is not built": ("SELECT hll_sketch_agg(price) AS p FROM catalyst_bid GROUP BY auction", ["hll_sketch_agg", "GROUP BY"]),
}  # fmt: skip


def assert_readable(error: InvalidQuery) -> None:
    text = str(error)
    assert error.hint, "a way out"
    assert len(text.splitlines()) == 2
    assert len(text) < 900
    for noise in ("\tat ", "java.", "org.apache", "py4j", "Traceback", "StreamingRelation"):
        assert noise not in text.replace("java.util.UUID", ""), noise


def refused(translated, frame, mode: str = "append") -> str:
    with pytest.raises(InvalidQuery) as caught:
        translated(frame, mode)
    assert_readable(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("case", CHECKS)
def test_sql_that_is_refused_says_what_and_where(spark, bids, translated, case):
    sql, words = CHECKS[case]
    text = refused(translated, spark.sql(sql), "update" if "GROUP BY" in sql else "append")
    for word in words:
        assert word in text


def test_the_clock_may_be_read_on_the_static_side(spark, bids, translated):
    today = spark.range(3).withColumn("day", F.current_date())
    translated(bids.join(today, bids.auction == today.id).select("price", "day"))


def test_two_streams_are_joined_by_equal_columns(timed, translated):
    other = timed.select(F.col("auction").alias("id"), F.col("date_time").alias("at"))
    text = refused(translated, timed.join(other, F.expr("at BETWEEN date_time AND date_time + INTERVAL 1 MINUTE")))
    assert "without an equality" in text
    assert "a.id = b.id" in text


def test_two_streams_are_not_anti_joined(timed, translated):
    """That a row has no partner would be known only at the end."""
    other = timed.select(F.col("auction").alias("id"), F.col("date_time").alias("at"))
    on = F.expr("auction = id AND at BETWEEN date_time AND date_time + INTERVAL 1 MINUTE")
    assert "join" in refused(translated, timed.join(other, on, "left_anti")).lower()


def test_an_outer_join_of_two_streams_needs_event_time(bids, translated):
    other = bids.select(F.col("auction").alias("id"))
    assert "watermark" in refused(translated, bids.join(other, F.expr("auction = id"), "left"))


@pytest.mark.parametrize("kind", ["right", "full", "left_static"])
def test_static_rows_without_a_partner_cannot_be_kept(spark, bids, translated, kind):
    static = spark.range(3)
    joined = (
        static.join(bids, bids.auction == static.id, "left")
        if kind == "left_static"
        else bids.join(static, bids.auction == static.id, kind)
    )
    assert "left'" in refused(translated, joined.select("price"))


def test_sessions_are_not_updated(timed, translated):
    """A session that grows takes the place of others, which an update cannot say."""
    sessions = timed.groupBy("auction", F.session_window("date_time", "5 seconds")).count()
    assert "session window" in refused(translated, sessions, "update")


def test_a_limit_is_not_updated(bids, translated):
    assert "Limits are not supported" in refused(translated, bids.limit(3), "update")


def test_a_stream_without_an_aggregation_has_no_complete_result(bids, translated):
    assert "no streaming aggregations" in refused(translated, bids, "complete")
    limited = bids.limit(3).groupBy("auction").count()
    assert "limit() below an aggregation" in refused(translated, limited, "complete")


def test_arrays_have_no_order_here(bids, translated):
    lists = bids.groupBy("auction").agg(F.collect_list("price").alias("p"))
    assert "array" in refused(translated, lists.orderBy("p"), "complete")


def test_functions_of_whole_groups_are_refused(bids, translated):
    grouped = bids.groupBy("auction").applyInPandas(lambda frame: frame, bids.schema)
    assert "applyInPandas" in refused(translated, grouped)


def test_pandas_aggregates_are_refused(timed, translated):
    @F.pandas_udf("double")
    def middle(values: pd.Series) -> float:
        return float(values.median())

    query = timed.groupBy(F.window("date_time", "5 seconds")).agg(middle("price").alias("m"))
    assert "'middle'" in refused(translated, query)


def test_append_without_a_watermark_explains_when_groups_are_written(bids, timed, translated):
    for frame in (bids.groupBy("auction").count(), timed.groupBy("auction").count()):
        text = refused(translated, frame)
        assert "withWatermark" in text
        assert "outputMode('update')" in text


def test_spark_rules_are_kept_without_advice_to_silence_them(timed, translated):
    query = timed.groupBy(F.window("date_time", "5 seconds"), "auction").count().groupBy("window").count()
    text = refused(translated, query, "update")
    assert "append mode" in text
    assert "checkCorrectness" not in text


def test_a_union_with_static_rows_is_refused(spark, bids, translated):
    assert "Union" in refused(translated, bids.select("price").union(spark.range(3)))


def test_a_watermark_in_months_is_refused(bids, translated):
    assert "month" in refused(translated, bids.withWatermark("date_time", "1 month").groupBy("date_time").count())


def test_event_time_is_not_defined_twice(bids, timed, translated):
    """Structured Streaming says so when the query runs."""
    arrived = F.col("date_time").alias("at")
    for frame in (
        timed.withWatermark("date_time", "9 seconds"),
        timed.select("auction", "date_time", arrived).where("auction > 1").withWatermark("at", "1 second"),
        timed.select("auction", arrived).withWatermark("at", "1 second"),
        timed.union(timed).withWatermark("date_time", "1 second"),
        timed.dropDuplicates(["auction"]).withWatermark("date_time", "1 second"),
        timed.dropDuplicatesWithinWatermark(["auction"]).repartition(2).withWatermark("date_time", "1 second"),
        timed.select("date_time").distinct().withWatermark("date_time", "1 second"),
    ):
        text = refused(translated, frame)
        assert "stands behind withWatermark('date_time', …)" in text and "keep one of the two" in text
    counted = timed.groupBy(F.window("date_time", "5 seconds")).count()
    translated(counted.select(F.col("window.end").alias("at")).withWatermark("at", "1 second"))


def test_sample_and_observe_are_refused(bids, translated):
    assert "sample()" in refused(translated, bids.sample(0.5))
    assert "observe()" in refused(translated, bids.observe("seen", F.count("*").alias("n")))


def test_what_is_no_stream_is_refused(spark, translated):
    assert "not a stream" in refused(translated, spark.range(3))
    assert "not a list" in refused(translated, [1, 2])


def test_a_spark_connect_frame_is_refused(translated):
    fake = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    assert "Spark Connect" in refused(translated, fake)


def test_partition_columns_must_exist(bids, translated):
    with pytest.raises(InvalidQuery, match="partitionBy names 'colour'") as caught:
        translated(bids.select("price"), partition_by=("colour",))
    assert_readable(caught.value)


def test_a_broadcast_variable_in_a_function_is_refused(spark, bids, translated):
    shared = spark.sparkContext.broadcast({1: 2})
    lookup = F.udf(lambda x: shared.value.get(x), "long")
    assert "broadcast" in refused(translated, bids.select(lookup("price").alias("a")))
