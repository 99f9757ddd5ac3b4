"""What is Iceberg's own: its types, transforms, statistics, snapshots and catalogue."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import NestedField
from tests.integration.connectors.lake_tables import (
    NUMBERS,
    IcebergSinkTable,
    committer,
    data_files,
    numbers,
    table_sink,
    visible,
    writer,
    wrote,
)

from tidegate.connectors.iceberg.types import iceberg_schema
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery, TidegateError
from tidegate.model.types import Field, Schema
from tidegate.operators.columns import conform

INSTANT = dt.datetime(2024, 1, 1, 1, 2, 3, 123456, tzinfo=dt.UTC)
WALL = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)

COLUMNS: dict[str, tuple[t.DataType, Any]] = {
    "flag": (t.BOOLEAN, True),
    "byte": (t.BYTE, -1),
    "short": (t.SHORT, 300),
    "int": (t.INTEGER, -3),
    "long": (t.LONG, 1 << 40),
    "float": (t.FLOAT, 0.5),
    "double": (t.DOUBLE, -1e300),
    "text": (t.STRING, "x y/%:ü="),
    "bytes": (t.BINARY, b"\0\xff"),
    "date": (t.DATE, dt.date(2024, 2, 29)),
    "at": (t.TIMESTAMP, INSTANT),
    "local": (t.TIMESTAMP_NTZ, WALL),
    "exact": (t.Decimal(38, 10), Decimal("1234567890123456789012345678.0123456789")),
    "amount": (t.Decimal(10, 2), Decimal("-1.50")),
    "list": (t.Array(t.Struct((Field("a", t.STRING),))), [{"a": "x"}, None]),
    "pairs": (t.Map(t.STRING, t.Struct((Field("y", t.LONG),))), [{"key": "k", "value": {"y": 1}}]),
    "inside": (t.Struct((Field("a", t.BYTE), Field("b", t.Array(t.LONG)))), {"a": 1, "b": [2]}),
}
SCHEMA: Schema = tuple(Field(name, kind) for name, (kind, _) in COLUMNS.items())


@pytest.fixture
def table(tmp_path: Path) -> IcebergSinkTable:
    return IcebergSinkTable(tmp_path)


def all_types() -> pl.DataFrame:
    """A row with every value and a row of nulls."""
    return conform(pl.DataFrame({name: [value, None] for name, (_, value) in COLUMNS.items()}, strict=False), SCHEMA)


def made(table: IcebergSinkTable, schema: Schema, *keys: tuple[str, Any]) -> None:
    """By somebody else, before the query."""
    wanted = iceberg_schema(schema)
    fields = [
        PartitionField(
            wanted.find_field(name).field_id, 1000 + n, transform, f"{name}_{transform}".replace("[", "_").strip("]")
        )
        for n, (name, transform) in enumerate(keys)
    ]
    table.catalog.create_namespace_if_not_exists("db")
    table.catalog.create_table(table.name, wanted, partition_spec=PartitionSpec(*fields))


def test_every_type_comes_back(table: IcebergSinkTable) -> None:
    sink = table_sink(table, SCHEMA)
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, all_types()))
    full, empty = sorted(table.rows(), key=lambda row: row["byte"] is None)
    assert full == {name: value for name, (_, value) in COLUMNS.items()} | {"pairs": [("k", {"y": 1})]}
    assert {name: value for name, value in empty.items() if value} == {}
    # The library's reader gives empty lists for some nulls; the file says what was written.
    (file,) = data_files(table)
    assert set(pq.read_table(file).to_pylist()[1].values()) == {None}


@pytest.mark.parametrize("name", ["flag", "short", "text", "bytes", "date", "at", "local", "exact"])
def test_a_table_is_made_with_the_partitions_asked_for(table: IcebergSinkTable, name: str) -> None:
    sink = table_sink(table, SCHEMA, partition_by=(name,))
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, all_types()))
    assert len(data_files(table)) == 2
    found = {row["partition"][name] for row in table.table.inspect.partitions().to_pylist()}
    assert found == {COLUMNS[name][1], None}
    assert table.table.scan(EqualTo(name, COLUMNS[name][1])).to_arrow().num_rows == 1


def test_every_transform_divides_the_rows(table: IcebergSinkTable) -> None:
    keys = [
        ("at", DayTransform()),
        ("local", HourTransform()),
        ("date", MonthTransform()),
        ("long", BucketTransform(4)),
        ("text", TruncateTransform(2)),
        ("int", BucketTransform(3)),
        ("short", IdentityTransform()),
        ("exact", VoidTransform()),
    ]
    made(table, SCHEMA, *keys)
    sink = table_sink(table, SCHEMA)
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, all_types()))
    expected = [
        transform.transform(iceberg_schema(SCHEMA).find_type(name))(_internal(COLUMNS[name][1]))
        for name, transform in keys
    ]
    full = next(
        one for one in table.table.inspect.partitions().to_pylist() if one["partition"]["short_identity"] == 300
    )
    assert [_internal(value) for value in full["partition"].values()] == expected
    assert table.table.scan(EqualTo("long", 1 << 40)).to_arrow().num_rows == 1


def _internal(value: Any) -> Any:
    """Dates and times as Iceberg counts them."""
    match value:
        case dt.datetime():
            return (value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
        case dt.date():
            return (value - dt.date(1970, 1, 1)).days
        case _:
            return value


def test_readers_skip_files_by_days_and_by_bounds(table: IcebergSinkTable) -> None:
    schema = (Field("at", t.TIMESTAMP), Field("n", t.LONG))
    made(table, schema, ("at", DayTransform()))
    sink = table_sink(table, schema, maxRecordsPerFile=6)
    to = committer(sink)
    times = [dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=2 * n) for n in range(48)]
    to.commit(wrote(writer(sink), 1, conform(pl.DataFrame({"at": times, "n": range(48)}), schema)))
    found = table.table
    assert len(list(found.scan().plan_files())) == 8
    assert len(list(found.scan(GreaterThanOrEqual("at", "2024-01-04T00:00:00+00:00")).plan_files())) == 2
    assert len(list(found.scan(EqualTo("n", 7)).plan_files())) == 1


def test_a_snapshot_names_pipeline_sink_and_checkpoint(table: IcebergSinkTable) -> None:
    sink = table_sink(table, **{"snapshot-property.team": "blue", "table-property.commit.retry.num-retries": 7})
    to, out = committer(sink), writer(sink)
    to.commit(wrote(out, 7, numbers(1)) + wrote(out, 9, numbers(2)))
    found = table.table
    (snapshot,) = found.snapshots()
    assert snapshot.summary is not None
    names = ("tidegate.pipeline", "tidegate.sink", "tidegate.attempt", "tidegate.checkpoint", "team")
    assert [snapshot.summary[name] for name in names] == ["p1", "sink-0", "1", "9", "blue"]
    assert found.properties["tidegate.committed.p1.sink-0"] == "9"
    assert found.properties["tidegate.published.p1.sink-0"] == "1/9"
    # Forbidden for this commit alone: the table's own setting stays.
    assert found.properties["commit.retry.num-retries"] == "7"


def test_a_late_commit_is_recognised_when_its_snapshot_has_expired(table: IcebergSinkTable) -> None:
    sink = table_sink(table)
    to, out = committer(sink), writer(sink)
    first = wrote(out, 1, numbers(1))
    to.commit(first)
    to.commit(first + wrote(out, 2, numbers(2)))
    old = table.table.snapshots()[0].snapshot_id
    table.table.maintenance.expire_snapshots().by_id(old).commit()
    table.append(numbers(100).to_arrow())
    committer(sink).commit(first)
    assert visible(table) == [1, 2, 100]


def test_a_late_commit_is_recognised_when_the_properties_are_gone(table: IcebergSinkTable) -> None:
    sink = table_sink(table)
    to = committer(sink)
    first = wrote(writer(sink), 1, numbers(1))
    to.commit(first)
    with table.table.transaction() as change:
        change.remove_properties("tidegate.committed.p1.sink-0", "tidegate.published.p1.sink-0")
    to.commit(first)
    assert visible(table) == [1] and table.versions() == 1


def test_manifests_are_merged_and_no_row_is_lost(table: IcebergSinkTable) -> None:
    """Thousands of checkpoints must not leave thousands of manifests to read."""
    sink = table_sink(table, **{"table-property.commit.manifest.min-count-to-merge": 3})
    to, out = committer(sink), writer(sink)
    for checkpoint in range(8):
        to.commit(wrote(out, checkpoint, numbers(checkpoint)))
    snapshot = table.table.current_snapshot()
    assert snapshot is not None and len(snapshot.manifests(table.table.io)) < 4
    assert visible(table) == list(range(8))


def test_a_column_may_be_renamed_while_the_query_runs(table: IcebergSinkTable) -> None:
    """Files carry field ids, so rows before and after it, prepared or committed, stay in their columns."""
    sink = table_sink(table)
    to, out = committer(sink), writer(sink)
    to.commit(wrote(out, 1, numbers(1)))
    ready = wrote(out, 2, numbers(2))
    with table.table.update_schema() as change:
        change.rename_column("k", "key")
    to.commit(ready)
    assert sorted((row["key"], row["n"]) for row in table.rows()) == [("k1", 1), ("k2", 2)]


def test_rows_prepared_for_another_partitioning_wait_for_a_person(table: IcebergSinkTable) -> None:
    sink = table_sink(table)
    to, out = committer(sink), writer(sink)
    ready = wrote(out, 1, numbers(1))
    with table.table.update_spec() as change:
        change.add_identity("k")
    with pytest.raises(InvalidQuery, match=r"partition spec .* was changed while the query ran"):
        to.commit(ready)
    with table.table.update_spec() as change:
        change.remove_field("k")
    to.commit(ready)
    assert visible(table) == [1]


def test_a_required_column_needs_a_result_without_nulls(table: IcebergSinkTable) -> None:
    wanted = iceberg_schema(NUMBERS)
    strict = wanted.model_copy(
        update={
            "fields": tuple(
                NestedField(f.field_id, f.name, f.field_type, required=f.name == "n") for f in wanted.fields
            )
        }
    )
    table.catalog.create_namespace("db")
    table.catalog.create_table(table.name, strict)
    with pytest.raises(InvalidQuery, match="n may be null here and must not be there"):
        committer(table_sink(table))
    sink = table_sink(table, (NUMBERS[0], Field("n", t.LONG, nullable=False)))
    to = committer(sink)
    to.commit(wrote(writer(sink), 1, numbers(1)))
    assert visible(table) == [1]


def test_a_table_partitioned_by_a_float_is_refused(table: IcebergSinkTable) -> None:
    """The library's decoder reads a double of a manifest as a float, and merging manifests would write it back so."""
    with pytest.raises(InvalidQuery, match="partitioned by double, a double, cannot be written"):
        committer(table_sink(table, SCHEMA, partition_by=("double",)))


def test_a_table_partitioned_twice_by_a_column_is_refused(table: IcebergSinkTable) -> None:
    made(table, SCHEMA, ("at", YearTransform()), ("at", HourTransform()))
    with pytest.raises(InvalidQuery, match="is partitioned by at twice"):
        committer(table_sink(table, SCHEMA))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"path": "t"}, "no name of an Iceberg table"),
        ({"path": "/data/t"}, "no name of an Iceberg table"),
        ({"catalog.type": "in-memory"}, "exists in one process only"),
        ({"catalog.type": "paper"}, "cannot open the Iceberg catalogue"),
        ({"catalog.uri": "sqlite:////no/such/place/catalog.db"}, "cannot .*catalogue|cannot load the Iceberg table"),
        ({"catalog.type": "rest", "catalog.uri": "http://127.0.0.1:9"}, "cannot open the Iceberg catalogue"),
        ({"branch": "audit"}, "branch"),
    ],
)
def test_what_iceberg_cannot_do_is_refused(table: IcebergSinkTable, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TidegateError, match=complaint):
        committer(table_sink(table, **changes))
