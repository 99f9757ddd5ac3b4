from __future__ import annotations

import datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.nodes import ByNode
from tests.unit.connectors.reading import BOUNDED, file_scan, read_all, written

from tidegate.model import types as t
from tidegate.model.errors import DataError, Unavailable
from tidegate.model.types import Field

AB = (Field("a", t.LONG), Field("b", t.STRING))


def numbered(rows: int) -> pl.DataFrame:
    return pl.DataFrame({"a": range(rows), "b": [f"b{n}" for n in range(rows)]})


def test_rows_come_in_order_in_bounded_pieces_over_row_groups(tmp_path: Path) -> None:
    numbered(1_000).write_parquet(tmp_path / "x.parquet", row_group_size=300)
    assert read_all(file_scan("parquet", tmp_path, AB), rows_max=70) == numbered(1_000).rows()


def test_the_position_is_after_the_last_row_returned_whatever_was_decoded_ahead(tmp_path: Path) -> None:
    """T34: the whole row group is decoded at once; a restart after the first rows continues with the very next one."""
    numbered(1_000).write_parquet(tmp_path / "x.parquet")
    scan = file_scan("parquet", tmp_path, AB)
    connectors = ByNode()
    (split,) = connectors.enumerator(scan, BOUNDED).discover(0)
    reader = connectors.source(scan).open(split, None)
    first = reader.read(10, 0)
    again = connectors.source(scan).open(split, reader.position).read(5, 0)
    assert first is not None and again is not None
    assert first["a#0"].to_list() == list(range(10)) and again["a#0"].to_list() == list(range(10, 15))


def test_only_the_columns_of_the_query_are_read_under_the_plans_names(tmp_path: Path) -> None:
    numbered(3).write_parquet(tmp_path / "x.parquet")
    scan = file_scan("parquet", tmp_path, AB, columns=("b",))
    connectors = ByNode()
    (split,) = connectors.enumerator(scan, BOUNDED).discover(0)
    frame = connectors.source(scan).open(split, None).read(10, 0)
    assert frame is not None and frame.to_dict(as_series=False) == {"b#0": ["b0", "b1", "b2"]}


def test_rows_count_even_if_no_column_is_wanted(tmp_path: Path) -> None:
    numbered(5).write_parquet(tmp_path / "x.parquet")
    assert len(read_all(file_scan("parquet", tmp_path, AB, columns=()))) == 5


def test_the_users_schema_wins_and_a_missing_column_is_null(tmp_path: Path) -> None:
    pl.DataFrame({"A": pl.Series([1, 2], dtype=pl.Int32)}).write_parquet(tmp_path / "x.parquet")
    assert read_all(file_scan("parquet", tmp_path, AB)) == [(1, None), (2, None)]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_timestamps_of_any_unit_are_utc_microseconds(tmp_path: Path, unit: str, zone: str | None) -> None:
    moment = datetime.datetime(2024, 5, 1, 12, 0, 0, 123000, tzinfo=datetime.UTC)
    stored = pa.array([int(moment.timestamp() * 1_000)], pa.int64()).cast(pa.timestamp("ms")).cast(pa.timestamp(unit))
    pq.write_table(pa.table({"ts": stored.cast(pa.timestamp(unit, zone)) if zone else stored}), tmp_path / "x.parquet")
    assert read_all(file_scan("parquet", tmp_path, (Field("ts", t.TIMESTAMP),))) == [(moment,)]


def test_partition_columns_come_from_the_path(tmp_path: Path) -> None:
    for key, name in (("eu", "region=eu/day=2024-01-02"), (None, "region=__HIVE_DEFAULT_PARTITION__/day=2024-01-03")):
        written(tmp_path / name / "x.parquet", pl.DataFrame({"a": [1 if key else 2]}))
    schema = (Field("a", t.LONG), Field("region", t.STRING), Field("day", t.DATE))
    assert sorted(read_all(file_scan("parquet", tmp_path, schema))) == [
        (1, "eu", datetime.date(2024, 1, 2)),
        (2, None, datetime.date(2024, 1, 3)),
    ]


def test_a_corrupt_file_is_named(tmp_path: Path) -> None:
    written(tmp_path / "bad.parquet", b"PAR1 this is not parquet PAR1")
    with pytest.raises(DataError, match=r"bad\.parquet"):
        read_all(file_scan("parquet", tmp_path, AB))


def test_damaged_pages_are_an_error_and_never_rows(tmp_path: Path) -> None:
    numbered(20_000).write_parquet(tmp_path / "x.parquet", compression="snappy")
    data = bytearray((tmp_path / "x.parquet").read_bytes())
    data[200:4_000] = b"\xff" * 3_800
    written(tmp_path / "x.parquet", bytes(data))
    with pytest.raises(DataError, match=r"x\.parquet"):
        read_all(file_scan("parquet", tmp_path, AB))


def test_a_type_that_does_not_fit_names_file_and_schema(tmp_path: Path) -> None:
    pl.DataFrame({"a": ["no number"], "b": ["x"]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet.*a bigint"):
        read_all(file_scan("parquet", tmp_path, AB))


def test_a_file_deleted_under_us_is_named_with_a_way_out(tmp_path: Path) -> None:
    numbered(3).write_parquet(tmp_path / "x.parquet")
    scan = file_scan("parquet", tmp_path, AB)
    (split,) = ByNode().enumerator(scan, BOUNDED).discover(0)
    (tmp_path / "x.parquet").unlink()
    with pytest.raises(Unavailable, match=r"x\.parquet was deleted") as raised:
        ByNode().source(scan).open(split, None)
    assert "put it back" in raised.value.hint


def test_a_file_rewritten_after_discovery_is_refused(tmp_path: Path) -> None:
    numbered(3).write_parquet(tmp_path / "x.parquet")
    scan = file_scan("parquet", tmp_path, AB)
    (split,) = ByNode().enumerator(scan, BOUNDED).discover(0)
    numbered(500).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match="changed after it was discovered"):
        ByNode().source(scan).open(split, None)
