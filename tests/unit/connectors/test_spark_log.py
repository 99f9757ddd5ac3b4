"""The log ``_spark_metadata`` as our sink writes it: dense, once per commit, compact, whoever commits and however late."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from tests.unit.connectors.reading import file_scan, read_all, written
from tests.unit.connectors.test_file_sink import SCHEMA, files, prepared, rows, sink_to, visible, writer

from tidegate.connectors.files import ledger, local_directory
from tidegate.connectors.files.committer import FileSinkCommitter
from tidegate.connectors.files.ledger import SparkLedger
from tidegate.connectors.files.listing import Found, Listing
from tidegate.connectors.files.local_directory import LocalDirectory
from tidegate.connectors.files.spark_log import Batches, SparkLog, encoded
from tidegate.connectors.files.staging import StagingNames
from tidegate.connectors.legacy import Sink
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import Attempt
from tidegate.model.snapshot import Committable


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of commits: on a busy disk, forcing each to it takes most of the time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def committables(sink: Sink, *numbers: int, attempt: int = 1, subtask: int = 0) -> tuple[Committable, ...]:
    """One row, ``number``, prepared for checkpoint ``number``, for each of them."""
    to = writer(sink, attempt, subtask)
    owed: tuple[Committable, ...] = ()
    for number in numbers:
        to.write(rows(number))
        owed += prepared(to, number, subtask)
    return owed


def commit(sink: Sink, *numbers: int, attempt: int = 1) -> None:
    committer = FileSinkCommitter(sink)
    for number in numbers:
        committer.commit(committables(sink, number, attempt=attempt))


def batches(path: Path) -> list[str]:
    found = (file.name for file in (path / "_spark_metadata").iterdir())
    return sorted(found, key=lambda name: int(name.removesuffix(".compact")))


def entries(path: Path, batch: str) -> list[dict[str, object]]:
    version, *lines = (path / "_spark_metadata" / batch).read_text().split("\n")
    assert version == "v1"
    return [json.loads(line) for line in lines]


def spark_wrote(path: Path, batch: str, *names: str) -> None:
    """A batch as Spark's own sink leaves it, with its files."""
    lines = []
    for name in names:
        sink = sink_to(path.parent / "elsewhere" / name)
        FileSinkCommitter(sink).commit(committables(sink, 1_000))
        (made,) = files(path.parent / "elsewhere" / name)
        path.mkdir(exist_ok=True)
        made.rename(path / name)
        entry = {"path": f"file:{path / name}", "size": (path / name).stat().st_size, "isDir": False, "modificationTime": 1,
                 "blockReplication": 1, "blockSize": 33554432, "action": "add"}  # fmt: skip
        lines.append(json.dumps(entry).encode())
    written(path / "_spark_metadata" / batch, encoded(lines))


def test_a_batch_says_what_sparks_readers_need_to_know(tmp_path: Path) -> None:
    sink = sink_to(tmp_path / "with space", partition_by=("k",))
    FileSinkCommitter(sink).commit(committables(sink, 4))
    (file,) = files(tmp_path)
    (entry,) = entries(tmp_path / "with space", "0")
    uri = f"file://{tmp_path}/with%20space/k=k1/{file.name}"
    status = file.stat()
    assert entry == {
        "path": uri, "size": status.st_size, "isDir": False, "modificationTime": status.st_mtime_ns // 1_000_000,
        "blockReplication": 1, "blockSize": 33554432, "action": "add",
    }  # fmt: skip


def test_numbers_are_dense_whatever_the_checkpoints_are_called(tmp_path: Path) -> None:
    commit(sink_to(tmp_path), 3, 17, 400)
    assert batches(tmp_path) == ["0", "1", "2"] and visible(tmp_path) == [3, 17, 400]


def test_one_commit_is_one_batch_however_many_files_and_checkpoints_it_covers(tmp_path: Path) -> None:
    sink = sink_to(tmp_path)
    owed = [one for subtask in range(3) for one in committables(sink, 1, 2, subtask=subtask)]
    FileSinkCommitter(sink).commit(tuple(owed))
    assert batches(tmp_path) == ["0"] and len(entries(tmp_path, "0")) == 6


def test_every_tenth_batch_stands_for_all_before_it_and_old_ones_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "CLEANUP_DELAY_S", -1.0)
    commit(sink_to(tmp_path), *range(1, 46))
    assert [name for name in batches(tmp_path) if name.endswith(".compact")] == [
        "19.compact",
        "29.compact",
        "39.compact",
    ]
    assert batches(tmp_path)[0] == "19.compact" and batches(tmp_path)[-1] == "44"
    assert len(entries(tmp_path, "39.compact")) == 40
    assert visible(tmp_path) == list(range(1, 46))


def test_files_that_a_reader_may_have_listed_stay_for_a_while(tmp_path: Path) -> None:
    commit(sink_to(tmp_path), *range(1, 46))
    assert len(batches(tmp_path)) == 45


def test_a_late_zombies_commit_adds_nothing(tmp_path: Path) -> None:
    """T2: it wakes up after its successor has repeated its commit and gone on."""
    sink = sink_to(tmp_path)
    zombie, owed = FileSinkCommitter(sink), committables(sink, 4, 5)
    FileSinkCommitter(sink).commit(owed)
    commit(sink, 6, 7, attempt=2)
    before = batches(tmp_path)
    zombie.commit(owed)
    assert batches(tmp_path) == before and visible(tmp_path) == [4, 5, 6, 7]


@pytest.mark.parametrize("cleanup_delay_s", [-1.0, 60.0], ids=["and deleted", "and kept"])
def test_a_zombie_that_had_listed_the_log_long_ago_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cleanup_delay_s: float
) -> None:
    """T2: it is stopped between reading the log and taking a number; its number was taken, compacted and perhaps deleted since."""
    monkeypatch.setattr(ledger, "CLEANUP_DELAY_S", cleanup_delay_s)
    sink = sink_to(tmp_path)
    owed = committables(sink, 1)
    zombie = FileSinkCommitter(sink)
    real = local_directory.create_whole
    stopped: list[Path] = []

    def stop_first(target: Path, data: bytes) -> bool:
        if not stopped:
            stopped.append(target)
            FileSinkCommitter(sink).commit(owed)
            commit(sink, *range(2, 60), attempt=2)
        return real(target, data)

    monkeypatch.setattr(local_directory, "create_whole", stop_first)
    zombie.commit(owed)
    assert stopped[0].name == "0" and visible(tmp_path) == list(range(1, 60))
    assert visible_by_a_fresh_reader(tmp_path) == list(range(1, 60))


def visible_by_a_fresh_reader(path: Path) -> list[int]:
    log = SparkLog(LocalDirectory(path))
    paths = [json.loads(line)["path"] for line in log.lines(log.batches().needed)]
    assert len(set(paths)) == len(paths), "a file is named twice"
    return visible(path)


@pytest.mark.parametrize("step", ["renamed", "logged"])
def test_a_crash_in_the_middle_of_a_commit_is_completed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """T3: files are in place and no batch names them, or the batch is there and nobody heard of it."""
    sink = sink_to(tmp_path)
    owed = committables(sink, 1) + committables(sink, 1, subtask=1)
    real = local_directory.create_whole

    def die(target: Path, data: bytes) -> bool:
        if step == "logged":
            real(target, data)
        raise KeyboardInterrupt

    monkeypatch.setattr(local_directory, "create_whole", die)
    with pytest.raises(KeyboardInterrupt):
        FileSinkCommitter(sink).commit(owed)
    monkeypatch.undo()
    assert visible(tmp_path) == ([] if step == "renamed" else [1, 1]), "all of it or nothing"
    FileSinkCommitter(sink).commit(owed)
    assert batches(tmp_path) == ["0"] and visible_by_a_fresh_reader(tmp_path) == [1, 1]


def test_queries_that_race_for_numbers_all_get_one(tmp_path: Path) -> None:
    """T55: four pipelines in one directory, each committed by two drivers at once."""
    sinks = [sink_to(tmp_path, pipeline=f"p{n}") for n in range(4)]
    owed = {n: committables(sink, *range(100 * n + 1, 100 * n + 16)) for n, sink in enumerate(sinks)}
    errors: list[BaseException] = []
    start = threading.Barrier(8)

    def run(number: int) -> None:
        try:
            committer = FileSinkCommitter(sinks[number])
            start.wait()
            for one in owed[number]:
                committer.commit((one,))
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    racers = [threading.Thread(target=run, args=(n % 4,)) for n in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert errors == []
    assert visible_by_a_fresh_reader(tmp_path) == [100 * n + i for n in range(4) for i in range(1, 16)]
    assert [int(name.removesuffix(".compact")) for name in batches(tmp_path)] == list(range(60))


def test_a_number_given_out_again_after_a_checkpoint_was_removed_by_hand_is_not_taken_for_done(tmp_path: Path) -> None:
    """Checkpoint 7 of attempt 1 was published and then deleted with its manifest; attempt 2 takes another 7."""
    sink = sink_to(tmp_path)
    commit(sink, 7)
    commit(sink, 7, attempt=2)
    assert visible(tmp_path) == [7, 7]


def test_a_log_that_spark_began_is_continued(tmp_path: Path) -> None:
    out = tmp_path / "out"
    spark_wrote(out, "0", "part-00000-aaaa-c000.snappy.parquet")
    spark_wrote(out, "1")
    commit(sink_to(out), 1, 2)
    assert batches(out) == ["0", "1", "2", "3"] and visible(out) == [1, 2, 1_000]


def test_a_log_keeps_the_interval_it_was_begun_with(tmp_path: Path) -> None:
    """Spark with compactInterval 3 wrote five batches."""
    out = tmp_path / "out"
    for batch in ("0", "1", "2.compact", "3", "4"):
        spark_wrote(out, batch)
    commit(sink_to(out), *range(1, 6))
    assert batches(out)[5:] == ["5.compact", "6", "7", "8.compact", "9"] and visible(out) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("compact", "latest", "interval"),
    [((), -1, 10), ((), 8, 10), ((), 14, 20), ((9,), 12, 10), ((11,), 12, 12), ((35,), 36, 12), ((12,), 12, 13), ((4, 9), 9, 5)],
)  # fmt: skip
def test_the_interval_is_the_one_that_sparks_readers_derive(
    compact: tuple[int, ...], latest: int, interval: int
) -> None:
    assert Batches(frozenset(range(latest + 1)), compact).interval == interval


@pytest.mark.parametrize("begun", [0, 2])
def test_sparks_own_query_in_the_same_directory_is_found_out(tmp_path: Path, begun: int) -> None:
    """Spark skips a batch whose number stands in the log: the two would lose each other's rows."""
    out = tmp_path / "out"
    for number in range(begun):
        spark_wrote(out, str(number), f"part-00000-aaaa{number}-c000.snappy.parquet")
    sink = sink_to(out)
    committer = FileSinkCommitter(sink)
    committer.commit(committables(sink, 1))
    spark_wrote(out, str(begun + 1), "part-00000-bbbb-c000.snappy.parquet")
    with pytest.raises(InvalidQuery, match=rf"batch {begun + 1} of .* is not Tidegate's"):
        committer.commit(committables(sink, 2))


def test_no_log_is_begun_beside_files_that_it_would_hide(tmp_path: Path) -> None:
    written(tmp_path / "k=1" / "part-0.parquet", b"x")
    assert FileSinkCommitter(sink_to(tmp_path / "other"))
    with pytest.raises(InvalidQuery, match=r"part-0\.parquet"):
        FileSinkCommitter(sink_to(tmp_path, sparkMetadataLog="true"))
    commit(sink_to(tmp_path), 1)
    assert not (tmp_path / "_spark_metadata").exists() and len(files(tmp_path)) == 2


def test_a_directory_with_a_log_cannot_be_written_without_it(tmp_path: Path) -> None:
    commit(sink_to(tmp_path), 1)
    with pytest.raises(InvalidQuery, match="_spark_metadata"):
        FileSinkCommitter(sink_to(tmp_path, sparkMetadataLog="false"))


def test_a_log_that_appears_beside_a_query_without_one_stops_it(tmp_path: Path) -> None:
    sink = sink_to(tmp_path, pipeline="p2", sparkMetadataLog="false")
    without = FileSinkCommitter(sink)
    commit(sink_to(tmp_path), 1)
    with pytest.raises(InvalidQuery, match="appeared"):
        without.commit(committables(sink, 2))


def test_without_the_log_commits_are_repeated_late_and_racing_as_well(tmp_path: Path) -> None:
    """T1 T2: also after a consumer has taken the file away."""
    sink = sink_to(tmp_path, sparkMetadataLog="false")
    owed = committables(sink, 1)
    zombie = FileSinkCommitter(sink)
    FileSinkCommitter(sink).commit(owed)
    commit(sink, *range(2, 9), attempt=2)
    (first, *_) = files(tmp_path)
    first.unlink()
    zombie.commit(owed)
    assert not (tmp_path / "_spark_metadata").exists() and visible(tmp_path) == list(range(2, 9))
    assert len(list((tmp_path / "_tidegate/committed").rglob("0*"))) == ledger.RECORDS_KEPT


def test_entries_older_than_the_retention_leave_the_log_when_it_is_compacted(tmp_path: Path) -> None:
    sink = sink_to(tmp_path, retention="1 hour")
    commit(sink, *range(1, 6))
    ledger_of = SparkLedger(LocalDirectory(tmp_path), StagingNames.of(sink), 3_600_000)
    for name in ("0", "1", "2"):
        path = tmp_path / "_spark_metadata" / name
        (entry,) = entries(tmp_path, name)
        path.write_bytes(encoded([json.dumps(entry | {"modificationTime": 1}).encode()]))
    assert ledger_of.newest() == (1, 5)
    commit(sink, *range(6, 12))
    assert visible(tmp_path) == list(range(4, 12)) and len(files(tmp_path)) == 11


def test_a_reader_looks_again_when_batches_are_compacted_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "CLEANUP_DELAY_S", -1.0)
    sink = sink_to(tmp_path)
    commit(sink, *range(1, 10))
    log = SparkLog(LocalDirectory(tmp_path))
    listed = iter([log.batches()])
    commit(sink, *range(10, 41))
    real = SparkLog.batches
    monkeypatch.setattr(SparkLog, "batches", lambda self: next(listed, None) or real(self))
    assert len(log.read().files) == 40


def test_a_log_that_lost_a_batch_or_holds_something_else_is_reported(tmp_path: Path) -> None:
    commit(sink_to(tmp_path), 1, 2, 3)
    (tmp_path / "_spark_metadata" / "1").unlink()
    with pytest.raises(CorruptSnapshot, match="_spark_metadata/1"):
        visible(tmp_path)
    written(tmp_path / "_spark_metadata" / "1", "v2\n{}")
    with pytest.raises(CorruptSnapshot, match="version 1"):
        visible(tmp_path)


def test_a_source_reads_what_the_log_names_and_nothing_else(tmp_path: Path) -> None:
    commit(sink_to(tmp_path), 1, 2)
    (some, _) = files(tmp_path)
    written(tmp_path / "part-99999.parquet", some.read_bytes())
    scan = file_scan("parquet", tmp_path, SCHEMA, columns=("n",))
    assert sorted(read_all(scan)) == [(1,), (2,)]
    assert len(read_all(file_scan("parquet", f"{tmp_path}/*.parquet", SCHEMA, columns=("n",)))) == 3, "as in Spark"


def test_a_log_that_appears_while_its_directory_is_listed_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Listing._new_in_directories

    def while_a_sink_begins(self: Listing, known: set[str], now_ms: int) -> list[Found]:
        commit(sink_to(tmp_path), 1)
        written(tmp_path / "part-99999.parquet", files(tmp_path)[0].read_bytes())
        return real(self, known, now_ms)

    monkeypatch.setattr(Listing, "_new_in_directories", while_a_sink_begins)
    assert visible(tmp_path) == [1]


def test_a_file_has_one_name_by_whatever_way_the_directory_is_reached(tmp_path: Path) -> None:
    commit(sink_to(tmp_path / "out"), 1)
    (tmp_path / "link").symlink_to(tmp_path / "out")
    (listed,) = SparkLog(LocalDirectory(tmp_path / "out")).read().files
    assert listed.local_path.startswith(str(tmp_path / "out"))
    assert read_all(file_scan("parquet", tmp_path / "link", SCHEMA, columns=("n",))) == [(1,)]


def test_a_sweep_leaves_the_log_alone(tmp_path: Path) -> None:
    sink = sink_to(tmp_path)
    commit(sink, 1)
    FileSinkCommitter(sink).sweep(Attempt(9), ())
    assert visible(tmp_path) == [1]
