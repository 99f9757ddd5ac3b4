"""The plan of a query, evaluated on its rows, gives what Spark gives: the last word on names, types, zones and ANSI flags."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import polars as pl
import pytest
from pyspark.sql import functions as F

from tidegate.model.errors import DataError
from tidegate.operators.columns import conform
from tidegate.operators.expressions import Predicate, Projection
from tidegate.plan.expressions import Named
from tidegate.plan.relational import AssignWatermark, Expand, Filter, Plan, Project, Scan, Sink

pytestmark = pytest.mark.spark

UTC = datetime.UTC
ROWS = [
    (
        1,
        10,
        1.5,
        "https://nexmark.com/a/b?x=1",
        Decimal("12.34"),
        datetime.datetime(2024, 2, 29, 23, 59, 59, 999999, UTC),
        True,
    ),
    (2, -7, -0.5, "HTTPS://X.org", Decimal("-0.01"), datetime.datetime(1969, 12, 31, 23, 59, 57, 5, UTC), False),
    (3, 0, math.nan, "", None, datetime.datetime(2024, 3, 31, 1, 30, tzinfo=UTC), None),
    (None, None, None, None, Decimal("99999.99"), None, True),
    (5, 3, 1e10, "12", Decimal("1.00"), datetime.datetime(2024, 12, 31, 12, 0, 0, 1, UTC), False),
]
COLUMNS = "id long, n int, x double, url string, d decimal(10,2), at timestamp, ok boolean"

EXPRESSIONS = [
    "id + n", "n - 3", "id * n", "n / 4", "n % 3", "pmod(n, 3)", "id div 2", "-n", "abs(n)", "try_divide(n, n)", "try_add(id, n)",
    "d * 1.5", "d + n", "round(d, 1)", "floor(x)", "ceil(d)", "n = 10", "n <=> null", "n < 5 AND ok", "ok OR n > 1", "NOT ok",
    "n IN (10, 3)", "n IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)", "url IS NULL", "isnan(x)", "coalesce(n, id, 9)", "nvl2(n, 1, 2)",
    "nullif(n, 10)", "if(n > 0, 'p', 'm')", "CASE WHEN n <> 0 THEN id / n END", "CASE n WHEN 10 THEN 'ten' ELSE url END",
    "upper(url)", "lower(url)", "length(url)", "substring(url, 2, 3)", "left(url, 4)", "right(url, 3)", "concat(url, '!')",
    "concat_ws('-', url, 'x')", "url LIKE 'h%'", "url LIKE '%a_b%'", "url RLIKE '[0-9]+'", "contains(url, 'x')", "trim(url)",
    "regexp_extract(url, '([a-z]+)://', 1)", "regexp_replace(url, '[aeiou]', '*')", "replace(url, 'a', 'A')", "lpad(url, 5, '.')",
    "split(url, '/')", "split(url, '/')[0]", "size(split(url, '/'))", "reverse(url)", "instr(url, 'm')", "repeat(url, 2)",
    "year(at)", "month(at)", "day(at)", "hour(at)", "minute(at)", "second(at)", "dayofweek(at)", "date_trunc('hour', at)",
    "date_trunc('day', at)", "to_date(at)", "date_add(to_date(at), 3)", "datediff(at, DATE'2024-01-01')", "date_format(at, 'yyyy-MM-dd HH:mm')",
    "at + INTERVAL 90 MINUTES", "at - INTERVAL '1' DAY", "unix_timestamp(at)", "at >= TIMESTAMP'2024-03-01 00:00:00'",
    "CAST(n AS string)", "CAST(at AS string)", "CAST(x AS string)", "CAST(n AS decimal(6,2))", "try_cast(url AS int)", "CAST(id AS timestamp)",
    "named_struct('a', n, 'b', url)", "named_struct('a', n, 'b', named_struct('c', id)).b.c", "array(n, 1)", "greatest(n, 3)",
    "md5(url)", "sha1(url)", "sha2(url, 256)", "crc32(url)", "hex(id)", "hex(n)", "hex(url)", "base64(url)", "base64(repeat(url, 9))",
    "split_part(url, '/', 3)", "split_part(url, '/', -1)", "substring_index(url, '/', 3)", "xxhash64(id)", "xxhash64(url, n, x, d, at, ok)",
    "pmod(xxhash64(id), 100) < 5", "window(at, '10 seconds')",
]  # fmt: skip


@pytest.fixture(scope="module")
def frames(spark, tmp_path_factory):
    """The same rows as a batch and as a stream."""
    path = str(tmp_path_factory.mktemp("rows"))
    spark.createDataFrame(ROWS, COLUMNS).coalesce(1).write.mode("overwrite").parquet(path)
    batch = spark.read.schema(COLUMNS).parquet(path)
    return batch, spark.readStream.schema(COLUMNS).parquet(path)


@pytest.fixture(params=["UTC", "Europe/Berlin"])
def zone(spark, request):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


def evaluate(plan: Plan, rows: pl.DataFrame) -> pl.DataFrame:
    """Runs a plan without state over rows named as in the source."""
    match plan:
        case Scan(columns=columns, schema=schema):
            return rows.select(pl.col(old).alias(field.name) for old, field in zip(columns, schema, strict=True))
        case AssignWatermark():
            return evaluate(plan.inputs[0], rows)
        case Filter(condition=condition):
            below = evaluate(plan.inputs[0], rows)
            return Predicate(condition).apply(below)
        case Project(columns=columns, schema=schema):
            return Projection(columns, schema).apply(evaluate(plan.inputs[0], rows))
        case Expand(projections=projections, schema=schema):
            below = evaluate(plan.inputs[0], rows)
            branches = (
                [Named(field.name, one) for field, one in zip(schema, branch, strict=True)] for branch in projections
            )
            return pl.concat(Projection(branch, schema).apply(below) for branch in branches)
        case Sink(columns=columns):
            return evaluate(plan.inputs[0], rows).select(pl.col(old).alias(new) for old, new in columns)
        case _:
            raise AssertionError(type(plan))


def plain(value):
    """Equal values print equally: NaN, time zones, tuples and lists."""
    match value:
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
        case float() if math.isnan(value):
            return "NaN"
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def source_rows(batch, plan: Sink) -> pl.DataFrame:
    scan = plan
    while not isinstance(scan, Scan):
        scan = scan.inputs[0]
    rows = pl.from_arrow(batch.toArrow())
    return conform(rows, scan.spec.schema)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"], indirect=True)
def test_projections_equal_spark(frames, zone, plan_of):
    batch, stream = frames

    columns = [F.expr(text).alias(f"c{index}") for index, text in enumerate(EXPRESSIONS)]
    ours = evaluate(plan_of(stream.where("at IS NOT NULL").select(columns)), source_rows(batch, plan_of(stream)))
    spark_rows = batch.where("at IS NOT NULL").select(columns).toArrow().to_pylist()
    different = {}
    for index, text in enumerate(EXPRESSIONS):
        mine = [plain(value) for value in ours[f"c{index}"].to_list()]
        theirs = [plain(row[f"c{index}"]) for row in spark_rows]
        if mine != theirs:
            different[text] = (mine, theirs)
    assert different == {}


@pytest.mark.parametrize(
    "condition", ["n > 0", "url LIKE '%/%' OR n IS NULL", "at < TIMESTAMP'2024-03-01 00:00:00' AND NOT ok", "x = x"]
)
def test_filters_equal_spark(frames, plan_of, condition):
    batch, stream = frames
    ours = evaluate(plan_of(stream.where(condition).select("id", "n")), source_rows(batch, plan_of(stream)))
    assert ours.rows() == [tuple(row) for row in batch.where(condition).select("id", "n").collect()]


@pytest.mark.parametrize(
    ("length", "slide"), [("10 seconds", "3 seconds"), ("1 minute", "20 seconds"), ("5 seconds", "5 seconds")]
)
def test_sliding_windows_equal_spark(frames, plan_of, length, slide):
    batch, stream = frames
    windows = [F.window("at", length, slide).alias("w"), F.col("n")]
    ours = evaluate(plan_of(stream.select(windows)), source_rows(batch, plan_of(stream)))
    theirs = batch.select(windows).toArrow().to_pylist()
    as_text = sorted(str([plain(row["w"]), row["n"]]) for row in theirs)
    assert sorted(str([plain(row["w"]), row["n"]]) for row in ours.to_dicts()) == as_text


def test_an_error_names_the_expression_as_the_user_wrote_it(frames, plan_of):
    batch, stream = frames
    plan = plan_of(stream.select((F.col("id") / F.col("n")).alias("q")))
    with pytest.raises(DataError, match="id"):
        evaluate(plan, source_rows(batch, plan))
