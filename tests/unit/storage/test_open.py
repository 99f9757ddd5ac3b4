from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.checkpoint.ports import Created
from tidegate.model.errors import InvalidQuery
from tidegate.storage.open import local_path, open_store


@pytest.mark.parametrize(
    ("location", "path"),
    [("/data/q", "/data/q"), ("file:///data/a%20b", "/data/a b"), ("file:/data/q", "/data/q"), ("rel/a:b", "rel/a:b")],
)
def test_plain_paths_and_file_uris_name_directories(location: str, path: str) -> None:
    assert local_path(location) == path


def test_a_store_is_opened_where_the_location_says(tmp_path: Path) -> None:
    assert open_store(f"file://{tmp_path}/x").create("k", b"v") == Created()
    assert (tmp_path / "x" / "k").read_bytes() == b"v"


@pytest.mark.parametrize("location", ["s3://bucket/x", "hdfs://nn/x", "abfss://x"])
def test_an_unknown_scheme_is_refused_with_those_that_exist(location: str) -> None:
    with pytest.raises(InvalidQuery) as raised:
        open_store(location)
    assert location.split(":")[0] in raised.value.message and "file://" in raised.value.hint


@pytest.mark.parametrize("location", ["", "file://host/x"])
def test_a_location_that_names_nothing_is_refused(location: str) -> None:
    with pytest.raises(InvalidQuery):
        open_store(location)
