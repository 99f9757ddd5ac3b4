from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.connectors.reading import file_scan, written

from tidegate.connectors.files import discovery, listing
from tidegate.connectors.files.config import parse_source
from tidegate.connectors.files.discovery import FileEnumerator
from tidegate.connectors.files.splits import SEGMENT_SIZE, decode_split
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, Unavailable
from tidegate.model.snapshot import Split
from tidegate.model.types import STRING, Field
from tidegate.storage.output_directory import open_directory

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
    for name in ("_SUCCESS", ".part", "_tidegate/staged/x", "_temporary/0", "x._COPYING_", "ok"):
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
        enumerator(tmp_path / "nowhere").check()


def test_a_directory_that_goes_away_is_empty_until_it_is_there_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Structured Streaming; a query that had ended for one look would have to be started again by somebody."""
    watching = enumerator(tmp_path / "in")
    written(tmp_path / "in" / "a", "x")
    assert names(watching.discover(0)) == ["a"]
    shutil.rmtree(tmp_path / "in")
    assert [watching.discover(now_ms) for now_ms in (1, 2)] == [(), ()]
    assert caplog.text.count("is gone") == 1
    written(tmp_path / "in" / "a", "the same name again")
    written(tmp_path / "in" / "b", "x")
    assert names(watching.discover(3)) == ["b"]


def test_a_restart_while_the_directory_is_away_goes_on(tmp_path: Path) -> None:
    before = enumerator(tmp_path / "in")
    written(tmp_path / "in" / "a", "x")
    known = before.discover(0)
    shutil.rmtree(tmp_path / "in")
    after = enumerator(tmp_path / "in")
    after.learn_done(lambda number: True)
    assert after.restore(before.snapshot(), ()) == known
    assert after.discover(1) == ()
    written(tmp_path / "in" / "b", "x")
    assert names(after.discover(2)) == ["b"]


@pytest.mark.parametrize("option", ["cleanSource", "wholetext", "lineSep", "ignoreCorruptFiles"])
def test_options_that_would_change_results_are_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(InvalidQuery, match=option):
        enumerator(tmp_path, **{option: "true"})


@pytest.mark.parametrize(
    ("option", "default"),
    [("cleanSource", "OFF"), ("wholetext", "False"), ("multiLine", "false"), ("ignoreMissingFiles", "false")],
)
def test_an_option_at_its_default_changes_nothing(tmp_path: Path, option: str, default: str) -> None:
    """``spark.readStream.text(path)`` passes ``wholetext`` by itself."""
    assert enumerator(tmp_path, **{option: default}).discover(0) == ()


def cuts(splits: tuple[Split, ...]) -> list[bool]:
    return [split.cut for split in splits]


def sized(path: Path, size_bytes: int, age: int) -> None:
    aged(written(path, "x" * size_bytes), age)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_limit_of_files_cuts_behind_each_full_batch_oldest_first(tmp_path: Path, bounded: bool) -> None:
    for name, age in (("e", 1), ("d", 2), ("c", 3), ("b", 4), ("a", 5)):
        sized(tmp_path / name, 1, age)
    found = enumerator(tmp_path, bounded=bounded, maxFilesPerTrigger=2).discover(0)
    assert names(found) == ["e", "d", "c", "b", "a"] and cuts(found) == [False, False, True, False, True]


def test_a_limit_of_bytes_cuts_before_the_file_that_does_not_fit_and_takes_any_first_one(tmp_path: Path) -> None:
    for number, size_bytes in enumerate((60, 40, 1, 500, 99, 1, 1)):
        sized(tmp_path / f"{number}", size_bytes, number)
    found = enumerator(tmp_path, maxBytesPerTrigger=100).discover(0)
    assert cuts(found) == [False, False, True, True, True, False, True]


def test_a_batch_is_filled_by_the_next_look(tmp_path: Path) -> None:
    watching = enumerator(tmp_path, maxFilesPerTrigger=3)
    for number in range(2):
        sized(tmp_path / f"{number}", 1, number)
    assert cuts(watching.discover(0)) == [False, False]
    for number in range(2, 5):
        sized(tmp_path / f"{number}", 1, number)
    assert cuts(watching.discover(1)) == [False, True, False]


def test_batches_are_cut_at_the_same_files_after_a_restore_and_by_a_new_limit_if_there_is_one(tmp_path: Path) -> None:
    for number in range(5):
        sized(tmp_path / f"{number}", 1, number)
    before = enumerator(tmp_path, maxFilesPerTrigger=2)
    found = before.discover(0)
    again, unlimited = enumerator(tmp_path, maxFilesPerTrigger=2), enumerator(tmp_path)
    assert again.restore(before.snapshot(), found[:2]) == found
    assert not any(cuts(unlimited.restore(before.snapshot(), ())))
    sized(tmp_path / "5", 1, 5)
    sized(tmp_path / "6", 1, 6)
    assert cuts(again.discover(1)) == cuts(before.discover(1)) == [False, True]


def brought(watching: FileEnumerator, inbox: Path, *sizes: int) -> tuple[Split, ...]:
    """What a look finds behind a burst of such files. The one after it finds nothing."""
    first = len(list(inbox.iterdir())) if inbox.exists() else 0
    for number, size_bytes in enumerate(sizes, first):
        sized(inbox / f"{number:03}", size_bytes, number)
    found = watching.discover(0)
    assert watching.discover(0) == ()
    return found


def test_a_burst_is_cut_from_its_first_file(tmp_path: Path) -> None:
    """As by a Spark that has read what came before."""
    by_files, by_bytes = enumerator(tmp_path, maxFilesPerTrigger=2), enumerator(tmp_path, maxBytesPerTrigger=100)
    assert cuts(brought(by_files, tmp_path, 50, 50, 50)) == cuts(brought(by_bytes, tmp_path)) == [False, False, True]
    assert cuts(brought(by_files, tmp_path, 50, 50, 50, 50)) == [False, False, True, False]
    assert cuts(brought(by_bytes, tmp_path)) == [False, False, True, False]


def test_small_bursts_are_put_together_up_to_a_full_batch(tmp_path: Path) -> None:
    """Whoever reads slowly finds several of them at once."""
    watching = enumerator(tmp_path, maxFilesPerTrigger=2)
    assert [cuts(brought(watching, tmp_path, 1)) for _ in range(5)] == [[False], [False], [True], [False], [True]]


@pytest.mark.parametrize("limits", [{"maxFilesPerTrigger": 2}, {"maxBytesPerTrigger": 100}])
def test_what_was_read_before_a_restart_fills_no_batch_after_it(tmp_path: Path, limits: dict[str, int]) -> None:
    before, again = enumerator(tmp_path, **limits), enumerator(tmp_path, **limits)
    brought(before, tmp_path, 50, 50, 50)
    again.learn_done(lambda number: True)
    again.restore(before.snapshot(), ())
    assert cuts(brought(again, tmp_path, 50, 50, 50, 50)) == [False, False, True, False]


def test_what_was_cut_before_a_restart_stays_cut_whatever_has_been_read(tmp_path: Path) -> None:
    before, again = enumerator(tmp_path, maxFilesPerTrigger=2), enumerator(tmp_path, maxFilesPerTrigger=2)
    known = (*brought(before, tmp_path, 1, 1, 1), *brought(before, tmp_path, 1, 1, 1, 1))
    again.learn_done(lambda number: number < 4)
    assert again.restore(before.snapshot(), known[4:]) == known
    assert cuts(known) == [False, False, True, False, False, True, False]


def test_other_limits_cut_anew_from_the_first_file_that_is_still_to_be_read(tmp_path: Path) -> None:
    before, again = enumerator(tmp_path, maxFilesPerTrigger=2), enumerator(tmp_path, maxFilesPerTrigger=3)
    brought(before, tmp_path, *[1] * 8)
    again.learn_done(lambda number: number < 3)
    assert cuts(again.restore(before.snapshot(), ())) == [False] * 6 + [True, False]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxFilesPerTrigger": 1, "maxBytesPerTrigger": 1}, "both maxFilesPerTrigger and maxBytesPerTrigger"),
        ({"maxFilesPerTrigger": 0}, "maxFilesPerTrigger"),
        ({"maxBytesPerTrigger": "1g"}, "maxBytesPerTrigger"),
        ({"latestFirst": "true", "maxFilesPerTrigger": 1}, "latestFirst"),
        ({"fileStatistics": "maybe"}, "fileStatistics"),
    ],
)
def test_limits_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidQuery, match=words) as raised:
        enumerator(tmp_path, **options)
    assert raised.value.hint


def test_the_latest_files_come_first_if_asked_for(tmp_path: Path) -> None:
    for name, age in (("c", 1), ("a", 2), ("b", 2)):
        sized(tmp_path / name, 1, age)
    assert names(enumerator(tmp_path, latestFirst="true").discover(0)) == ["b", "a", "c"]
    assert names(enumerator(tmp_path, latestFirst="false", maxFilesPerTrigger=1).discover(0)) == ["c", "a", "b"]


def test_a_large_backlog_that_does_not_tell_its_times_is_mentioned_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(discovery, "UNTIMED_FILES_MAX", 3)

    def watching(event_time: str | None, **options: Any) -> FileEnumerator:
        scan = replace(file_scan("text", tmp_path, LINES, **options), event_time=event_time)
        return FileEnumerator(parse_source(scan), bounded=False)

    asked, timeless, limited = watching("value"), watching(None), watching("", maxFilesPerTrigger=2)
    for number in range(8):
        sized(tmp_path / f"{number}", 1, number)
        if number in (1, 3, 7):
            for one in (asked, timeless, limited):
                one.discover(number)
    said = [one for one in caplog.messages if "maxFilesPerTrigger" in one]
    assert len(said) == 1 and said[0].startswith(f"4 files of {tmp_path}")


def test_a_place_that_is_neither_a_disk_nor_a_store_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="no store for ftp://"):
        enumerator("ftp://host/x").reach(open_directory)


LATER_MS = (time.time_ns() // 1_000_000) + 3_600_000
"""A wall clock by which everything these tests write is old."""


class Listings:
    """Counts how often each directory is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[str] = []
        scandir = os.scandir

        def counted(directory: str):
            self.read.append(Path(directory).name)
            return scandir(directory)

        monkeypatch.setattr(os, "scandir", counted)

    def of(self, watching: FileEnumerator, now_ms: int) -> tuple[list[str], list[str]]:
        """What a round finds and which directories it reads."""
        self.read.clear()
        return names(watching.discover(now_ms)), sorted(self.read)


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> Listings:
    """Every listing seems to take so long that its directory is trusted for the longest time there is."""
    monkeypatch.setattr(listing, "TRUST_FACTOR", 1e12)
    return Listings(monkeypatch)


def test_only_directories_that_changed_are_read_again(tmp_path: Path, listings: Listings) -> None:
    for day in range(5):
        written(tmp_path / f"day={day}" / "a", "x")
    watching = enumerator(tmp_path)
    found, read = listings.of(watching, LATER_MS)
    assert (len(found), len(read)) == (5, 6)
    assert listings.of(watching, LATER_MS + 250) == ([], [])
    written(tmp_path / "day=3" / "b", "x")
    assert listings.of(watching, LATER_MS + 500) == (["b"], ["day=3"])
    written(tmp_path / "day=9" / "c", "x")
    assert listings.of(watching, LATER_MS + 750) == (["c"], sorted([tmp_path.name, "day=9"]))


def test_an_unchanged_directory_is_read_again_from_time_to_time(tmp_path: Path, listings: Listings) -> None:
    """A file system that does not date its directories: the file shows up late, but it does."""
    written(tmp_path / "a", "x")
    before = tmp_path.stat()
    watching = enumerator(tmp_path)
    watching.discover(LATER_MS)
    written(tmp_path / "b", "x")
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert listings.of(watching, LATER_MS + listing.TRUST_MAX_MS - 1) == ([], [])
    assert listings.of(watching, LATER_MS + listing.TRUST_MAX_MS) == (["b"], [tmp_path.name])


def test_a_directory_that_has_just_changed_is_not_trusted(tmp_path: Path, listings: Listings) -> None:
    """Within one tick of the file system's clock a second file leaves no mark."""
    written(tmp_path / "a", "x")
    watching = enumerator(tmp_path)
    before = tmp_path.stat()
    now_ms = before.st_mtime_ns // 1_000_000
    watching.discover(now_ms)
    written(tmp_path / "b", "x")
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert listings.of(watching, now_ms + listing.SETTLED_MS - 1) == (["b"], [tmp_path.name])


def test_what_becomes_a_file_without_changing_its_directory_is_found(tmp_path: Path, listings: Listings) -> None:
    """An empty file that is filled, a link whose target appears, a directory behind a link."""
    inbox = tmp_path / "inbox"
    written(inbox / "empty", "")
    (inbox / "link").symlink_to(tmp_path / "target")
    (inbox / "k=1").symlink_to(tmp_path / "elsewhere")
    watching = enumerator(inbox)
    assert watching.discover(LATER_MS) == ()
    written(inbox / "empty", "x")
    assert listings.of(watching, LATER_MS + 1)[0] == ["empty"]
    written(tmp_path / "target", "x")
    assert listings.of(watching, LATER_MS + 2)[0] == ["link"]
    written(tmp_path / "elsewhere" / "inside", "x")
    assert listings.of(watching, LATER_MS + 3)[0] == ["inside"]


def test_a_round_that_failed_forgets_nothing_it_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "a", "x")
    written(tmp_path / "k=1" / "b", "x")
    watching = enumerator(tmp_path)
    with monkeypatch.context() as broken:
        scandir = os.scandir

        def refuse(directory: str):
            if directory.endswith("k=1"):
                raise PermissionError(13, "Permission denied")
            return scandir(directory)

        broken.setattr(os, "scandir", refuse)
        broken.setattr(listing, "TRUST_FACTOR", 1e12)
        with pytest.raises(Unavailable, match="k=1"):
            watching.discover(LATER_MS)
    assert sorted(names(watching.discover(LATER_MS + 1))) == ["a", "b"]


def _payload(path: str) -> bytes:
    import msgspec

    from tidegate.connectors.files.splits import FileSplit

    return msgspec.msgpack.encode(FileSplit(path=path, size_bytes=1_000_000))
