"""Values as lines of text: what the options of the json, csv and text sinks change."""

from __future__ import annotations

import bz2
import datetime
import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.unit.connectors.reading import file_scan, read_all
from tests.unit.connectors.test_file_sink import files, prepared

from tidegate.connectors.files.committer import FileSinkCommitter
from tidegate.connectors.files.date_patterns import printer
from tidegate.connectors.files.sink import FileSink, FileSinkWriter
from tidegate.connectors.files.sink_config import parse_sink
from tidegate.connectors.files.staging import StagingNames
from tidegate.connectors.legacy import Sink
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.types import Field, Schema
from tidegate.operators.columns import polars_schema

MOMENT = datetime.datetime(2024, 1, 5, 7, 8, 9, 123456, tzinfo=datetime.UTC)
TIMES: Schema = (Field("day", t.DATE), Field("at", t.TIMESTAMP), Field("wall", t.TIMESTAMP_NTZ))
TIMES_ROW = (MOMENT.date(), MOMENT, MOMENT.replace(tzinfo=None))


def sink_of(path: Path, form: str, schema: Schema, partition_by: tuple[str, ...] = (), **options: Any) -> Sink:
    return Sink(
        id=OperatorId("sink-0"), format=form, options={"path": str(path), "tidegate.pipeline": "p", **options},
        columns=tuple((field.name, field.name) for field in schema), schema=schema, partition_by=partition_by,
    )  # fmt: skip


def written_by(path: Path, form: str, schema: Schema, rows: list[tuple[Any, ...]], **options: Any) -> bytes:
    sink = sink_of(path, form, schema, **options)
    to = FileSink().writer(sink, Attempt(1), SlotIndex(0))
    to.write(pl.DataFrame(rows, schema=polars_schema(schema), orient="row"))
    FileSinkCommitter(sink).commit(prepared(to, 1))
    (file,) = files(path)
    return file.read_bytes()


STRING = (Field("value", t.STRING),)


def test_text_is_one_line_per_row_and_an_empty_one_for_null(tmp_path: Path) -> None:
    assert written_by(tmp_path, "text", STRING, [("a",), (None,), ("ü b",)]) == "a\n\nü b\n".encode()
    (file,) = files(tmp_path)
    assert file.name.endswith(".txt")
    assert read_all(file_scan("text", tmp_path, STRING)) == [("a",), ("",), ("ü b",)]


@pytest.mark.parametrize(("compression", "read", "ending"), [("gzip", gzip.decompress, "txt.gz"), ("bzip2", bz2.decompress, "txt.bz2")])  # fmt: skip
def test_text_is_compressed_and_named_so(tmp_path: Path, compression: str, read: Any, ending: str) -> None:
    data = written_by(tmp_path, "text", STRING, [("a",), ("b",)], compression=compression, lineSep="|")
    assert read(data) == b"a|b|" and files(tmp_path)[0].name.endswith(ending)


def test_text_may_have_partition_columns_beside_its_string(tmp_path: Path) -> None:
    schema = (Field("value", t.STRING), Field("day", t.DATE))
    data = written_by(tmp_path, "text", schema, [("a", MOMENT.date())], partition_by=("day",))
    assert data == b"a\n" and files(tmp_path)[0].parent.name == "day=2024-01-05"


@pytest.mark.parametrize("schema", [TIMES, (Field("n", t.LONG),), (*STRING, Field("more", t.STRING))])
def test_text_of_anything_but_one_string_is_refused(tmp_path: Path, schema: Schema) -> None:
    with pytest.raises(InvalidQuery, match="one column of strings"):
        parse_sink(sink_of(tmp_path, "text", schema))


def test_json_leaves_nulls_out_unless_told_otherwise(tmp_path: Path) -> None:
    inner = t.Struct((Field("x", t.LONG), Field("y", t.DOUBLE)))
    schema = (Field("a", t.LONG), Field('q"t', t.STRING), Field("s", inner))
    rows: list[tuple[Any, ...]] = [
        (1, None, {"x": None, "y": float("nan")}),
        (None, "}\n{", None),
        (None, None, {"x": 1, "y": None}),
        (None, None, None),
    ]
    lines = written_by(tmp_path / "left out", "json", schema, rows).decode().splitlines()
    assert lines == ['{"a":1,"s":{"y":"NaN"}}', '{"q\\"t":"}\\n{"}', '{"s":{"x":1}}', "{}"]
    kept = written_by(tmp_path / "kept", "json", schema, rows, ignoreNullFields="false").decode().splitlines()
    assert [json.loads(line) for line in kept] == [
        {"a": 1, 'q"t': None, "s": {"x": None, "y": "NaN"}},
        {"a": None, 'q"t': "}\n{", "s": None},
        {"a": None, 'q"t': None, "s": {"x": 1, "y": None}},
        {"a": None, 'q"t': None, "s": None},
    ]


def test_json_writes_rows_in_their_order_whatever_their_numbers_are(tmp_path: Path) -> None:
    rows: list[tuple[Any, ...]] = [(1.5,), (float("inf"),), (2.5,), (float("-inf"),), (float("nan"),)]
    data = written_by(tmp_path, "json", (Field("d", t.DOUBLE),), rows)
    assert [json.loads(line)["d"] for line in data.splitlines()] == [1.5, "Infinity", 2.5, "-Infinity", "NaN"]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_dates_and_times_are_printed_by_their_patterns(tmp_path: Path, form: str) -> None:
    data = written_by(
        tmp_path, form, TIMES, [TIMES_ROW, (None, None, None)],
        dateFormat="dd.MM.yyyy", timestampFormat="yyyy/M/d HH:mm:ss.SSSXXX", timestampNTZFormat="hh 'o''clock' a",
        timeZone="Europe/Berlin", ignoreNullFields="false",
    )  # fmt: skip
    texts = ["05.01.2024", "2024/1/5 08:08:09.123+01:00", "07 o'clock AM"]
    if form == "csv":
        assert data.decode().splitlines() == [",".join(texts), ",,"]
    else:
        assert [list(json.loads(line).values()) for line in data.splitlines()] == [texts, [None] * 3]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "2024-01-05T07:08:09.123Z"),
        ("yy MMM MMMM E EEEE", "24 Jan January Fri Friday"),
        ("h:m:s a", "7:8:9 AM"),
        ("SSSSSS SS S", "123456 12 1"),
        ("xxx XX Z", "+00:00 Z +0000"),
        ("100% ''", "100% '"),
    ],
)
def test_patterns_mean_what_they_mean_in_java(pattern: str, text: str) -> None:
    frame = pl.DataFrame({"at": [MOMENT, None]}, schema={"at": pl.Datetime("us", "UTC")})
    assert frame.select(printer(pattern, "timestampFormat")(pl.col("at"))).to_series().to_list() == [text, None]


@pytest.mark.parametrize("pattern", ["QQQ", "yyyy-ww", "VV"])
def test_a_pattern_that_cannot_be_printed_is_refused_by_name(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(InvalidQuery, match="timestampFormat"):
        parse_sink(sink_of(tmp_path, "json", TIMES, timestampFormat=pattern))


CSV = (Field("s", t.STRING), Field("n", t.LONG))
CSV_ROWS: list[tuple[Any, ...]] = [("a", 1), ("", 2), (None, None), ('say "x"', 3), ("a,b", 4), ("l1\nl2", 5)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, 'a,1\n"",2\n,\n"say \\"x\\"",3\n"a,b",4\n"l1\nl2",5\n'),
        ({"quoteAll": "true", "nullValue": "-"}, '"a","1"\n"","2"\n"-","-"\n"say \\"x\\"","3"\n"a,b","4"\n"l1\nl2","5"\n'),
        ({"emptyValue": "E", "quoteAll": "true"}, '"a","1"\n"E","2"\n"",""\n"say \\"x\\"","3"\n"a,b","4"\n"l1\nl2","5"\n'),
        ({"emptyValue": "E", "nullValue": "N"}, 'a,1\nE,2\nN,N\n"say \\"x\\"",3\n"a,b",4\n"l1\nl2",5\n'),
        ({"emptyValue": ""}, 'a,1\n,2\n,\n"say \\"x\\"",3\n"a,b",4\n"l1\nl2",5\n'),
        ({"escapeQuotes": "false"}, 'a,1\n"",2\n,\nsay "x",3\n"a,b",4\n"l1\nl2",5\n'),
        ({"lineSep": ";", "header": "true"}, 's,n;a,1;"",2;,;"say \\"x\\"",3;"a,b",4;"l1\nl2",5;'),
    ],
)  # fmt: skip
def test_csv_options(tmp_path: Path, options: dict[str, str], text: str) -> None:
    assert written_by(tmp_path, "csv", CSV, CSV_ROWS, **options).decode() == text


@pytest.mark.parametrize(
    ("form", "option", "value"),
    [
        ("csv", "encoding", "latin1"), ("json", "lineSep", ""), ("csv", "sep", ",,"), ("json", "pretty", "true"),
        ("parquet", "rollingSize", "large"), ("parquet", "rollingInterval", "10"), ("json", "compression", "zip"),
        ("parquet", "sparkMetadataLog", "yes"), ("csv", "timeZone", "Mars/Base"), ("parquet", "retention", "0s"),
    ],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused_by_name(tmp_path: Path, form: str, option: str, value: str) -> None:
    with pytest.raises(InvalidQuery, match=option):
        parse_sink(sink_of(tmp_path, form, CSV, **{option: value}))


def test_a_file_is_ended_when_its_time_is_over(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "csv", CSV, rollingInterval="10s")
    now_s = 0.0
    to = FileSinkWriter(parse_sink(sink), StagingNames.of(sink), Attempt(1), SlotIndex(0), clock=lambda: now_s)
    for now_s in (0.0, 6.0, 12.0, 13.0, 22.0, 24.0):
        to.write(pl.DataFrame([("a", int(now_s))], schema=polars_schema(CSV), orient="row"))
    FileSinkCommitter(sink).commit(prepared(to, 1))
    assert [file.read_text() for file in files(tmp_path)] == ["a,0\na,6\na,12\n", "a,13\na,22\na,24\n"]
