"""The hidden column of file sources, as Spark writes it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from tidegate.connectors.files.metadata import METADATA, escaped_uri, metadata_of, with_row_index
from tidegate.connectors.files.splits import SourceFile
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Field, Struct

WHOLE = Struct(
    (
        Field("file_path", t.STRING, False),
        Field("file_name", t.STRING, False),
        Field("file_size", t.LONG, False),
        Field("file_block_start", t.LONG, False),
        Field("file_block_length", t.LONG, False),
        Field("file_modification_time", t.TIMESTAMP, False),
        Field("row_index", t.LONG, False),
    )
)


def here(path: Path) -> SourceFile:
    return SourceFile(str(path), str(path))


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/data/part-0.parquet", "/data/part-0.parquet"),
        ("/a b/c%20d", "/a%20b/c%2520d"),
        ("/csv ü%+#/x=ü?.csv", "/csv%20ü%25+%23/x=ü%3F.csv"),
        ("/day=2024-01-01/(a)'!~*&,;:@$", "/day=2024-01-01/(a)'!~*&,;:@$"),
        ('/日本/[a]{b}^`|\\"<>', "/日本/%5Ba%5D%7Bb%7D%5E%60%7C%5C%22%3C%3E"),
        ("/no\u00a0break", "/no%C2%A0break"),
    ],
)
def test_paths_are_escaped_as_java_does(path: str, uri: str) -> None:
    assert escaped_uri(path) == uri


def test_every_field_says_what_spark_says(tmp_path: Path) -> None:
    file = tmp_path / "a b.json"
    file.write_text("{}\n")
    os.utime(file, ns=(0, 1_700_000_000_123_456_789))
    (value,) = metadata_of(here(file), WHOLE).to_list()
    uri = f"{tmp_path}/a%20b.json"
    assert value == {
        "file_path": f"file:{uri}",
        "file_name": "a%20b.json",
        "file_size": 3,
        "file_block_start": 0,
        "file_block_length": 3,
        "file_modification_time": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        "row_index": 0,
    }


def test_only_the_fields_asked_for_are_made(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1")
    some = Struct((Field("file_name", t.STRING, False),))
    assert metadata_of(here(tmp_path / "x"), some).to_list() == [{"file_name": "x"}]


def test_a_field_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1")
    with pytest.raises(InvalidQuery, match="row_commit_version"):
        metadata_of(here(tmp_path / "x"), Struct((Field("row_commit_version", t.LONG),)))


def test_rows_are_numbered_from_where_the_piece_begins(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1")
    one = metadata_of(here(tmp_path / "x"), WHOLE)
    frame = pl.DataFrame({METADATA: one.new_from_index(0, 3)})
    numbered = with_row_index(frame, 40).get_column(METADATA)
    assert numbered.struct.field("row_index").to_list() == [40, 41, 42]
    assert numbered.dtype == one.dtype


def test_a_frame_without_the_column_stays_as_it_is() -> None:
    frame = pl.DataFrame({"a": [1]})
    assert with_row_index(frame, 5) is frame
