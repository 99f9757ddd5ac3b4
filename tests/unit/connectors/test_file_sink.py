from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from tests.unit.connectors.reading import file_scan, read_all

from tidegate.connectors.files import committer as file_committer
from tidegate.connectors.files import sink as file_sink
from tidegate.connectors.files.committer import FileSinkCommitter
from tidegate.connectors.files.sink import FileSink, FileSinkWriter
from tidegate.connectors.files.staging import FilesToCommit, StagedFile
from tidegate.connectors.legacy import Sink
from tidegate.model import types as t
from tidegate.model.errors import Bug, CorruptSnapshot, InvalidQuery, Unavailable
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable
from tidegate.model.types import Field

SCHEMA = (Field("k", t.STRING), Field("n", t.LONG))


def sink_to(
    path: Path, form: str = "parquet", pipeline: str = "p1", partition_by: tuple[str, ...] = (), **options: Any
) -> Sink:
    """Every staged file is published as one; what is merged has tests of its own."""
    options = {"mergeSmallFiles": 0} | options
    return Sink(
        id=OperatorId("sink-0"),
        format=form,
        options={"path": str(path), "tidegate.pipeline": pipeline} | {k: str(v) for k, v in options.items()},
        columns=tuple((f.name, f.name) for f in SCHEMA),
        schema=SCHEMA,
        partition_by=partition_by,
    )


def writer(sink: Sink, attempt: int = 1, subtask: int = 0) -> FileSinkWriter:
    return FileSink().writer(sink, Attempt(attempt), SlotIndex(subtask))


def rows(*numbers: int) -> pl.DataFrame:
    return pl.DataFrame(
        {"k": [f"k{n % 3}" for n in numbers], "n": list(numbers)}, schema={"k": pl.String, "n": pl.Int64}
    )


def prepared(to: FileSinkWriter, checkpoint: int, subtask: int = 0) -> tuple[Committable, ...]:
    payloads = to.prepare(CheckpointId(checkpoint))
    return tuple(
        Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(subtask), number=n, payload=payload)
        for n, payload in enumerate(payloads)
    )


def visible(path: Path, form: str = "parquet") -> list[int]:
    scan = file_scan(form, path, SCHEMA, columns=("n",), recursiveFileLookup=True)
    return sorted(n for (n,) in read_all(scan))


def staged(path: Path) -> list[str]:
    return sorted(found.name for found in (path / "_tidegate" / "staged").rglob("*") if found.is_file())


def files(path: Path) -> list[Path]:
    return sorted(found for found in path.rglob("part-*") if found.is_file())


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
def test_rows_are_visible_after_the_commit_and_not_before(tmp_path: Path, form: str) -> None:
    """T5: what is prepared is durable, and nobody sees it."""
    sink = sink_to(tmp_path, form)
    to = writer(sink)
    to.write(rows(1, 2))
    to.write(rows(3))
    ready = prepared(to, 1)
    assert visible(tmp_path, form) == [] and len(staged(tmp_path)) == 1
    FileSinkCommitter(sink).commit(ready)
    assert visible(tmp_path, form) == [1, 2, 3] and staged(tmp_path) == []


def test_a_commit_may_be_repeated_by_anybody(tmp_path: Path) -> None:
    """T1."""
    sink = sink_to(tmp_path)
    to = writer(sink)
    to.write(rows(1, 2))
    ready = prepared(to, 1)
    for _ in range(3):
        FileSinkCommitter(sink).commit(ready)
    assert visible(tmp_path) == [1, 2]


def test_a_commit_that_fails_half_way_is_completed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T3: the first rename lands, then the call fails; the retry neither loses nor doubles rows."""
    sink = sink_to(tmp_path)
    committables: tuple[Committable, ...] = ()
    for subtask in range(3):
        to = writer(sink, subtask=subtask)
        to.write(rows(subtask))
        committables += prepared(to, 1, subtask)
    real, calls = file_committer.os.rename, []

    def rename_then_fail(source: Path, target: Path) -> None:
        real(source, target)
        calls.append(target)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(file_committer.os, "rename", rename_then_fail)
    with pytest.raises(Unavailable, match="Input/output error"):
        FileSinkCommitter(sink).commit(committables)
    monkeypatch.undo()
    assert len(calls) == 1 and len(files(tmp_path)) == 1 and visible(tmp_path) == []
    FileSinkCommitter(sink).commit(committables)
    assert visible(tmp_path) == [0, 1, 2]


def test_committers_that_race_make_every_row_visible_once(tmp_path: Path) -> None:
    sink = sink_to(tmp_path)
    committables: tuple[Committable, ...] = ()
    for subtask in range(20):
        to = writer(sink, subtask=subtask)
        to.write(rows(subtask))
        committables += prepared(to, 1, subtask)
    errors: list[BaseException] = []
    start = threading.Barrier(4)

    def commit() -> None:
        start.wait()
        try:
            FileSinkCommitter(sink).commit(committables)
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    racers = [threading.Thread(target=commit) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert errors == [] and visible(tmp_path) == list(range(20))


def test_a_file_that_cannot_be_published_is_named_with_its_checkpoint_and_subtask(tmp_path: Path) -> None:
    """T56: among many committables the one that fails is the one that is told."""
    sink = sink_to(tmp_path)
    good, bad = writer(sink, subtask=0), writer(sink, subtask=3)
    good.write(rows(1))
    bad.write(rows(2))
    committables = prepared(good, 7) + prepared(bad, 7, subtask=3)
    (poisoned,) = msgspec.msgpack.decode(committables[1].payload, type=FilesToCommit).files
    (tmp_path / poisoned.final).mkdir()
    with pytest.raises(InvalidQuery) as caught:
        FileSinkCommitter(sink).commit(committables)
    message = caught.value.message
    assert poisoned.staged in message and poisoned.final in message and "checkpoint 7, subtask 3" in message
    assert len([file for file in files(tmp_path) if file.is_file()]) == 1, "what came before it stands"
    (tmp_path / poisoned.final).rmdir()
    FileSinkCommitter(sink).commit(committables)
    assert visible(tmp_path) == [1, 2]


def test_a_file_that_cannot_be_published_yet_holds_up_its_epoch_and_later_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epochs in front of it are visible and stay so; the ledger never has a later one first."""
    sink = sink_to(tmp_path)
    ready: tuple[Committable, ...] = ()
    writers = [writer(sink, subtask=subtask) for subtask in (0, 1)]
    for checkpoint in (1, 2, 3):
        for subtask, to in enumerate(writers):
            to.write(rows(10 * checkpoint + subtask))
            ready += prepared(to, checkpoint, subtask)
    names = [msgspec.msgpack.decode(one.payload, type=FilesToCommit).files[0].final for one in ready]
    real, full = file_committer.os.rename, True

    def rename(source: Path, target: Path) -> None:
        if full and str(target).endswith(names[3]):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(file_committer.os, "rename", rename)
    committer = FileSinkCommitter(sink)
    handed_back = committer.commit(ready)
    assert handed_back is not None
    assert handed_back.committables == ready[2:]
    assert "checkpoint 2" in handed_back.trouble.message and "free some space" in handed_back.trouble.hint
    assert visible(tmp_path) == [10, 11]
    with pytest.raises(Unavailable, match="checkpoint 2"):
        committer.commit(ready[2:])
    full = False
    assert committer.commit(ready[2:]) is None
    assert visible(tmp_path) == [10, 11, 20, 21, 30, 31]


def test_an_epoch_without_rows_leaves_no_file(tmp_path: Path) -> None:
    """T57."""
    sink = sink_to(tmp_path)
    to = writer(sink)
    to.write(rows())
    assert [to.prepare(CheckpointId(n)) for n in range(1, 6)] == [()] * 5
    assert staged(tmp_path) == [] and files(tmp_path) == []


def test_what_an_aborted_checkpoint_prepared_is_committed_with_the_next(tmp_path: Path) -> None:
    """T6: committables are carried; both epochs become visible once, in one commit."""
    sink = sink_to(tmp_path)
    to = writer(sink)
    to.write(rows(1))
    first = prepared(to, 1)
    to.write(rows(2))
    FileSinkCommitter(sink).commit(prepared(to, 2) + first)
    assert visible(tmp_path) == [1, 2]


def test_names_are_deterministic_and_tell_pipeline_checkpoint_attempt_and_subtask(tmp_path: Path) -> None:
    """T4: an id repeated by another attempt cannot collide."""
    names = set()
    for pipeline in ("p1", "p2"):
        for attempt in (1, 2):
            for subtask in (0, 1):
                sink = sink_to(tmp_path, pipeline=pipeline)
                to = writer(sink, attempt, subtask)
                to.write(rows(1))
                (ready,) = prepared(to, 7, subtask)
                names.add(msgspec.msgpack.decode(ready.payload, type=FilesToCommit).files[0].final)
    assert len(names) == 8
    assert "part-000007-00001-000002-000000-p2-sink-0.snappy.parquet" in names


def test_a_sweep_takes_older_attempts_and_nothing_else(tmp_path: Path) -> None:
    """T54, T9: what a zombie staged goes; kept committables, newer attempts and other pipelines stay."""
    sink, other = sink_to(tmp_path), sink_to(tmp_path, pipeline="p2")
    ready = []
    for owner, attempt in ((sink, 1), (sink, 2), (sink, 3), (other, 1)):
        to = writer(owner, attempt)
        to.write(rows(attempt))
        ready.append(prepared(to, attempt))
    abandoned = writer(sink, 1, subtask=1)
    abandoned.write(rows(9))
    FileSinkCommitter(sink).sweep(Attempt(3), keep=ready[1])
    assert staged(tmp_path) == ["000001-00000-000000.snappy.parquet"] + [
        f"{attempt:06d}-00000-000000.snappy.parquet" for attempt in (2, 3)
    ]
    FileSinkCommitter(sink).sweep(Attempt(3), keep=ready[1])
    FileSinkCommitter(sink).commit(ready[1] + ready[2])
    FileSinkCommitter(other).commit(ready[3])
    assert visible(tmp_path) == [1, 2, 3]


def test_a_writer_that_leaves_removes_what_it_had_not_prepared(tmp_path: Path) -> None:
    sink = sink_to(tmp_path)
    to = writer(sink)
    to.write(rows(1))
    ready = prepared(to, 1)
    to.write(rows(2))
    to.close()
    FileSinkCommitter(sink).commit(ready)
    assert visible(tmp_path) == [1] and staged(tmp_path) == []


def test_a_prepared_file_that_vanished_is_reported_and_named(tmp_path: Path) -> None:
    sink = sink_to(tmp_path)
    to = writer(sink)
    to.write(rows(1))
    ready = prepared(to, 1)
    for path in (tmp_path / "_tidegate").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(CorruptSnapshot, match="part-000001"):
        FileSinkCommitter(sink).commit(ready)


def test_names_in_a_committable_cannot_leave_the_output_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leaves the output directory"):
        FilesToCommit(files=(StagedFile(staged="a", final="../../etc/x", rows=1),))
    evil = msgspec.msgpack.encode({"type": "files/1", "files": [{"staged": "/etc/passwd", "final": "x", "rows": 1}]})
    with pytest.raises(CorruptSnapshot):
        FileSinkCommitter(sink_to(tmp_path)).commit(
            (Committable(checkpoint=CheckpointId(1), subtask=SlotIndex(0), number=0, payload=evil),)
        )


def test_partitions_become_directories_in_sparks_spelling(tmp_path: Path) -> None:
    sink = sink_to(tmp_path, partition_by=("k",))
    to = writer(sink)
    to.write(pl.DataFrame({"k": ["a/b", None, "a/b", ""], "n": [1, 2, 3, 4]}))
    FileSinkCommitter(sink).commit(prepared(to, 1))
    assert sorted(path.parent.name for path in files(tmp_path)) == ["k=__HIVE_DEFAULT_PARTITION__", "k=a%2Fb"]
    assert sorted(read_all(file_scan("parquet", tmp_path, SCHEMA)), key=lambda row: row[1]) == [
        ("a/b", 1), (None, 2), ("a/b", 3), (None, 4),
    ]  # fmt: skip


def test_files_are_rolled_by_rows_and_by_size(tmp_path: Path) -> None:
    sink = sink_to(tmp_path / "rows", maxRecordsPerFile=4)
    to = writer(sink)
    to.write(rows(*range(10)))
    FileSinkCommitter(sink).commit(prepared(to, 1))
    assert len(files(tmp_path / "rows")) == 3 and visible(tmp_path / "rows") == list(range(10))
    sink = sink_to(tmp_path / "size", rollingSize=100)
    to = writer(sink)
    for n in range(10):
        to.write(rows(n, n + 10))
    FileSinkCommitter(sink).commit(prepared(to, 1))
    assert 1 < len(files(tmp_path / "size")) < 10 and len(visible(tmp_path / "size")) == 20


def test_many_partitions_do_not_open_as_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_sink, "OPEN_FILES_MAX", 4)
    sink = sink_to(tmp_path, partition_by=("k",))
    to = writer(sink)
    to.write(pl.DataFrame({"k": [f"k{n}" for n in range(20)], "n": list(range(20))}))
    FileSinkCommitter(sink).commit(prepared(to, 1))
    assert visible(tmp_path) == list(range(20))


def test_update_mode_and_unknown_partitions_are_refused(tmp_path: Path) -> None:
    base = sink_to(tmp_path)
    update = Sink(
        id=base.id, format="parquet", options=base.options, columns=base.columns, schema=SCHEMA, mode=OutputMode.UPDATE
    )
    with pytest.raises(InvalidQuery, match="update"):
        FileSinkCommitter(update)
    with pytest.raises(InvalidQuery, match="nope"):
        FileSinkCommitter(sink_to(tmp_path, partition_by=("nope",)))
    with pytest.raises(InvalidQuery, match="all columns"):
        FileSinkCommitter(sink_to(tmp_path, partition_by=("k", "n")))


def test_a_sink_without_a_pipeline_is_a_bug_and_never_writes_under_a_shared_name(tmp_path: Path) -> None:
    with pytest.raises(Bug, match=r"tidegate\.pipeline"):
        writer(sink_to(tmp_path, pipeline=""))
