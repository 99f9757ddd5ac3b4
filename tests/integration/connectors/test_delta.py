"""What is Delta's own: its types, partitions, statistics, rules and log."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake import Field as DeltaField
from deltalake.schema import PrimitiveType
from tests.integration.connectors.lake_tables import (
    NUMBERS,
    DeltaSinkTable,
    committer,
    numbers,
    table_sink,
    visible,
    writer,
    wrote,
)

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery, TidegateError
from tidegate.model.ids import Attempt
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field
from tidegate.operators.columns import conform

INSTANT = dt.datetime(2024, 1, 1, 1, 2, 3, 123456, tzinfo=dt.UTC)
WALL = dt.datetime(2024, 1, 1, 1, 2, 3, 5)

KEYS: dict[str, tuple[t.DataType, Any]] = {
    "a string": (t.STRING, "x y/%:ü="),
    "instant": (t.TIMESTAMP, INSTANT),
    "wall": (t.TIMESTAMP_NTZ, WALL),
    "day": (t.DATE, dt.date(1969, 12, 31)),
    "int": (t.INTEGER, -3),
    "flag": (t.BOOLEAN, True),
    "amount": (t.Decimal(10, 2), Decimal("1.50")),
}
VALUES: dict[str, tuple[t.DataType, Any]] = {
    "byte": (t.BYTE, -1),
    "short": (t.SHORT, 300),
    "long": (t.LONG, 1 << 40),
    "float": (t.FLOAT, 0.5),
    "double": (t.DOUBLE, -1e300),
    "text": (t.STRING, "日本"),
    "bytes": (t.BINARY, b"\0\xff"),
    "date": (t.DATE, dt.date(2024, 2, 29)),
    "at": (t.TIMESTAMP, INSTANT),
    "local": (t.TIMESTAMP_NTZ, WALL),
    "exact": (t.Decimal(38, 10), Decimal("1234567890123456789012345678.0123456789")),
    "list": (t.Array(t.STRING), ["a", None]),
    "pairs": (t.Map(t.STRING, t.LONG), [{"key": "k", "value": 1}]),
    "inside": (t.Struct((Field("a", t.BYTE), Field("b", t.Array(t.LONG)))), {"a": 1, "b": [2]}),
}


@pytest.fixture
def table(tmp_path: Path) -> DeltaSinkTable:
    return DeltaSinkTable(tmp_path / "t")


def log_entries(table: DeltaSinkTable, version: int, kind: str) -> list[dict[str, Any]]:
    lines = (table.root / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [entry[kind] for line in lines if kind in (entry := json.loads(line))]


def statistics(table: DeltaSinkTable, version: int = 1) -> list[dict[str, Any]]:
    return [json.loads(add["stats"]) for add in log_entries(table, version, "add")]


def test_every_type_and_every_partition_value_comes_back(table: DeltaSinkTable) -> None:
    """With Delta's own reader, which goes by the log, and with Polars, which goes by the directories."""
    columns = {**KEYS, **VALUES}
    schema = tuple(Field(name, kind) for name, (kind, _) in columns.items())
    rows = conform(pl.DataFrame({name: [value, None] for name, (_, value) in columns.items()}, strict=False), schema)
    sink = table_sink(table, schema, partition_by=tuple(KEYS))
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, rows))
    expected = {name: value for name, (_, value) in columns.items()} | {"pairs": [("k", 1)]}
    full, empty = sorted(table.rows(), key=lambda row: row["byte"] is None)
    assert full == expected and set(empty.values()) == {None}
    read = pl.read_delta(str(table.root))
    assert read.select(pl.exclude("pairs")).sort("byte", nulls_last=True).row(0, named=True) == {
        name: value for name, value in expected.items() if name != "pairs"
    }


def test_readers_skip_files_by_what_the_log_says_about_them(table: DeltaSinkTable) -> None:
    sink = table_sink(table, maxRecordsPerFile=10)
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, numbers(*range(50))))
    dataset = table.table.to_pyarrow_dataset()
    assert len(list(dataset.get_fragments())) == 5
    assert len(list(dataset.get_fragments(ds.field("n") > 35))) == 2
    assert [one["numRecords"] for one in statistics(table)] == [10] * 5


def test_bounds_hold_for_every_value_and_are_left_out_where_they_would_not(table: DeltaSinkTable) -> None:
    """Long texts are cut, times are rounded outwards; Parquet ignores NaN, which Spark takes for the greatest number."""
    schema = (
        Field("s", t.STRING),
        Field("x", t.DOUBLE),
        Field("y", t.DOUBLE),
        Field("at", t.TIMESTAMP),
        Field("i", t.LONG),
    )
    long = "b" * 100
    rows = conform(
        pl.DataFrame(
            {"s": ["a", long], "x": [1.0, math.nan], "y": [1.0, math.inf], "at": [INSTANT] * 2, "i": [None, 7]}
        ),
        schema,
    )
    sink = table_sink(table, schema)
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, rows))
    (found,) = statistics(table)
    low, high = found["minValues"], found["maxValues"]
    assert low["s"] == "a" and high["s"] > long and len(high["s"]) < 80
    assert "x" not in low and "x" not in high and "y" not in high
    assert (low["at"], high["at"]) == ("2024-01-01T01:02:03.123Z", "2024-01-01T01:02:03.124Z")
    assert (low["i"], high["i"], found["nullCount"]) == (7, 7, {"s": 0, "x": 0, "y": 0, "at": 0, "i": 1})


def test_the_log_names_sink_and_checkpoint(table: DeltaSinkTable) -> None:
    sink = table_sink(table)
    to = committer(sink)
    out = writer(sink)
    to.commit(wrote(out, 7, numbers(1)) + wrote(out, 9, numbers(2)))
    number = {"appId": "tidegate/p1/sink-0", "version": 9}
    both = {"appId": "tidegate/p1/sink-0/published", "version": 10_000_000_009}
    assert log_entries(table, 1, "txn") == [number, both]
    assert log_entries(table, 1, "commitInfo")[0]["tidegate.checkpoint"] == "9"


def test_a_late_commit_is_recognised_when_its_log_entry_is_gone(table: DeltaSinkTable) -> None:
    """Entries of the log are cleaned up behind a checkpoint of the log; transactions live in that."""
    sink = table_sink(table)
    to = committer(sink)
    first = wrote(writer(sink), 1, numbers(1))
    to.commit(first)
    table.table.create_checkpoint()
    for entry in (table.root / "_delta_log").glob("*.json"):
        entry.unlink()
    committer(sink).commit(first)
    assert visible(table) == [1] and DeltaTable(str(table.root)).version() == 1


def test_a_compaction_takes_nothing_from_anybody(table: DeltaSinkTable) -> None:
    """Files that were committed and compacted belong to the table's history: a repeated commit and a sweep leave them alone."""
    sink = table_sink(table)
    to, out = committer(sink), writer(sink)
    first = wrote(out, 1, numbers(1)) + wrote(out, 2, numbers(2))
    to.commit(first)
    table.table.optimize.compact()
    to.commit(first)
    to.sweep(Attempt(2), ())
    assert visible(table) == [1, 2]
    assert DeltaTable(str(table.root), version=1).to_pyarrow_table().num_rows == 2


@pytest.mark.parametrize(
    ("prepare", "complaint"),
    [
        (lambda made: made.alter.add_constraint({"positive": "n > 0"}), "delta.constraints.positive"),
        (lambda made: made.alter.set_table_properties({"delta.appendOnly": "true"}), "delta.appendOnly"),
    ],
)
def test_rules_of_the_table_that_would_not_be_kept_are_refused(
    table: DeltaSinkTable, prepare: Any, complaint: str
) -> None:
    committer(table_sink(table))
    prepare(table.table)
    with pytest.raises(InvalidQuery, match=complaint):
        committer(table_sink(table, mode=OutputMode.COMPLETE))


def test_a_column_without_nulls_needs_a_result_without_nulls(table: DeltaSinkTable) -> None:
    fields = [DeltaField("k", PrimitiveType("string")), DeltaField("n", PrimitiveType("long"), nullable=False)]
    DeltaTable.create(str(table.root), Schema(fields))
    with pytest.raises(InvalidQuery, match="n may be null here and must not be there"):
        committer(table_sink(table))
    sure = (NUMBERS[0], Field("n", t.LONG, nullable=False))
    with pytest.raises(InvalidQuery, match="n must not be null there, and the result has no such column"):
        committer(table_sink(table, sure[:1]))
    sink = table_sink(table, sure)
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, numbers(1)))
    assert visible(table) == [1]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"txnAppId": "mine"}, "txnAppId"),
        ({"compression": "rar"}, "compression"),
        ({"overwriteSchema": "true"}, "overwriteSchema"),
        ({"schema": (Field("b", t.BINARY), *NUMBERS), "partition_by": ("b",)}, "cannot be partitioned by 'b'"),
        ({"partition_by": ("k", "n")}, "nothing is left to write"),
    ],
)
def test_what_delta_cannot_do_is_refused(table: DeltaSinkTable, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidQuery, match=complaint):
        committer(table_sink(table, **changes))


def test_a_table_is_made_with_the_properties_asked_for(tmp_path: Path) -> None:
    table = DeltaSinkTable(tmp_path / "with space" / "t")
    sink = table_sink(
        table, path=f"file:{table.root}".replace(" ", "%20"), delta__logRetentionDuration="interval 7 days"
    )
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, numbers(1)))
    assert table.table.metadata().configuration == {"delta.logRetentionDuration": "interval 7 days"}
    assert visible(table) == [1]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TidegateError, match=r"cannot .*file/t"):
        committer(table_sink(DeltaSinkTable(tmp_path / "file" / "t")))


def test_rows_of_another_writer_and_of_the_sink_are_one_table(table: DeltaSinkTable) -> None:
    """The table was there before the query, made by somebody else and partitioned."""
    write_deltalake(str(table.root), pa.table({"k": ["k1"], "n": pa.array([100], pa.int64())}), partition_by=["k"])
    sink = table_sink(table)
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, numbers(1, 2)))
    assert visible(table) == [1, 2, 100]
    assert table.table.to_pyarrow_table(partitions=[("k", "=", "k1")]).num_rows == 2
