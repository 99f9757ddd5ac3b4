"""Output on a disk that is full: the error says so, nothing is lost, and it goes on when there is space."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.integration.connectors import postgres_sinks
from tests.integration.connectors.lake_tables import (
    NUMBERS,
    DeltaSinkTable,
    IcebergSinkTable,
    SinkTable,
    committer,
    numbers,
    table_sink,
    visible,
    writer,
    wrote,
)
from tests.servers.disks import SmallDisk
from tests.servers.postgres import Server

from tidegate.model.errors import Unavailable
from tidegate.operators.columns import conform

LARGE_ROWS = 200_000
"""Of random text: more than a disk of 4 MB, however they are encoded."""


@dataclass(frozen=True, slots=True)
class Files:
    root: Path
    format: str = "parquet"

    @property
    def options(self) -> dict[str, str]:
        return {"path": str(self.root)}

    def rows(self) -> list[dict[str, Any]]:
        return [row for path in self.root.glob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]

    def versions(self) -> int:
        raise NotImplementedError

    def append(self, rows: pa.Table) -> None:
        raise NotImplementedError


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path / "disk", "4m")
    yield made
    made.close()


def large(first: int) -> pl.DataFrame:
    text = np.random.default_rng(first).integers(0, 1 << 62, LARGE_ROWS).astype(str)
    return conform(pl.DataFrame({"k": text, "n": np.arange(first, first + LARGE_ROWS)}), NUMBERS)


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_a_full_disk_is_named_and_every_row_is_there_once_there_is_space(form: str, disk: SmallDisk) -> None:
    table: SinkTable = {"parquet": Files, "delta": DeltaSinkTable, "iceberg": IcebergSinkTable}[form](disk.point / "t")
    (disk.point / "t").mkdir()
    sink = table_sink(table)
    to, out = committer(sink), writer(sink)
    to.commit(wrote(out, 1, numbers(1)))
    owed = wrote(out, 2, numbers(2, 3))
    disk.fill()
    with pytest.raises(Unavailable, match=r"No space left|disk is full") as raised:
        to.commit(owed)
    assert "space" in raised.value.hint
    with pytest.raises(Unavailable, match="No space left") as raised:
        wrote(out, 3, large(10))
    assert "space" in raised.value.hint
    out.close()
    disk.free()
    to.commit(owed)
    again = writer(sink, attempt=2)
    to.commit(wrote(again, 3, numbers(4)))
    again.close()
    assert visible(table) == [1, 2, 3, 4]


def test_a_server_whose_disk_is_full_says_so_and_takes_every_row_once_there_is_space(
    postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = postgres.database()
    disk = SmallDisk(postgres.directory / f"disk-{tmp_path_factory.mktemp('x').name}", "4m")
    try:
        place = disk.point / "space"
        place.mkdir()
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for path in (disk.point, place):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        postgres.query(url, f"CREATE TABLESPACE small LOCATION '{place}'")
        postgres.query(url, "CREATE TABLE out (k text, n bigint) TABLESPACE small")
        sink = postgres_sinks.sink_to(url)
        to = postgres_sinks.committer(sink)
        to.commit(postgres_sinks.wrote(sink, postgres_sinks.numbers(1), 1))
        with pytest.raises(Unavailable, match="No space left on device") as raised:
            postgres_sinks.wrote(sink, large(10), 2)
        assert "disk" in raised.value.hint
        to.commit(postgres_sinks.wrote(sink, postgres_sinks.numbers(2), 2, attempt=2))
        assert postgres.query(url, "SELECT n FROM out ORDER BY n") == [(1,), (2,)]
        postgres.query(url, "DROP TABLE out")
        postgres.query(url, "DROP TABLESPACE small")
    finally:
        disk.close()
