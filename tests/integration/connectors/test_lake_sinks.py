"""Claims that hold for every table format: exactly once, whatever is repeated, late, racing or left behind."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pytest
from tests.integration.connectors.lake_tables import (
    NUMBERS,
    DeltaSinkTable,
    IcebergSinkTable,
    SinkTable,
    committer,
    data_files,
    notes,
    numbers,
    prepared,
    table_sink,
    visible,
    writer,
    wrote,
)

from tidegate.connectors.delta import committer as delta_committer
from tidegate.connectors.iceberg import committer as iceberg_committer
from tidegate.connectors.lake import writer as lake_writer
from tidegate.model import types as t
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import Attempt
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field
from tidegate.operators.columns import conform

COMMITTERS = {"delta": delta_committer, "iceberg": iceberg_committer}


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> SinkTable:
    return DeltaSinkTable(tmp_path / "t") if request.param == "delta" else IcebergSinkTable(tmp_path)


def before_the_commit(monkeypatch: pytest.MonkeyPatch, table: SinkTable, do: Any) -> None:
    """``do`` runs once, when the next commit has looked at the table and not changed it yet."""
    module = COMMITTERS[table.format]
    original, waiting = module.refuse_lost, [do]

    def hooked(*arguments: Any) -> None:
        original(*arguments)
        if waiting:
            waiting.pop()()

    monkeypatch.setattr(module, "refuse_lost", hooked)


def test_rows_are_visible_after_the_commit_and_not_before(table: SinkTable) -> None:
    """T5: what is prepared is durable and lies in the table's own place, and no reader sees it."""
    sink = table_sink(table)
    to, master = committer(sink), writer(sink)
    ready = wrote(master, 1, numbers(1, 2, 3))
    assert visible(table) == [] and len(data_files(table)) == 1 and len(notes(table)) == 1
    to.commit(ready)
    assert visible(table) == [1, 2, 3] and len(data_files(table)) == 1 and notes(table) == []


def test_a_commit_repeated_by_anybody_changes_nothing(table: SinkTable) -> None:
    """T1, T2, T3: by the same coordinator, and by one that was started again and knows only the manifest."""
    sink = table_sink(table)
    to, out = committer(sink), writer(sink)
    first = wrote(out, 1, numbers(1, 2))
    for again in (to, to, committer(sink)):
        again.commit(first)
    assert visible(table) == [1, 2] and table.versions() == 1


def test_a_manifest_carries_what_is_not_confirmed_and_only_the_rest_is_added(table: SinkTable) -> None:
    """T6: all of it in one change of the table."""
    sink = table_sink(table)
    to, out = committer(sink), writer(sink)
    first, second, third = (wrote(out, n, numbers(n)) for n in (1, 2, 3))
    to.commit(first)
    to.commit(first + second + third)
    assert visible(table) == [1, 2, 3] and table.versions() == 2


def test_a_late_zombie_commits_nothing_twice(table: SinkTable) -> None:
    """T9: it commits checkpoint 1 long after its successor has committed 1, 2 and 3."""
    sink = table_sink(table)
    zombie, successor = committer(sink), committer(sink)
    first = wrote(writer(sink, attempt=1), 1, numbers(1))
    out = writer(sink, attempt=2)
    for checkpoint in (2, 3):
        first += wrote(out, checkpoint, numbers(checkpoint))
        successor.commit(first)
    zombie.commit(first[:1])
    assert visible(table) == [1, 2, 3] and table.versions() == 2


@pytest.mark.parametrize("ahead", [0, 1])
def test_of_two_commits_that_race_one_counts(table: SinkTable, monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    """Racing commit: both have seen a table without the checkpoint. The other one may be of the same manifest or of a later one."""
    sink = table_sink(table)
    slow, quick = committer(sink), committer(sink)
    out = writer(sink)
    first, second = wrote(out, 1, numbers(1)), wrote(out, 2, numbers(2))
    before_the_commit(monkeypatch, table, lambda: quick.commit(first + (second if ahead else ())))
    slow.commit(first)
    assert visible(table) == ([1, 2] if ahead else [1]) and table.versions() == 1


def test_eight_committers_at_once_commit_once(table: SinkTable) -> None:
    sink = table_sink(table)
    committers = [committer(sink) for _ in range(8)]
    ready = wrote(writer(sink), 1, numbers(1, 2, 3))
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def run(to: Any) -> None:
        start.wait()
        try:
            to.commit(ready)
        except Exception as error:  # noqa: BLE001  the main thread looks at all of them
            failures.append(error)

    threads = [threading.Thread(target=run, args=(to,)) for to in committers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert visible(table) == [1, 2, 3] and table.versions() == 1 and failures == []


def test_others_may_write_to_the_table_meanwhile(table: SinkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = table_sink(table)
    to = committer(sink)
    ready = wrote(writer(sink), 1, numbers(1))
    theirs = pa.table({"k": ["x"], "n": pa.array([100], pa.int64())})
    before_the_commit(monkeypatch, table, lambda: table.append(theirs))
    to.commit(ready)
    to.commit(ready)
    assert visible(table) == [1, 100]


def test_two_sinks_and_two_pipelines_share_a_table(table: SinkTable) -> None:
    """Each counts its own checkpoints."""
    for number, sink in enumerate(
        (table_sink(table), table_sink(table, name="sink-1"), table_sink(table, pipeline="p2"))
    ):
        to = committer(sink)
        to.commit(wrote(writer(sink), 1, numbers(number)))
    assert visible(table) == [0, 1, 2]


def test_a_restart_keeps_what_the_checkpoint_carries_and_sweeps_the_rest(table: SinkTable) -> None:
    """A crash between prepare and commit, another before prepare: the carried rows appear once, the others never."""
    sink = table_sink(table)
    committer(sink)
    out, idle = writer(sink, attempt=1), writer(sink, attempt=1, subtask=1)
    carried, lost = wrote(out, 1, numbers(1, 2)), wrote(out, 2, numbers(3))
    idle.write(numbers(4))
    to = committer(sink)
    to.sweep(Attempt(2), carried)
    to.sweep(Attempt(2), carried)
    to.commit(carried)
    assert lost and visible(table) == [1, 2] and len(data_files(table)) == 1 and notes(table) == []


def test_a_sweep_leaves_alone_what_is_not_its_own(table: SinkTable) -> None:
    """Another pipeline's, another sink's, a newer attempt's, and the table's own files."""
    mine, sibling, other = table_sink(table), table_sink(table, name="sink-1"), table_sink(table, pipeline="p2")
    to = committer(mine)
    to.commit(wrote(writer(mine, attempt=1), 1, numbers(1)))
    table.append(pa.table({"k": ["x"], "n": pa.array([100], pa.int64())}))
    waiting = [
        (sink, wrote(writer(sink, attempt=attempt), 2, numbers(n)))
        for n, (sink, attempt) in enumerate([(sibling, 1), (other, 1), (mine, 2)], start=2)
    ]
    to.sweep(Attempt(2), ())
    for sink, ready in waiting:
        committer(sink).commit(ready)
    assert visible(table) == [1, 2, 3, 4, 100]


def test_a_sweep_never_deletes_what_the_table_has(table: SinkTable) -> None:
    """The committer died between the commit and the removal of its notes, and recovery went back behind that checkpoint."""
    sink = table_sink(table, partition_by=("k",))
    to = committer(sink)
    ready = wrote(writer(sink), 1, numbers(1, 2, 3).with_columns(k="a b/%:ü=" + numbers(1, 2, 3)["k"]))
    left = {path: path.read_bytes() for path in (table.root / "_tidegate").rglob("*-*") if path.is_file()}
    to.commit(ready)
    for path, content in left.items():
        path.write_bytes(content)
    to.sweep(Attempt(2), ())
    assert visible(table) == [1, 2, 3] and notes(table) == []


def test_fewer_subtasks_commit_what_more_have_prepared(table: SinkTable) -> None:
    """T46: three subtasks prepared, one restores: all of it is visible once."""
    sink = table_sink(table)
    to = committer(sink)
    carried = tuple(
        one for subtask in range(3) for one in wrote(writer(sink, 1, subtask), 1, numbers(subtask), subtask)
    )
    out = writer(sink, attempt=2)
    to.sweep(Attempt(2), carried)
    to.commit(carried)
    to.commit(carried + wrote(out, 2, numbers(3)))
    assert visible(table) == [0, 1, 2, 3]


def test_a_checkpoint_without_rows_leaves_no_trace(table: SinkTable) -> None:
    """T57: no file, no note, no change of the table."""
    sink = table_sink(table)
    to, out = committer(sink), writer(sink)
    assert prepared(out, 1) == () and prepared(out, 2) == ()
    to.commit(())
    assert table.versions() == 0 and data_files(table) == [] and notes(table) == []


def test_a_writer_that_is_closed_takes_its_unprepared_files_along(table: SinkTable) -> None:
    sink = table_sink(table)
    committer(sink)
    out = writer(sink)
    ready = wrote(out, 1, numbers(1))
    out.write(numbers(2))
    out.close()
    assert ready and len(data_files(table)) == 1 and len(notes(table)) == 1


def test_files_are_rolled_by_rows_and_by_size(table: SinkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = table_sink(table, maxRecordsPerFile=4)
    to, out = committer(sink), writer(sink)
    to.commit(wrote(out, 1, numbers(*range(10))))
    assert visible(table) == list(range(10)) and len(data_files(table)) == 3
    monkeypatch.setattr(lake_writer, "FILE_BYTES_MAX", 1)
    for n in (10, 11):
        out.write(numbers(n))
    to.commit(prepared(out, 2))
    assert visible(table) == list(range(12)) and len(data_files(table)) == 5


def test_nested_values_survive_being_cut_into_files(table: SinkTable) -> None:
    """A file may begin in the middle of a batch: offsets into lists, maps and structs go along."""
    schema = (
        Field("n", t.LONG),
        Field("xs", t.Array(t.Struct((Field("a", t.STRING),)))),
        Field("m", t.Map(t.STRING, t.Array(t.LONG))),
        Field("s", t.Struct((Field("b", t.Array(t.LONG)), Field("c", t.STRING)))),
    )
    given = [
        {
            "n": n,
            "xs": [{"a": f"{n}.{i}"} for i in range(n % 3 + 1)],
            "m": [{"key": f"k{i}", "value": list(range(i))} for i in range(1, n % 4 + 2)],
            "s": {"b": list(range(n % 2 + 1)), "c": None if n % 5 == 0 else str(n)},
        }
        for n in range(20)
    ]
    rows = conform(pl.DataFrame(given), schema)
    sink = table_sink(table, schema, maxRecordsPerFile=3)
    to, out = committer(sink), writer(sink)
    out.write(rows.slice(1, 4))
    to.commit(wrote(out, 1, rows.slice(5, 15)))
    expected = [row | {"m": [(pair["key"], pair["value"]) for pair in row["m"]]} for row in given[1:]]
    assert sorted(table.rows(), key=lambda row: row["n"]) == expected and len(data_files(table)) == 7


def test_many_partitions_need_few_open_files(table: SinkTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_writer, "OPEN_FILES_MAX", 2)
    sink = table_sink(table, partition_by=("k",))
    to, out = committer(sink), writer(sink)
    to.commit(wrote(out, 1, numbers(*range(9))))
    assert visible(table) == list(range(9)) and len(data_files(table)) == 3


def test_a_whole_result_takes_the_place_of_the_one_before(table: SinkTable) -> None:
    """Output mode complete: also when it is empty, and never an older one after a newer one."""
    sink = table_sink(table, mode=OutputMode.COMPLETE)
    to, out = committer(sink), writer(sink)
    first, second, empty = wrote(out, 1, numbers(1, 2)), wrote(out, 2, numbers(2, 3)), prepared(out, 3)
    seen = []
    for ready in (first, second, second, first, empty):
        to.commit(ready)
        seen.append(visible(table))
    assert seen == [[1, 2], [2, 3], [2, 3], [2, 3], []]


def test_a_file_that_is_gone_before_its_commit_is_reported_and_the_table_stays_readable(table: SinkTable) -> None:
    sink = table_sink(table)
    to, out = committer(sink), writer(sink)
    to.commit(wrote(out, 1, numbers(1)))
    ready = wrote(out, 2, numbers(2))
    data_files(table)[-1].unlink()
    with pytest.raises(CorruptSnapshot, match="prepared by a completed checkpoint and are gone"):
        to.commit(ready)
    assert visible(table) == [1]


def test_a_damaged_committable_is_named_as_such(table: SinkTable) -> None:
    """T63: nothing in it is executed."""
    sink = table_sink(table)
    to = committer(sink)
    (one,) = wrote(writer(sink), 1, numbers(1))
    with pytest.raises(CorruptSnapshot, match=f"committable of the {table.format} sink"):
        to.commit((msgspec.structs.replace(one, payload=b"\x80\x04."),))


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ((Field("k", t.STRING), Field("n", t.INTEGER)), "n is int here and long there"),
        ((Field("k", t.STRING), Field("n", t.LONG), Field("x", t.LONG)), r"x \(bigint\) is not there"),
        ((Field("K", t.STRING), Field("n", t.LONG)), "K is called k there"),
        ((Field("k", t.Array(t.LONG)), Field("n", t.LONG)), "k is array<bigint> here and string there"),
    ],
)
def test_a_result_that_does_not_fit_is_refused_with_its_columns(
    table: SinkTable, schema: tuple[Field, ...], complaint: str
) -> None:
    committer(table_sink(table))
    with pytest.raises(InvalidQuery, match=complaint):
        committer(table_sink(table, schema))


def test_merge_schema_adds_columns_and_old_rows_have_nulls_there(table: SinkTable) -> None:
    """A query that lacks a column of the table writes nulls, too."""
    narrow, wide = (
        table_sink(table),
        table_sink(table, (*NUMBERS, Field("x", t.DOUBLE)), mergeSchema=True, pipeline="p2"),
    )
    to = committer(narrow)
    out = writer(narrow)
    to.commit(wrote(out, 1, numbers(1)))
    added = committer(wide)
    added.commit(wrote(writer(wide), 1, numbers(2).with_columns(x=0.5)))
    to.commit(wrote(out, 2, numbers(3)))
    assert sorted((row["n"], row["x"]) for row in table.rows()) == [(1, None), (2, 0.5), (3, None)]


def test_partitioning_of_a_table_that_is_there_counts(table: SinkTable) -> None:
    committer(table_sink(table, partition_by=("k",)))
    sink = table_sink(table)
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, numbers(1, 2, 3, 4)))
    assert visible(table) == [1, 2, 3, 4] and len(data_files(table)) == 3
    with pytest.raises(InvalidQuery, match=r"partitionBy names n, but the table .* is partitioned by"):
        committer(table_sink(table, partition_by=("n",)))
    with pytest.raises(InvalidQuery, match=r"partitioned by .*k.*, which"):
        committer(table_sink(table, (Field("n", t.LONG),)))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mode": OutputMode.UPDATE}, "cannot take back rows"),
        ({"partition_by": ("z",)}, "partitionBy names z, which the result does not have"),
        ({"schema": (Field("i", t.DAY_TIME_INTERVAL),)}, "cannot write intervals"),
        ({"schema": (Field("i", t.Array(t.NULL)),)}, "cannot write columns without a type"),
        ({"maxRecordsPerFile": "many"}, "maxRecordsPerFile"),
        ({"mergeSchema": "perhaps"}, "mergeSchema"),
        ({"path": ""}, "needs the option 'path'"),
    ],
)
def test_what_no_table_can_take_is_refused_before_the_table_is_touched(
    table: SinkTable, changes: dict[str, Any], complaint: str
) -> None:
    sink = table_sink(table, **changes)
    with pytest.raises(InvalidQuery, match=complaint):
        writer(sink)
    assert not table.root.exists()
