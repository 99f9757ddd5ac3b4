from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tidegate.model.errors import InvalidQuery
from tidegate.ports.store import Created
from tidegate.storage.open import absolute_path, is_missing, local_path, open_store


@pytest.mark.parametrize(
    ("location", "path"),
    [("/data/q", "/data/q"), ("file:///data/a%20b", "/data/a b"), ("file:/data/q", "/data/q"), ("rel/a:b", "rel/a:b")],
)
def test_plain_paths_and_file_uris_name_directories(location: str, path: str) -> None:
    assert local_path(location) == path


def test_a_store_is_opened_where_the_location_says(tmp_path: Path) -> None:
    assert open_store(f"file://{tmp_path}/x").create("k", b"v") == Created()
    assert (tmp_path / "x" / "k").read_bytes() == b"v"


@pytest.mark.parametrize("location", ["ftp://host/x", "http://host/x", "dbfs://x"])
def test_an_unknown_scheme_is_refused_with_those_that_exist(location: str) -> None:
    with pytest.raises(InvalidQuery) as raised:
        open_store(location)
    assert location.split(":")[0] in raised.value.message
    assert all(f"{scheme}://" in raised.value.hint for scheme in ("file", "s3", "gs", "az", "hdfs"))


@pytest.mark.parametrize(
    "location",
    [
        "",
        "file://host/x",
        "s3:/bucket/x",
        "s3://",
        "s3://host:9000/x",
        "az://",
        "abfss://c@nowhere/x",
        "hdfs://nn/",
        "hdfs:x",
    ],
)
def test_a_location_that_names_nothing_is_refused(location: str) -> None:
    with pytest.raises(InvalidQuery):
        open_store(location)


@pytest.mark.parametrize(
    ("location", "written"),
    [
        ("s3a://bucket/a//b/", "s3://bucket/a/b"),
        ("s3://bucket", "s3://bucket"),
        ("gs://bucket/a b/ä?c#d", "gs://bucket/a b/ä?c#d"),
        ("az://container/x/", "az://container/x"),
        ("abfss://c@account.dfs.core.windows.net/x", "abfss://c@account.dfs.core.windows.net/x"),
        ("hdfs://ns1/data/q/", "hdfs://ns1/data/q"),
        ("hdfs:///data/q", "hdfs:///data/q"),
        ("file:///data/q", "/data/q"),
    ],
)
def test_a_place_is_written_in_one_way(location: str, written: str) -> None:
    assert absolute_path(location) == written
    assert absolute_path(written) == written


def test_a_location_with_credentials_is_refused_without_showing_them() -> None:
    with pytest.raises(InvalidQuery, match="carries credentials") as raised:
        open_store("s3://AKIA:topsecret@bucket/q")
    assert "topsecret" not in str(raised.value) and "storage.secretAccessKey" in raised.value.hint


def test_a_path_out_of_its_prefix_is_refused() -> None:
    with pytest.raises(InvalidQuery, match=r"\.\."):
        open_store("s3://bucket/a/../b")


def test_only_a_directory_of_this_machine_can_be_seen_to_be_missing(tmp_path: Path) -> None:
    assert is_missing(str(tmp_path / "none")) and not is_missing(str(tmp_path)) and not is_missing("s3://bucket/none")
    with pytest.raises(InvalidQuery, match="no directory of this machine"):
        local_path("s3://bucket/x")


@pytest.mark.parametrize(
    ("location", "package", "extra"), [("s3://b/x", "obstore", "s3"), ("hdfs://nn/x", "hdfs_native", "hdfs")]
)
def test_a_missing_package_is_named_with_what_to_install(
    location: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidQuery, match=package.replace("_", "-")) as raised:
        open_store(location)
    assert f"tidegate[{extra}]" in raised.value.hint
