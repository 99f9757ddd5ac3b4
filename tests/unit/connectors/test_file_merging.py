"""Small files of one checkpoint become one when they are published, exactly once."""

from __future__ import annotations

import gzip
import threading
from dataclasses import replace
from pathlib import Path
from typing import IO

import msgspec
import polars as pl
import pyarrow.parquet as pq
import pytest
from tests.unit.connectors.reading import file_scan, read_all
from tests.unit.connectors.test_file_sink import SCHEMA, files, prepared, rows, sink_to, staged, visible, writer

from tidegate.connectors.files import committer as file_committer
from tidegate.connectors.files import merging
from tidegate.connectors.files.committer import FileSinkCommitter
from tidegate.connectors.files.staging import FilesToCommit
from tidegate.connectors.legacy import Sink
from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import Committable

LOGS = pytest.mark.parametrize("log", ["true", "false"])


def merging_sink(path: Path, form: str = "parquet", partition_by: tuple[str, ...] = (), **options: object) -> Sink:
    return sink_to(path, form, partition_by=partition_by, **({"mergeSmallFiles": "1m"} | options))


def epoch(sink: Sink, subtasks: int, checkpoint: int = 1, attempt: int = 1) -> tuple[Committable, ...]:
    """Each subtask writes its own number and that plus 100."""
    owed: tuple[Committable, ...] = ()
    for subtask in range(subtasks):
        to = writer(sink, attempt, subtask)
        to.write(rows(subtask, subtask + 100))
        owed += prepared(to, checkpoint, subtask)
    return owed


def numbers(subtasks: int) -> list[int]:
    return sorted([*range(subtasks), *range(100, 100 + subtasks)])


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_checkpoint_of_many_subtasks_is_one_file(tmp_path: Path, form: str, compression: str) -> None:
    header = {"header": "true"} if form == "csv" else {}
    sink = merging_sink(tmp_path, form, compression=compression, **header)
    FileSinkCommitter(sink).commit(epoch(sink, 5))
    assert len(files(tmp_path)) == 1 and staged(tmp_path) == []
    scan = file_scan(form, tmp_path, SCHEMA, **header)
    assert sorted(n for _, n in read_all(scan)) == numbers(5)


def test_a_merged_file_has_the_types_and_the_compression_of_its_parts(tmp_path: Path) -> None:
    sink = merging_sink(tmp_path, compression="zstd")
    owed = epoch(sink, 3)
    parts = [pq.ParquetFile(path) for path in sorted((tmp_path / "_tidegate/staged").rglob("*.parquet"))]
    FileSinkCommitter(sink).commit(owed)
    (path,) = files(tmp_path)
    whole = pq.ParquetFile(path)
    assert whole.schema_arrow.equals(parts[0].schema_arrow, check_metadata=True)
    assert whole.metadata.num_row_groups == 1 and whole.metadata.row_group(0).column(0).compression == "ZSTD"
    assert path.name == "part-000001-merged-000001-000000-p1-sink-0.zstd.parquet"


def test_each_directory_has_a_file_of_its_own(tmp_path: Path) -> None:
    sink = merging_sink(tmp_path, partition_by=("k",))
    FileSinkCommitter(sink).commit(epoch(sink, 6))
    found = files(tmp_path)
    assert sorted(path.parent.name for path in found) == ["k=k0", "k=k1", "k=k2"]
    assert visible(tmp_path) == numbers(6)


def test_checkpoints_are_never_mixed(tmp_path: Path) -> None:
    """Their files may be asked for again one by one."""
    sink = merging_sink(tmp_path)
    owed = epoch(sink, 2, checkpoint=1) + epoch(sink, 2, checkpoint=2, attempt=2)
    FileSinkCommitter(sink).commit(owed)
    assert [path.name[:18] for path in files(tmp_path)] == ["part-000001-merged", "part-000002-merged"]


@LOGS
def test_a_commit_may_be_repeated_in_part_and_late(tmp_path: Path, log: str) -> None:
    """T1 T2: not every subtask has heard of the commit, so the next manifest carries some of its parts again."""
    sink = merging_sink(tmp_path, sparkMetadataLog=log)
    zombie, owed = FileSinkCommitter(sink), epoch(sink, 4)
    FileSinkCommitter(sink).commit(owed)
    FileSinkCommitter(sink).commit(owed[1:3] + epoch(sink, 2, checkpoint=2, attempt=2))
    zombie.commit(owed)
    FileSinkCommitter(sink).commit(owed[3:])
    assert visible(tmp_path) == sorted(numbers(4) + numbers(2)) and len(files(tmp_path)) == 2


@LOGS
@pytest.mark.parametrize("step", ["merged", "recorded"])
def test_a_crash_in_the_middle_of_a_commit_is_completed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, step: str
) -> None:
    """T3: the merged file is there and its parts too."""
    sink = merging_sink(tmp_path, sparkMetadataLog=log)
    owed = epoch(sink, 4)
    dying = FileSinkCommitter(sink)
    record = dying._ledger.record

    def die(*args: object) -> None:
        if step == "recorded":
            record(*args)  # type: ignore[arg-type]
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(dying._ledger, "record", die)
    with pytest.raises(Unavailable):
        dying.commit(owed)
    assert len(staged(tmp_path)) == 4
    FileSinkCommitter(sink).commit(owed)
    assert visible(tmp_path) == numbers(4) and len(files(tmp_path)) == 1
    FileSinkCommitter(sink).sweep(Attempt(2), ())
    assert staged(tmp_path) == []


@LOGS
def test_committers_that_race_make_every_row_visible_once(tmp_path: Path, log: str) -> None:
    sink = merging_sink(tmp_path, sparkMetadataLog=log)
    for checkpoint in range(1, 5):
        owed = epoch(sink, 6, checkpoint)
        errors: list[BaseException] = []
        start = threading.Barrier(4)
        racers = [threading.Thread(target=_commit_at_once, args=(sink, owed, start, errors)) for _ in range(4)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert errors == []
    assert visible(tmp_path) == sorted(4 * numbers(6)) and len(files(tmp_path)) == 4


def _commit_at_once(
    sink: Sink, owed: tuple[Committable, ...], start: threading.Barrier, errors: list[BaseException]
) -> None:
    try:
        start.wait()
        FileSinkCommitter(sink).commit(owed)
    except BaseException as error:  # noqa: BLE001 - reported by the test
        errors.append(error)


def test_what_was_merged_is_not_published_again_by_a_run_with_other_options(tmp_path: Path) -> None:
    """The merged file was in place when the driver died; the next one was told not to merge."""
    sink = merging_sink(tmp_path)
    owed = epoch(sink, 3)
    dying = FileSinkCommitter(sink)
    dying._ledger.record = None  # type: ignore[assignment, method-assign]
    with pytest.raises(TypeError):
        dying.commit(owed)
    FileSinkCommitter(sink_to(tmp_path, mergeSmallFiles=0)).commit(owed)
    assert visible(tmp_path) == numbers(3) and len(files(tmp_path)) == 1


def test_large_files_and_files_of_a_chosen_length_are_left_as_they_are(tmp_path: Path) -> None:
    for name, options in (("large", {"mergeSmallFiles": "100b"}), ("rows", {"maxRecordsPerFile": "2"}), ("age", {"rollingInterval": "1h"})):  # fmt: skip
        sink = merging_sink(tmp_path / name, **options)
        FileSinkCommitter(sink).commit(epoch(sink, 3))
        assert len(files(tmp_path / name)) == 3 and visible(tmp_path / name) == numbers(3)


def test_a_merged_file_is_no_larger_than_a_file_may_be(tmp_path: Path) -> None:
    sink = merging_sink(tmp_path, "csv", rollingSize="40")
    FileSinkCommitter(sink).commit(epoch(sink, 12))
    sizes = [path.stat().st_size for path in files(tmp_path)]
    assert 1 < len(sizes) < 12 and max(sizes) <= 40 and visible(tmp_path, "csv") == numbers(12)


def test_a_commit_merges_a_bounded_amount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MERGED_BYTES_MAX", 30)
    sink = merging_sink(tmp_path, "csv")
    FileSinkCommitter(sink).commit(epoch(sink, 8))
    assert 1 < len(files(tmp_path)) < 8 and visible(tmp_path, "csv") == numbers(8)


def test_a_merge_that_a_crash_cut_short_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = merging_sink(tmp_path)
    owed = epoch(sink, 3)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    monkeypatch.setattr(file_committer, "merge_parquet", _half_written)
    with pytest.raises(Unavailable):
        FileSinkCommitter(sink).commit(owed)
    monkeypatch.undo()
    assert len(staged(tmp_path)) == 4
    FileSinkCommitter(sink).sweep(Attempt(2), owed)
    assert len(staged(tmp_path)) == 3
    FileSinkCommitter(sink).commit(owed)
    assert visible(tmp_path) == numbers(3)


def _half_written(parts: list[bytes], target: IO[bytes]) -> None:
    target.write(b"PAR1")
    raise OSError(28, "No space left on device")


def test_a_header_stands_once_in_a_merged_file(tmp_path: Path) -> None:
    sink = merging_sink(tmp_path, "csv", header="true", compression="gzip")
    FileSinkCommitter(sink).commit(epoch(sink, 3))
    (path,) = files(tmp_path)
    assert gzip.decompress(path.read_bytes()).decode().splitlines() == [
        "k,n", "k0,0", "k1,100", "k1,1", "k2,101", "k2,2", "k0,102",
    ]  # fmt: skip


def test_sinks_of_one_query_are_not_merged_with_each_other(tmp_path: Path) -> None:
    one, two = merging_sink(tmp_path), replace(merging_sink(tmp_path), id=OperatorId("sink-1"))
    for sink in (one, two):
        FileSinkCommitter(sink).commit(epoch(sink, 2))
    assert len(files(tmp_path)) == 2 and visible(tmp_path) == sorted(2 * numbers(2))


def test_committables_of_an_older_version_are_published_as_they_are(tmp_path: Path) -> None:
    sink = merging_sink(tmp_path)
    owed = []
    for one in epoch(sink, 2):
        (file,) = msgspec.msgpack.decode(one.payload, type=FilesToCommit).files
        old = {"type": "files/1", "files": [{"staged": file.staged, "final": file.final, "rows": file.rows}]}
        owed.append(msgspec.structs.replace(one, payload=msgspec.msgpack.encode(old)))
    FileSinkCommitter(sink).commit(tuple(owed))
    assert len(files(tmp_path)) == 2 and visible(tmp_path) == numbers(2)


def test_many_rows_become_row_groups_of_the_usual_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "ROW_GROUP_ROWS", 4)
    sink = merging_sink(tmp_path)
    FileSinkCommitter(sink).commit(epoch(sink, 5))
    (path,) = files(tmp_path)
    assert [pq.ParquetFile(path).metadata.row_group(n).num_rows for n in range(3)] == [4, 4, 2]
    assert pl.read_parquet(path).height == 10
