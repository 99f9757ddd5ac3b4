from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.connectors.reading import file_scan, written

from tidegate.connectors.files.config import parse_source
from tidegate.connectors.files.discovery import FileEnumerator
from tidegate.connectors.files.splits import SEGMENT_SIZE, decode_split
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.snapshot import Split
from tidegate.model.types import STRING, Field

LINES = (Field("value", STRING),)


def enumerator(path: Path | str, *, bounded: bool = False, **options: Any) -> FileEnumerator:
    return FileEnumerator(parse_source(file_scan("text", path, LINES, **options)), bounded=bounded)


def names(splits: tuple[Split, ...]) -> list[str]:
    return [Path(decode_split(split.payload).path).name for split in splits]


def aged(path: Path, seconds: int) -> Path:
    os.utime(path, (seconds, seconds))
    return path


def test_files_come_oldest_first_then_by_name(tmp_path: Path) -> None:
    for name, age in (("c", 1), ("a", 2), ("b", 2)):
        aged(written(tmp_path / name, "x"), age)
    assert names(enumerator(tmp_path).discover(0)) == ["c", "a", "b"]


def test_a_file_is_discovered_once_and_numbers_are_dense(tmp_path: Path) -> None:
    watching = enumerator(tmp_path)
    written(tmp_path / "a", "x")
    assert [split.number for split in watching.discover(0)] == [0]
    assert watching.discover(1) == ()
    written(tmp_path / "b", "x")
    written(tmp_path / "c", "x")
    assert [split.number for split in watching.discover(2)] == [1, 2]


def test_hidden_files_and_directories_are_skipped(tmp_path: Path) -> None:
    for name in ("_SUCCESS", ".part", "_tidegate/staged/x", "_spark_metadata/0", "x._COPYING_", "ok"):
        written(tmp_path / name, "x")
    assert names(enumerator(tmp_path, recursiveFileLookup=True).discover(0)) == ["ok"]


def test_an_empty_file_is_not_there_yet(tmp_path: Path) -> None:
    watching = enumerator(tmp_path)
    written(tmp_path / "a", "")
    assert watching.discover(0) == ()
    written(tmp_path / "a", "x")
    assert names(watching.discover(1)) == ["a"]


def test_plain_directories_are_entered_only_when_asked_and_partitions_always(tmp_path: Path) -> None:
    for name in ("sub/a", "k=1/b", "c"):
        aged(written(tmp_path / name, "x"), 1)
    assert sorted(names(enumerator(tmp_path).discover(0))) == ["b", "c"]
    assert sorted(names(enumerator(tmp_path, recursiveFileLookup=True).discover(0))) == ["a", "b", "c"]


def test_globs_braces_and_name_filters_choose_files(tmp_path: Path) -> None:
    for name in ("2024/a.csv", "2025/b.csv", "2026/c.txt"):
        aged(written(tmp_path / name, "x"), 1)
    assert names(enumerator(f"{tmp_path}/20{{24,26}}").discover(0)) == ["a.csv", "c.txt"]
    assert names(enumerator(f"{tmp_path}/*/*.csv").discover(0)) == ["a.csv", "b.csv"]
    assert names(enumerator(f"file://{tmp_path}", recursiveFileLookup=True, pathGlobFilter="*.txt").discover(0)) == [
        "c.txt"
    ]


def test_a_bounded_run_takes_what_is_there_at_first_sight(tmp_path: Path) -> None:
    written(tmp_path / "a", "x")
    watching = enumerator(tmp_path, bounded=True)
    assert not watching.bounded
    assert names(watching.discover(0)) == ["a"]
    written(tmp_path / "b", "x")
    assert watching.discover(1) == () and watching.bounded


def test_after_a_restore_known_files_keep_their_numbers_and_are_not_found_again(tmp_path: Path) -> None:
    """T35: the snapshot is taken after readers reported, so it names every split they may hold."""
    watching = enumerator(tmp_path)
    for count in range(SEGMENT_SIZE + 5):
        aged(written(tmp_path / f"{count:06d}", "x"), count)
    first = watching.discover(0)
    written(tmp_path / "late", "x")
    late = watching.discover(1)
    again = enumerator(tmp_path)
    assert again.restore(watching.snapshot(), late) == first + late
    assert again.discover(2) == ()
    written(tmp_path / "new", "x")
    assert [split.number for split in again.discover(3)] == [len(first) + 1]
    assert again.snapshot() != watching.snapshot()


def test_the_snapshot_of_many_files_is_compact(tmp_path: Path) -> None:
    watching = enumerator(tmp_path)
    known = tuple(
        Split(number=n, payload=_payload(f"{tmp_path}/year=2024/month=01/part-{n:05d}-c000.snappy.parquet"))
        for n in range(4 * SEGMENT_SIZE)
    )
    watching.restore(b"", known)
    assert len(watching.snapshot()) < 20 * len(known)


def test_a_snapshot_with_gaps_or_noise_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(CorruptSnapshot, match="gaps"):
        enumerator(tmp_path).restore(b"", (Split(number=3, payload=_payload("x")),))
    with pytest.raises(CorruptSnapshot, match="decoded"):
        enumerator(tmp_path).restore(b"noise", ())


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery, match="nowhere does not exist"):
        enumerator(tmp_path / "nowhere").discover(0)


@pytest.mark.parametrize("option", ["latestFirst", "cleanSource", "wholetext", "lineSep", "ignoreCorruptFiles"])
def test_options_that_would_change_results_are_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(InvalidQuery, match=option):
        enumerator(tmp_path, **{option: "true"})


def test_a_remote_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery, match="s3a://b/x"):
        enumerator("s3a://b/x")


def _payload(path: str) -> bytes:
    import msgspec

    from tidegate.connectors.files.splits import FileSplit

    return msgspec.msgpack.encode(FileSplit(path=path, size_bytes=1_000_000))
