"""Where a file sink writes to, by what the user wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.connectors.test_file_sink import sink_to, writer

from tidegate.connectors.files.parallel import side_by_side
from tidegate.connectors.files.sink_config import parse_sink
from tidegate.connectors.files.spark_log import logged_file
from tidegate.model.errors import Bug
from tidegate.ports.directory import FileStatus


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/data/out/", "/data/out"),
        ("file:/data/a%20b", "/data/a b"),
        ("file:///data/out", "/data/out"),
        ("./with:colon", "{cwd}/with:colon"),
        ("s3a://bucket/a b/", "s3a://bucket/a b/"),
        ("hdfs://nameservice/out?", "hdfs://nameservice/out?"),
    ],
)
def test_paths_are_absolute_and_urls_stay_as_they_are(
    path: str, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = sink_to(tmp_path)
    config = parse_sink(replace(sink, options={**sink.options, "path": path}))
    assert config.location == location.format(cwd=tmp_path)


@pytest.mark.parametrize(
    ("directory", "uri"),
    [
        ("file:///data/a b", "file:///data/a%20b/k=%25/part-0"),
        ("s3a://bucket", "s3a://bucket/k=%25/part-0"),
        ("abfss://box@me.dfs.core.windows.net/ü", "abfss://box@me.dfs.core.windows.net/ü/k=%25/part-0"),
        ("hdfs:///out", "hdfs:///out/k=%25/part-0"),
    ],
)
def test_the_log_names_files_by_the_users_scheme_and_escapes_as_java_does(directory: str, uri: str) -> None:
    assert logged_file(directory, "k=%/part-0", FileStatus(1, 2)).path == uri


def test_a_slot_that_was_not_told_how_to_reach_a_store_does_not_take_it_for_a_directory() -> None:
    with pytest.raises(Bug, match="s3a://bucket/out"):
        writer(sink_to("s3a://bucket/out"))  # type: ignore[arg-type]


@pytest.mark.parametrize("at_once", [1, 4])
def test_calls_side_by_side_keep_their_order_and_raise_the_first_error(at_once: int) -> None:
    assert side_by_side(lambda n: n * n, range(20), at_once) == [n * n for n in range(20)]
    with pytest.raises(ZeroDivisionError, match="division"):
        side_by_side(lambda n: 1 // (n - 3), range(5), at_once)
