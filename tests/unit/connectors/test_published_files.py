"""What a directory remembers of a query's output, with Spark's log and without: asked at every start."""

from __future__ import annotations

import logging
from pathlib import Path
from shutil import copytree, rmtree

import pytest
from tests.unit.connectors.test_file_sink import prepared, rows, sink_to, writer

from tidegate.connectors.files.committer import FileSinkCommitter
from tidegate.connectors.files.staging import PUBLISHED_NAME
from tidegate.connectors.legacy import Sink
from tidegate.model.errors import TidegateError
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Committable, Published


@pytest.fixture(params=["true", "false"], ids=["log", "no log"])
def log(request: pytest.FixtureRequest) -> str:
    return request.param


def owed(sink: Sink, attempt: int, *checkpoints: int) -> tuple[Committable, ...]:
    to = writer(sink, attempt)
    found: tuple[Committable, ...] = ()
    for checkpoint in checkpoints:
        to.write(rows(checkpoint))
        found += prepared(to, checkpoint)
    return found


def published(attempt: int, checkpoint: int) -> Published:
    return Published(Attempt(attempt), CheckpointId(checkpoint))


def test_the_newest_attempt_and_checkpoint_are_remembered_whoever_asks(tmp_path: Path, log: str) -> None:
    """T74"""
    sink = sink_to(tmp_path, sparkMetadataLog=log)
    committer = FileSinkCommitter(sink)
    assert committer.published() is None
    first = owed(sink, 1, 7, 9)
    assert committer.published() is None, "prepared is not published"
    committer.commit(first)
    assert committer.published() == published(1, 9)
    committer.commit(owed(sink, 2, 4))
    committer.commit(first)
    assert committer.published() == published(2, 4), "a later attempt goes on where an earlier one was"
    assert FileSinkCommitter(sink).published() == published(2, 4)


def test_another_querys_output_in_the_same_directory_is_not_ours(tmp_path: Path, log: str) -> None:
    other = sink_to(tmp_path, pipeline="p2", sparkMetadataLog=log)
    FileSinkCommitter(other).commit(owed(other, 5, 50))
    assert FileSinkCommitter(sink_to(tmp_path, sparkMetadataLog=log)).published() is None


def test_a_directory_that_is_set_back_while_the_query_runs_gets_nothing_again(
    tmp_path: Path, log: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B3: log and all. It had been taken for another query's, and the query ended."""
    out = tmp_path / "out"
    sink = sink_to(out, sparkMetadataLog=log)
    committer = FileSinkCommitter(sink)
    committer.commit(owed(sink, 1, 1))
    copytree(out, tmp_path / "old")
    for checkpoint in (2, 3):
        committer.commit(owed(sink, 1, checkpoint))
    second = owed(sink, 1, 4)
    copytree(out, tmp_path / "waiting")
    committer.commit(second)
    rmtree(out)
    copytree(tmp_path / "old", out)
    copytree(tmp_path / "waiting" / "_tidegate" / "staged", out / "_tidegate" / "staged", dirs_exist_ok=True)
    with caplog.at_level(logging.WARNING, "tidegate.connectors"):
        committer.commit(second)
        committer.commit(second)
    (warning,) = [one.getMessage() for one in caplog.records]
    assert "set back while the query runs" in warning and "checkpoint 4 of attempt 1" in warning
    assert committer.published() == published(1, 4)
    committer.commit(second + owed(sink, 1, 5))
    found = [PUBLISHED_NAME.match(path.name) for path in out.glob("part-*")]
    assert sorted(int(one["checkpoint"]) for one in found if one is not None) == [1, 5]
    assert FileSinkCommitter(sink).published() == published(1, 5)


def test_a_log_that_cannot_be_read_is_an_error_and_not_an_empty_memory(tmp_path: Path) -> None:
    sink = sink_to(tmp_path)
    committer = FileSinkCommitter(sink)
    committer.commit(owed(sink, 1, 1))
    committer.commit(owed(sink, 1, 2))
    (tmp_path / "_spark_metadata" / "0").rename(tmp_path / "_away")
    with pytest.raises(TidegateError, match="lost a batch"):
        FileSinkCommitter(sink)
    (tmp_path / "_spark_metadata" / "2").write_bytes(b"v9")
    with pytest.raises(TidegateError, match="no Spark sink log"):
        committer.published()
