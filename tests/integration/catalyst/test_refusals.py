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
    "current_timestamp() in a filter": ("SELECT price FROM catalyst_bid WHERE date_time < current_timestamp()", ["current_timestamp()", "WHERE"]),
    "now()": ("SELECT now() AS n FROM catalyst_bid", ["now()"]),
    "current_date()": ("SELECT price FROM catalyst_bid WHERE to_date(date_time) = current_date()", ["current_date()", "WHERE"]),
    "localtimestamp()": ("SELECT localtimestamp() AS l FROM catalyst_bid", ["localtimestamp()"]),
    "unix_timestamp() of now": ("SELECT unix_timestamp() AS u FROM catalyst_bid", ["current_timestamp()"]),
    "uuid()": ("SELECT uuid() AS id FROM catalyst_bid", ["uuid()"]),
    "shuffle()": ("SELECT shuffle(array(price, bidder)) AS s FROM catalyst_bid", ["shuffle()"]),
    "monotonically_increasing_id()": ("SELECT monotonically_increasing_id() AS id FROM catalyst_bid", ["monotonically_increasing_id()"]),
    "spark_partition_id()": ("SELECT spark_partition_id() AS id FROM catalyst_bid", ["spark_partition_id()"]),
    "input_file_name()": ("SELECT input_file_name() AS f FROM catalyst_bid", ["input_file_name()"]),
    "a Java method": ("SELECT reflect('java.util.UUID', 'randomUUID') AS u FROM catalyst_bid", ["reflect", "not deterministic"]),
    "an unsupported function": ("SELECT price FROM catalyst_bid WHERE soundex(url) = 'x'", ["'soundex'", "soundex(url)", "WHERE"]),
    "a function with a lambda": ("SELECT transform(split(url, '/'), x -> upper(x)) AS u FROM catalyst_bid", ["'transform'", "lambda"]),
    "SELECT DISTINCT": ("SELECT DISTINCT price FROM catalyst_bid", ["DISTINCT"]),
    "UNION without ALL": ("SELECT price FROM catalyst_bid UNION SELECT auction FROM catalyst_bid", ["UNION without ALL"]),
    "LIMIT": ("SELECT price FROM catalyst_bid LIMIT 3", ["limit()"]),
    "ORDER BY": ("SELECT price FROM catalyst_bid ORDER BY price", ["orderBy()"]),
    "row_number()": ("SELECT row_number() OVER (PARTITION BY auction ORDER BY price) AS r FROM catalyst_bid", ["row_number"]),
    "explode()": ("SELECT explode(split(url, '/')) AS part FROM catalyst_bid", ["explode()"]),
    "IN beside OR": ("SELECT price FROM catalyst_bid WHERE price IN (SELECT id FROM range(3)) OR auction = 1", ["IN or EXISTS", "OR"]),
    "a month": ("SELECT date_time + INTERVAL 1 MONTH AS later FROM catalyst_bid", ["interval month"]),
    "a collation": ("SELECT price FROM catalyst_bid WHERE url COLLATE UTF8_LCASE = 'a'", ["UTF8_LCASE"]),
    "a collated column": ("SELECT CAST(url AS STRING COLLATE UTF8_LCASE) AS u FROM catalyst_bid", ["UTF8_LCASE", "'u'"]),
    "variant": ("SELECT parse_json(url) AS v FROM catalyst_bid", ["variant"]),
    "the same name twice": ("SELECT price, auction AS price FROM catalyst_bid", ["more than one column named 'price'"]),
    "an aggregate that is not built": ("SELECT percentile_approx(price, 0.5) AS p FROM catalyst_bid GROUP BY auction", ["percentile_approx", "GROUP BY"]),
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


def test_a_function_of_time_that_the_optimiser_folds_is_found(bids, translated):
    assert "current_timestamp() AS seen" in refused(translated, bids.withColumn("seen", F.current_timestamp()))


def test_the_clock_may_be_read_on_the_static_side(spark, bids, translated):
    today = spark.range(3).withColumn("day", F.current_date())
    translated(bids.join(today, bids.auction == today.id).select("price", "day"))


def test_two_streams_cannot_be_joined(timed, translated):
    other = timed.select(F.col("auction").alias("id"), F.col("date_time").alias("at"))
    assert "join of two streams" in refused(translated, timed.join(other, F.expr("auction = id AND at > date_time")))


@pytest.mark.parametrize("kind", ["right", "full", "left_static"])
def test_static_rows_without_a_partner_cannot_be_kept(spark, bids, translated, kind):
    static = spark.range(3)
    joined = (
        static.join(bids, bids.auction == static.id, "left")
        if kind == "left_static"
        else bids.join(static, bids.auction == static.id, kind)
    )
    assert "left'" in refused(translated, joined.select("price"))


@pytest.mark.parametrize("way", ["dropDuplicates", "dropDuplicatesWithinWatermark", "distinct"])
def test_duplicates_cannot_be_dropped_yet(timed, translated, way):
    frame = timed.select("price").distinct() if way == "distinct" else getattr(timed, way)(["auction"])
    assert way in refused(translated, frame)


def test_session_windows_are_refused(timed, translated):
    assert "session_window" in refused(translated, timed.groupBy(F.session_window("date_time", "5 seconds")).count())


def test_arbitrary_state_is_refused(bids, translated):
    def keep(key, frames, state):
        yield from frames

    with_state = bids.groupBy("auction").applyInPandasWithState(keep, "a long", "s long", "append", "NoTimeout")
    assert "applyInPandasWithState" in refused(translated, with_state)
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


def test_distinct_over_different_columns_in_one_aggregation_is_refused(timed, translated):
    windows = timed.groupBy(F.window("date_time", "5 seconds"))
    two = windows.agg(F.countDistinct("bidder").alias("a"), F.countDistinct("auction").alias("b"))
    assert "collect_set" in refused(translated, two)
    filtered = windows.agg(F.expr("count(DISTINCT bidder) FILTER (WHERE price > 3)").alias("a"))
    assert "collect_set" in refused(translated, filtered)


def test_hidden_file_columns_are_refused(files, translated):
    assert "'_metadata'" in refused(translated, files.select("id", "_metadata.file_path"))


def test_a_union_with_static_rows_is_refused(spark, bids, translated):
    assert "Union" in refused(translated, bids.select("price").union(spark.range(3)))


def test_a_watermark_in_months_is_refused(bids, translated):
    assert "month" in refused(translated, bids.withWatermark("date_time", "1 month").groupBy("date_time").count())


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
