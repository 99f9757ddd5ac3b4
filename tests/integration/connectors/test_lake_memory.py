"""What Delta and Iceberg tables remember of a sink's output: the newest attempt and checkpoint, over versions of Tidegate and changes by others."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import copytree

import polars as pl
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from tests.integration.connectors.lake_tables import (
    DeltaSinkTable,
    IcebergSinkTable,
    SinkTable,
    committer,
    numbers,
    prepared,
    table_sink,
    visible,
    writer,
    wrote,
)

from tidegate.connectors.delta.committer import DeltaCommitter
from tidegate.connectors.iceberg.committer import IcebergCommitter
from tidegate.connectors.legacy import Sink
from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Published

COMMITTED = "tidegate.committed.p1.sink-0"


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> SinkTable:
    return DeltaSinkTable(tmp_path / "t") if request.param == "delta" else IcebergSinkTable(tmp_path)


def published(attempt: int, checkpoint: int) -> Published:
    return Published(Attempt(attempt), CheckpointId(checkpoint))


def memory(sink: Sink) -> Published | None:
    """As a new start sees it."""
    asked = committer(sink)
    assert isinstance(asked, DeltaCommitter | IcebergCommitter)
    return asked.published()


def earlier_version_commits(table: SinkTable, checkpoint: int, *values: int) -> None:
    """It stores the number of the checkpoint alone."""
    rows = numbers(*values).to_arrow(compat_level=pl.CompatLevel.oldest())
    if isinstance(table, DeltaSinkTable):
        number = CommitProperties(app_transactions=[Transaction("tidegate/p1/sink-0", checkpoint)])
        write_deltalake(str(table.root), rows, mode="append", commit_properties=number)
        return
    assert isinstance(table, IcebergSinkTable)
    summary = {"tidegate.pipeline": "p1", "tidegate.sink": "sink-0", "tidegate.checkpoint": str(checkpoint)}
    with table.table.transaction() as change:
        change.set_properties({COMMITTED: str(checkpoint)})
        change.append(rows.cast(change.table_metadata.schema().as_arrow()), snapshot_properties=summary)


def test_the_newest_attempt_and_checkpoint_are_remembered_whoever_asks(table: SinkTable) -> None:
    """T74"""
    sink = table_sink(table)
    assert memory(sink) is None
    first = wrote(writer(sink, attempt=1), 7, numbers(1))
    to = committer(sink)
    to.commit(first)
    assert memory(sink) == published(1, 7)
    to.commit(first + wrote(writer(sink, attempt=3), 9, numbers(2)))
    assert memory(sink) == published(3, 9)
    assert memory(table_sink(table, pipeline="p2")) is None and memory(table_sink(table, name="sink-1")) is None


def test_attempts_are_compared_and_not_numbers_alone(table: SinkTable) -> None:
    """T73: a later attempt that was given a number again is not skipped, an earlier one with a higher number is."""
    sink = table_sink(table)
    memory(sink)  # Makes the table.
    late = wrote(writer(sink, attempt=1), 12, numbers(1))
    committer(sink).commit(wrote(writer(sink, attempt=2), 9, numbers(2)))
    committer(sink).commit(wrote(writer(sink, attempt=3), 8, numbers(3)))
    committer(sink).commit(late)
    assert visible(table) == [2, 3] and memory(sink) == published(3, 8)


def test_a_table_of_an_earlier_version_goes_on(table: SinkTable) -> None:
    """Its number counts until a commit of today has stored both; what is repeated or late over the change does nothing."""
    sink = table_sink(table)
    memory(sink)  # Makes the table.
    waiting = wrote(writer(sink, attempt=1), 5, numbers(5))
    earlier_version_commits(table, 5, 5)
    assert memory(sink) == published(0, 5)
    committer(sink).commit(waiting)
    assert visible(table) == [5], "repeated by the version of today"
    sixth = wrote(writer(sink, attempt=2), 6, numbers(6))
    committer(sink).commit(waiting + sixth)
    assert visible(table) == [5, 6] and memory(sink) == published(2, 6)
    committer(sink).commit(waiting + sixth)
    assert visible(table) == [5, 6]


def test_a_commit_of_an_earlier_version_in_between_is_not_repeated(table: SinkTable) -> None:
    """Somebody went back to it for a while. Its attempt is higher than the one that stands in the table, and its rows are there."""
    sink = table_sink(table)
    committer(sink).commit(wrote(writer(sink, attempt=2), 6, numbers(6)))
    waiting = wrote(writer(sink, attempt=3), 7, numbers(7))
    earlier_version_commits(table, 7, 7)
    assert memory(sink) == published(0, 7)
    committer(sink).commit(waiting)
    assert visible(table) == [6, 7]


def test_an_empty_result_is_remembered_by_its_number(table: SinkTable) -> None:
    """Output mode complete: it has no files, and only they know their attempt."""
    sink = table_sink(table, mode=OutputMode.COMPLETE)
    committer(sink).commit(wrote(writer(sink, attempt=2), 4, numbers(1)))
    empty = prepared(writer(sink, attempt=2), 5)
    committer(sink).commit(empty)
    assert visible(table) == [] and memory(sink) == published(0, 5)
    committer(sink).commit(wrote(writer(sink, attempt=2), 6, numbers(2)))
    committer(sink).commit(empty)
    assert visible(table) == [2] and memory(sink) == published(2, 6)


def test_a_table_that_was_set_back_is_said_until_it_is_written_to(
    table: SinkTable, caplog: pytest.LogCaptureFixture
) -> None:
    """Its memory stays: what was there is not written again, and what comes is not skipped."""
    sink = table_sink(table)
    committer(sink).commit(wrote(writer(sink, attempt=1), 1, numbers(1)))
    before = table.versions()
    second = wrote(writer(sink, attempt=1), 2, numbers(2))
    committer(sink).commit(second)
    assert memory(sink) == published(1, 2) and caplog.text == ""
    if isinstance(table, DeltaSinkTable):
        table.table.restore(before)
    else:
        assert isinstance(table, IcebergSinkTable)
        table.table.manage_snapshots().rollback_to_snapshot(table.table.snapshots()[0].snapshot_id).commit()
    assert visible(table) == [1]
    with caplog.at_level(logging.WARNING, "tidegate.connectors"):
        assert memory(sink) == published(1, 2)
    (warning,) = [one.getMessage() for one in caplog.records]
    assert "holds checkpoint 1 of attempt 1" in warning and "checkpoint 2 of attempt 1 had become visible" in warning
    caplog.clear()
    committer(sink).commit(second + wrote(writer(sink, attempt=2), 3, numbers(3)))
    assert visible(table) == [1, 3] and memory(sink) == published(2, 3)
    assert caplog.text == ""


def test_a_table_that_is_set_back_while_the_query_runs_gets_nothing_again(
    table: SinkTable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """B3: memory and all. What this driver has brought there is done, though slots may hand it on once more."""
    sink = table_sink(table)
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, numbers(1)))
    place = table.root if isinstance(table, DeltaSinkTable) else tmp_path
    if isinstance(table, DeltaSinkTable):
        old = copytree(place / "_delta_log", tmp_path / "old")
    else:
        old = Path(shutil.copy(tmp_path / "catalog.db", tmp_path / "old"))
    second = wrote(writer(sink), 2, numbers(2))
    to.commit(second)
    if isinstance(table, DeltaSinkTable):
        shutil.rmtree(place / "_delta_log")
        copytree(old, place / "_delta_log")
    else:
        with closing(sqlite3.connect(old)) as before, closing(sqlite3.connect(tmp_path / "catalog.db")) as catalog:
            before.backup(catalog)
    assert visible(table) == [1]
    with caplog.at_level(logging.WARNING, "tidegate.connectors"):
        to.commit(second)
        to.commit(second)
    assert visible(table) == [1]
    (warning,) = [one.getMessage() for one in caplog.records]
    assert "holds checkpoint 1 of attempt 1" in warning and "checkpoint 2 of attempt 1 had become visible" in warning
    to.commit(second + wrote(writer(sink), 3, numbers(3)))
    assert visible(table) == [1, 3]


def test_a_table_without_its_middle_snapshots_is_not_taken_for_one_that_was_set_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A tag keeps the snapshot of the newest commit; what came between it and the present one has expired."""
    table = IcebergSinkTable(tmp_path)
    sink = table_sink(table)
    committer(sink).commit(wrote(writer(sink), 1, numbers(1)))
    table.table.manage_snapshots().create_tag(table.table.snapshots()[0].snapshot_id, "kept").commit()
    for number in (100, 101):
        table.append(numbers(number).to_arrow())
    table.table.maintenance.expire_snapshots().by_id(table.table.snapshots()[1].snapshot_id).commit()
    assert visible(table) == [1, 100, 101] and len(table.table.snapshots()) == 2
    assert memory(sink) == published(1, 1) and caplog.text == ""


def test_a_table_that_is_gone_is_an_error_and_not_an_empty_memory(tmp_path: Path) -> None:
    sink = table_sink(DeltaSinkTable(tmp_path / "t"))
    asked = committer(sink)
    assert isinstance(asked, DeltaCommitter) and DeltaTable(str(tmp_path / "t")).version() == 0
    (tmp_path / "t").rename(tmp_path / "away")
    with pytest.raises(Unavailable, match="cannot read the transactions of the Delta table"):
        asked.published()
