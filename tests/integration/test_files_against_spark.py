"""Files that we write are what Spark reads; files that Spark reads are what we read."""

from __future__ import annotations

import datetime
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import Row, SparkSession
from tests.nodes import connectors_of, planned_sink
from tests.unit.connectors.reading import file_scan, read_all, written
from tests.unit.connectors.test_file_sink import prepared

from tidegate.catalyst.translate import SinkRequest, translate
from tidegate.connectors.files.config import parse_source
from tidegate.connectors.files.discovery import FileEnumerator
from tidegate.connectors.files.footers import earliest_times
from tidegate.connectors.files.found import Found
from tidegate.connectors.files.splits import decode_split
from tidegate.connectors.legacy import Sink
from tidegate.connectors.spark_types import spark_schema
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field, Schema
from tidegate.operators.columns import polars_schema
from tidegate.plan.relational import Sink as PlanSink

pytestmark = pytest.mark.spark

MOMENT = datetime.datetime(2024, 5, 1, 12, 30, 0, 123456, tzinfo=datetime.UTC)
FLAT: Schema = (
    Field("l", t.LONG), Field("i", t.INTEGER), Field("s", t.STRING), Field("d", t.DOUBLE), Field("b", t.BOOLEAN),
    Field("dec", t.Decimal(12, 3)), Field("big", t.Decimal(30, 4)), Field("day", t.DATE), Field("ts", t.TIMESTAMP),
    Field("ntz", t.TIMESTAMP_NTZ),
)  # fmt: skip
NESTED: Schema = (
    *FLAT,
    Field("xs", t.Array(t.LONG)),
    Field("st", t.Struct((Field("at", t.TIMESTAMP), Field("name", t.STRING)))),
    Field("raw", t.BINARY),
)
MAPS: Schema = (*NESTED, Field("m", t.Map(t.STRING, t.Array(t.INTEGER))))
LINE: tuple[Any, ...] = (
    2**62, -7, 'a "quoted", text\\ with ä', 0.1, True, Decimal("123.456"), Decimal("12345678901234567890.1234"),
    datetime.date(2024, 2, 29), MOMENT, MOMENT.replace(tzinfo=None),
)  # fmt: skip
ODD: tuple[Any, ...] = (
    0,
    0,
    " padded ",
    float("nan"),
    False,
    Decimal("-0.001"),
    Decimal(0),
    datetime.date(1970, 1, 1),
    MOMENT,
    None,
)
INFINITE: tuple[Any, ...] = (1, None, None, float("-inf"), None, None, None, None, None, None)


def rows_of(schema: Schema) -> pl.DataFrame:
    nested: list[dict[str, Any]] = [
        {"xs": [1, None], "st": {"at": MOMENT, "name": "x"}, "raw": b"\x00\xff", "m": [{"key": "k", "value": [1, 2]}]},
        {"xs": [], "st": {"at": None, "name": None}, "raw": b"", "m": []},
        {"xs": None, "st": None, "raw": None, "m": None},
    ]
    flat = [dict(zip((f.name for f in FLAT), line, strict=True)) for line in (LINE, ODD, INFINITE)]
    wanted = [field.name for field in schema]
    return pl.DataFrame(
        [{name: (one | more)[name] for name in wanted} for one, more in zip(flat, nested, strict=True)],
        schema=polars_schema(schema),
    )


def committed(path: Path, form: str, schema: Schema, partition_by: tuple[str, ...] = (), **options: str) -> None:
    sink = Sink(
        id=OperatorId("sink-0"), format=form, options={"path": str(path), "tidegate.pipeline": "p", **options},
        columns=tuple((field.name, field.name) for field in schema), schema=schema, partition_by=partition_by,
    )  # fmt: skip
    committed_to(planned_sink(sink), rows_of(schema))


def committed_frame(path: Path, form: str, schema: Schema, rows: pl.DataFrame, options: dict[str, str]) -> None:
    sink = Sink(
        id=OperatorId("sink-0"), format=form, options={"path": str(path), "tidegate.pipeline": "p", **options},
        columns=tuple((field.name, field.name) for field in schema), schema=schema,
    )  # fmt: skip
    committed_to(planned_sink(sink), rows)


def committed_to(sink: PlanSink, rows: pl.DataFrame) -> None:
    connectors = connectors_of()
    writer = connectors.writer(sink, Attempt(1), SlotIndex(0))
    writer.write(rows)
    connectors.committer(sink).commit(prepared(writer, 1))


def local(value: Any) -> Any:
    """As PySpark hands it out."""
    match value:
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone().replace(tzinfo=None)
        case dict():
            return Row(**{key: local(item) for key, item in value.items()})
        case _:
            return value


def comparable(rows: list[Any]) -> list[tuple[str, ...]]:
    return sorted(tuple(repr(value) for value in row) for row in rows)


@pytest.mark.parametrize(("form", "schema"), [("parquet", MAPS), ("json", NESTED), ("csv", FLAT)])
def test_spark_reads_what_the_sink_wrote_with_every_type(
    spark: SparkSession, tmp_path: Path, form: str, schema: Schema
) -> None:
    committed(tmp_path, form, schema)
    reader = spark.read if form == "parquet" else spark.read.schema(spark_schema(schema))
    frame = reader.format(form).load(str(tmp_path))
    assert frame.schema.simpleString() == spark_schema(schema).simpleString()
    maps = {"m": [{"k": [1, 2]}, {}, None]}
    ours = [
        tuple(maps[name][n] if name in maps else local(value) for name, value in zip(frame.columns, row, strict=True))
        for n, row in enumerate(rows_of(schema).rows())
    ]
    if form == "csv":  # Spark's defaults read spaces around a value as they are, and so they come back.
        ours = [tuple(value for value in row) for row in ours]
    assert comparable(frame.collect()) == comparable(ours)


def test_spark_infers_the_partition_columns_of_our_directories(spark: SparkSession, tmp_path: Path) -> None:
    committed(tmp_path, "parquet", FLAT, partition_by=("day", "b"))
    frame = spark.read.schema(spark_schema(FLAT)).parquet(str(tmp_path))
    found = {(row.day, row.b, row.l) for row in frame.collect()}
    assert found == {(datetime.date(2024, 2, 29), True, 2**62), (datetime.date(1970, 1, 1), False, 0), (None, None, 1)}


CSV_LINES = r"""1,plain,2024-05-01T10:00:00Z,1.5
2,"quoted, text",2024-05-01 10:00:00,-2
3,"esc\"aped\\",2024-05-01T10:00:00.123456+02:00,1e3
4,"doubled""quote",2024-05-01,NaN
x,,not a time,abc
5,"open,2024-05-01,1
6
7,a,2024-05-01 1:2:3,4,too,many
 8, spaced ,2024-05,5
9,"",2024,Inf
"""
CSV_SCHEMA: Schema = (
    Field("n", t.INTEGER),
    Field("s", t.STRING),
    Field("ts", t.TIMESTAMP),
    Field("d", t.Decimal(10, 1)),
)
JSON_LINES = """{"n": 1, "s": "x", "ts": "2024-05-01T10:00:00Z", "d": 1.25, "xs": [1, 2]}
{"n": "no", "s": 5, "ts": 1714557600, "d": "2.25"}
not json at all
{"n": 1.5, "s": {"a": 1}, "ts": "2024-05-01 10:00", "xs": null}

{"n": 99999999999, "s": true, "ts": "2024-05-01", "d": 3}
{"s": null}
"""
JSON_SCHEMA: Schema = (
    Field("n", t.INTEGER), Field("s", t.STRING), Field("ts", t.TIMESTAMP), Field("d", t.Decimal(10, 1)), Field("xs", t.Array(t.LONG)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("form", "text", "schema", "options"),
    [
        ("csv", CSV_LINES, CSV_SCHEMA, {}),
        ("csv", CSV_LINES, CSV_SCHEMA, {"escape": '"'}),
        ("csv", CSV_LINES, CSV_SCHEMA, {"header": "true", "nullValue": "plain"}),
        ("json", JSON_LINES, JSON_SCHEMA, {}),
        ("text", CSV_LINES, (Field("value", t.STRING),), {}),
    ],
)
def test_we_read_odd_files_as_spark_does(
    spark: SparkSession, tmp_path: Path, form: str, text: str, schema: Schema, options: dict[str, str]
) -> None:
    written(tmp_path / f"x.{form}", text)
    zone = spark.conf.get("spark.sql.session.timeZone")
    ours = read_all(file_scan(form, tmp_path, schema, timeZone=zone, **options))
    theirs = spark.read.schema(spark_schema(schema)).options(**options).format(form).load(str(tmp_path)).collect()
    assert comparable([tuple(local(value) for value in row) for row in ours]) == comparable(theirs)


TEXT_ROWS: Schema = (
    Field("s", t.STRING), Field("n", t.LONG), Field("d", t.DOUBLE), Field("day", t.DATE), Field("ts", t.TIMESTAMP), Field("ntz", t.TIMESTAMP_NTZ),
)  # fmt: skip
TEXT_VALUES: list[tuple[Any, ...]] = [
    ("plain", 1, 0.5, datetime.date(2024, 2, 29), MOMENT, MOMENT.replace(tzinfo=None)),
    ("", None, float("nan"), datetime.date(1999, 12, 31), MOMENT.replace(month=12, hour=23), None),
    (None, -5, float("-inf"), None, None, MOMENT.replace(tzinfo=None, hour=0, microsecond=0)),
    ('say "x", y', 7, 12.75, datetime.date(2024, 2, 1), MOMENT.replace(microsecond=1000), None),
    ("back\\slash", 8, -2.25, None, MOMENT.replace(microsecond=0), None),
]
PATTERNS = {"dateFormat": "dd/MM/yy EEE", "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSXXX", "timestampNTZFormat": "MMM d, yyyy h:mm a"}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("csv", PATTERNS),
        ("csv", {**PATTERNS, "quoteAll": "true"}),
        ("csv", {**PATTERNS, "quoteAll": "true", "nullValue": "NULL", "emptyValue": "none", "header": "true"}),
        ("csv", {**PATTERNS, "escapeQuotes": "false", "sep": ";", "emptyValue": ""}),
        ("csv", {**PATTERNS, "nullValue": "plain", "escape": '"', "header": "true"}),
        ("json", PATTERNS),
        ("json", {**PATTERNS, "ignoreNullFields": "false", "timeZone": "America/New_York"}),
    ],
)
def test_options_mean_what_they_mean_to_sparks_own_writer(
    spark: SparkSession, tmp_path: Path, form: str, options: dict[str, str]
) -> None:
    """Line for line the same text."""
    frame = pl.DataFrame(TEXT_VALUES, schema=polars_schema(TEXT_ROWS), orient="row")
    committed_frame(tmp_path / "ours", form, TEXT_ROWS, frame, options)
    (ours,) = (tmp_path / "ours").glob("part-*")
    shown = [tuple(local(value) for value in row) for row in TEXT_VALUES]
    theirs = spark.createDataFrame(shown, spark_schema(TEXT_ROWS)).coalesce(1).write.format(form).options(**options)
    theirs.save(str(tmp_path / "theirs"))
    (file,) = (tmp_path / "theirs").glob("part-*")
    assert ours.read_text().splitlines() == file.read_text().splitlines()


def test_text_is_written_as_spark_writes_it(spark: SparkSession, tmp_path: Path) -> None:
    schema: Schema = (Field("value", t.STRING),)
    values = [("a",), (None,), ("",), ('ü \\ "x"',)]
    committed_frame(
        tmp_path / "ours", "text", schema, pl.DataFrame(values, schema=polars_schema(schema), orient="row"), {}
    )
    (ours,) = (tmp_path / "ours").glob("part-*")
    spark.createDataFrame(values, "value string").coalesce(1).write.text(str(tmp_path / "theirs"))
    (theirs,) = (tmp_path / "theirs").glob("part-*")
    assert ours.read_bytes() == theirs.read_bytes()
    assert sorted(row.value for row in spark.read.text(str(tmp_path / "ours")).collect()) == sorted(
        v or "" for (v,) in values
    )


def test_times_in_names_of_directories_are_in_the_sessions_zone(spark: SparkSession, tmp_path: Path) -> None:
    """Where Spark, in the same session, looks for them."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        request = SinkRequest("parquet", {"path": str(tmp_path)}, ("timestamp",))
        sink = translate(spark.readStream.format("rate").load(), mode=OutputMode.APPEND, sink=request).plan
        committed_to(sink, pl.DataFrame([(MOMENT, 1)], schema=polars_schema(sink.schema), orient="row"))
        assert [path.name[:23] for path in tmp_path.glob("timestamp=*")] == ["timestamp=2024-05-01 21"]
        read = spark.read.schema("value bigint, timestamp timestamp").parquet(str(tmp_path))
        assert [tuple(row) for row in read.selectExpr("unix_micros(timestamp)", "value").collect()] == [
            (int(MOMENT.timestamp() * 1_000_000), 1)
        ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def batches_of_spark(spark: SparkSession, inbox: Path, checkpoints: Path, **limits: int) -> list[list[str]]:
    """Names of the files that a run of Structured Streaming reads together, by its own log."""
    reader = spark.readStream.format("text")
    for name, value in limits.items():
        reader = reader.option(name, value)
    writer = reader.load(str(inbox)).writeStream.format("noop").option("checkpointLocation", str(checkpoints))
    writer.trigger(availableNow=True).start().awaitTermination()
    logs = sorted(
        (log for log in (checkpoints / "sources" / "0").iterdir() if log.name.isdigit()), key=lambda log: int(log.name)
    )
    return [[Path(json.loads(line)["path"]).name for line in log.read_text().splitlines()[1:]] for log in logs]


def batches_of_ours(inbox: Path, **limits: int) -> list[list[str]]:
    scan = file_scan("text", inbox, (Field("value", t.STRING),), **limits)
    found = FileEnumerator(parse_source(scan), bounded=True).discover(0)
    batches: list[list[str]] = [[]]
    for split in found:
        if split.cut:
            batches.append([])
        batches[-1].append(Path(decode_split(split.payload).path).name)
    return batches


@pytest.mark.parametrize("limits", [{"maxFilesPerTrigger": 3}, {"maxBytesPerTrigger": 100}, {"maxBytesPerTrigger": 1}])
def test_limits_make_the_batches_that_spark_makes(spark: SparkSession, tmp_path: Path, limits: dict[str, int]) -> None:
    """Oldest first, whatever the names; a file that is larger than the limit is a batch of its own."""
    inbox = tmp_path / "in"
    for age, (name, size_bytes) in enumerate(zip("hcagbfed", (60, 40, 1, 500, 99, 1, 1, 70), strict=True)):
        path = written(inbox / name, "x" * size_bytes)
        os.utime(path, (1_700_000_000 + age, 1_700_000_000 + age))
    assert batches_of_ours(inbox, **limits) == batches_of_spark(spark, inbox, tmp_path / "checkpoints", **limits)


def test_both_limits_are_refused_as_spark_refuses_them(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path / "in" / "a", "x")
    both = {"maxFilesPerTrigger": 1, "maxBytesPerTrigger": 1}
    with pytest.raises(Exception, match="can't be both set"):
        batches_of_spark(spark, tmp_path / "in", tmp_path / "checkpoints", **both)
    with pytest.raises(InvalidQuery, match="both"):
        batches_of_ours(tmp_path / "in", **both)


def test_what_spark_writes_says_its_times_in_microseconds_and_not_in_int96(spark: SparkSession, tmp_path: Path) -> None:
    for kind, known in (("TIMESTAMP_MICROS", True), ("TIMESTAMP_MILLIS", True), ("INT96", False)):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        try:
            spark.range(3).selectExpr("timestamp_micros(-1500000 + id * 1000000) as at").coalesce(1).write.parquet(
                str(tmp_path / kind)
            )
        finally:
            spark.conf.unset("spark.sql.parquet.outputTimestampType")
        (path,) = (tmp_path / kind).glob("*.parquet")
        (earliest,) = earliest_times(
            [Found(0, str(path), path.stat().st_size)],
            "at",
            lambda name, start, stop: Path(name).read_bytes()[start:stop],
        )
        assert earliest == (-1_500_000 if known else None), kind
