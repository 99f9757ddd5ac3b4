from __future__ import annotations

import datetime
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.nodes import ByNode, planned_sink

from tidegate.connectors.console.committer import ConsoleCommitter, show
from tidegate.connectors.foreach.sink import pack
from tidegate.connectors.legacy import Sink
from tidegate.connectors.memory.committer import MemoryCommitter
from tidegate.connectors.noop.sink import NoopWriter
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery, UserCodeFailed
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable
from tidegate.model.types import Field
from tidegate.ports.sink import SinkWriter

SCHEMA = (Field("n", t.LONG), Field("ts", t.TIMESTAMP))
NOON = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)


def sink_called(form: str, payload: bytes = b"", **options: Any) -> Sink:
    return Sink(
        id=OperatorId("sink-0"), format=form, options={k: str(v) for k, v in options.items()}, columns=(), schema=SCHEMA, payload=payload
    )  # fmt: skip


def rows(*numbers: int) -> pl.DataFrame:
    return pl.DataFrame(
        {"n": list(numbers), "ts": [NOON] * len(numbers)}, schema={"n": pl.Int64, "ts": pl.Datetime("us", "UTC")}
    )


def prepared(writer: SinkWriter, checkpoint: int, subtask: int = 0) -> tuple[Committable, ...]:
    return tuple(
        Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(subtask), number=n, payload=payload)
        for n, payload in enumerate(writer.prepare(CheckpointId(checkpoint)))
    )


def test_memory_holds_committed_rows_once_in_checkpoint_order() -> None:
    """T2: late, repeated and reordered commits change nothing."""
    sink = sink_called("memory")
    committer = MemoryCommitter(planned_sink(sink).spec)
    seen: list[tuple[int, list[int]]] = []
    committer.subscribe(lambda checkpoint, new: seen.append((checkpoint, new["n"].to_list())))
    writers = [ByNode().sink(sink).writer(sink, Attempt(1), SlotIndex(n)) for n in (0, 1)]
    ready = []
    for checkpoint in (1, 2):
        for subtask, writer in enumerate(writers):
            writer.write(rows(10 * checkpoint + subtask))
            ready.append(prepared(writer, checkpoint, subtask))
    assert committer.table().height == 0 and committer.table().schema == rows().schema
    committer.commit(ready[3] + ready[2])
    committer.commit(ready[0] + ready[1] + ready[2] + ready[3])
    committer.commit(ready[0])
    assert committer.table()["n"].to_list() == [10, 11, 20, 21]
    assert seen == [(2, [20, 21]), (1, [10, 11])]


def test_a_view_shows_the_table_of_memory_from_the_start_and_after_each_commit() -> None:
    sink, shown = sink_called("memory"), list[list[int]]()
    committer = ByNode().committer(sink, lambda table: shown.append(table["n"].to_list()))
    assert shown == []
    committer.open()
    writer = ByNode().sink(sink).writer(sink, Attempt(1), SlotIndex(0))
    writer.write(rows(1, 2))
    ready = prepared(writer, 1)
    committer.commit(ready)
    committer.commit(ready)
    assert shown == [[], [1, 2]]


def test_an_empty_epoch_of_memory_has_nothing_to_commit() -> None:
    assert (
        ByNode()
        .sink(sink_called("memory"))
        .writer(sink_called("memory"), Attempt(1), SlotIndex(0))
        .prepare(CheckpointId(1))
        == ()
    )


def test_in_complete_mode_memory_shows_the_newest_whole_result_alone() -> None:
    """T2: late, repeated and reordered commits change nothing; a result may shrink, down to no row at all."""
    sink = replace(sink_called("memory"), mode=OutputMode.COMPLETE)
    committer = MemoryCommitter(planned_sink(sink).spec)
    writers = [ByNode().sink(sink).writer(sink, Attempt(1), SlotIndex(n)) for n in (0, 1)]
    ready = []
    for checkpoint, (left, right) in enumerate((((1, 2), (3,)), ((4,), ()), ((), ())), 1):
        for subtask, (writer, numbers) in enumerate(zip(writers, (left, right), strict=True)):
            if numbers:
                writer.write(rows(*numbers))
            ready.append(prepared(writer, checkpoint, subtask))
    committer.commit(ready[0] + ready[1])
    assert committer.table()["n"].to_list() == [1, 2, 3]
    committer.commit(ready[3] + ready[2] + ready[1] + ready[0])
    committer.commit(ready[0])
    assert committer.table()["n"].to_list() == [4]
    committer.commit(ready[4] + ready[5])
    assert committer.table()["n"].to_list() == []


def test_console_prints_each_checkpoint_once_as_spark_draws_tables() -> None:
    sink = sink_called("console", numRows=2)
    out = io.StringIO()
    committer = ConsoleCommitter(2, 20, out)
    writer = ByNode().sink(sink).writer(sink, Attempt(1), SlotIndex(0))
    writer.write(rows(1, 2, 3))
    ready = prepared(writer, 4)
    committer.commit(ready)
    committer.commit(ready)
    assert out.getvalue() == (
        "-------------------------------------------\nCheckpoint: 4\n-------------------------------------------\n"
        "+---+-------------------+\n|  n|                 ts|\n+---+-------------------+\n"
        "|  1|2024-05-01 12:00:00|\n|  2|2024-05-01 12:00:00|\n+---+-------------------+\n"
        "only showing top 2 of 3 rows\n\n"
    )


def test_long_cells_are_cut_unless_told_otherwise() -> None:
    frame = pl.DataFrame({"s": ["x" * 30, None], "l": [[1, 2], []]})
    assert "|xxxxxxxxxxxxxxxxx...|[1, 2]|" in show(frame, 20)
    assert f"|{'x' * 30}|[1, 2]|" in show(frame, 0) and "|NULL" in show(frame, 0)


def test_noop_only_counts() -> None:
    writer = ByNode().sink(sink_called("noop")).writer(sink_called("noop"), Attempt(1), SlotIndex(0))
    writer.write(rows(1, 2))
    assert isinstance(writer, NoopWriter) and writer.rows == 2 and writer.prepare(CheckpointId(1)) == ()


class Recorder:
    """A foreach object that writes down its calls in a list shared through a module attribute: pickling copies it."""

    def open(self, partition_id: int, epoch_id: int) -> bool:
        CALLS.append(("open", partition_id, epoch_id))
        return epoch_id != 13

    def process(self, row: Any) -> None:
        CALLS.append(("row", row.n, row["ts"]))

    def close(self, error: BaseException | None) -> None:
        CALLS.append(("close", error))


CALLS: list[tuple[Any, ...]] = []


def test_foreach_opens_and_closes_around_the_rows_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setitem(globals(), "CALLS", calls)
    sink = sink_called("foreach", payload=_by_reference(Recorder()))
    writer = ByNode().sink(sink).writer(sink, Attempt(1), SlotIndex(3))
    writer.write(rows(1))
    writer.write(rows(2))
    assert writer.prepare(CheckpointId(7)) == ()
    assert writer.prepare(CheckpointId(8)) == ()
    writer.write(rows(3))
    writer.close()
    local = NOON.astimezone().replace(tzinfo=None)
    assert calls == [
        ("open", 3, 0), ("row", 1, local), ("row", 2, local), ("close", None), ("open", 3, 8), ("row", 3, local), ("close", None),
    ]  # fmt: skip


def test_foreach_skips_the_epoch_when_open_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setitem(globals(), "CALLS", calls)
    sink = sink_called("foreach", payload=_by_reference(Recorder()))
    writer = ByNode().sink(sink).writer(sink, Attempt(1), SlotIndex(0))
    writer.prepare(CheckpointId(13))
    writer.write(rows(1))
    assert calls == [("open", 0, 13)]


def test_a_raising_foreach_shows_the_users_traceback_and_the_row() -> None:
    def boom(row: Any) -> None:
        if row.n == 2:
            raise ValueError("I do not like two")

    sink = sink_called("foreach", payload=pack(boom))
    writer = ByNode().sink(sink).writer(sink, Attempt(1), SlotIndex(0))
    with pytest.raises(UserCodeFailed, match="I do not like two") as raised:
        writer.write(rows(1, 2, 3))
    assert "in boom" in raised.value.message and "n=2" in raised.value.message


@pytest.mark.parametrize("handler", [3, object()])
def test_a_foreach_handler_that_cannot_process_is_refused(handler: object) -> None:
    with pytest.raises(InvalidQuery, match="foreach"):
        pack(handler)


def test_unknown_formats_are_refused_with_a_list_of_those_that_exist() -> None:
    with pytest.raises(InvalidQuery, match="'kudu'") as raised:
        ByNode().committer(sink_called("kudu"))
    assert "parquet" in raised.value.hint and "memory" in raised.value.hint


def test_every_sink_says_what_it_guarantees() -> None:
    """T52. Sinks that need a server have this test beside their others."""
    connectors = ByNode()
    expected = dict.fromkeys(("parquet", "json", "csv", "memory"), "exactly_once") | dict.fromkeys(
        ("console", "noop", "foreach"), "at_least_once"
    )
    assert {form: connectors.sink(sink_called(form, path="/x")).guarantee for form in expected} == expected


def test_a_file_sink_is_checked_before_anything_is_touched(tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery, match="path"):
        ByNode().sink(sink_called("parquet"))
    with pytest.raises(InvalidQuery, match="compression"):
        ByNode().sink(sink_called("parquet", path=tmp_path / "out", compression="zip"))
    assert not (tmp_path / "out").exists()


def _by_reference(handler: object) -> bytes:
    import pickle

    return pickle.dumps(handler)
