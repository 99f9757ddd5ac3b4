"""The order that each sink keeps: one test per line of the table in ``docs/connectors/order.md``. Kafka: ``test_kafka_order.py``.

Every sink gets the same: two subtasks, three checkpoints, in each some batches of rising numbers.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from tests.integration.connectors.lake_tables import DeltaSinkTable, IcebergSinkTable
from tests.nodes import ByNode, planned_sink
from tests.servers.postgres import Server

from tidegate.api.foreach_batch import BatchCaller
from tidegate.connectors.console.committer import ConsoleCommitter
from tidegate.connectors.legacy import Sink
from tidegate.connectors.memory.committer import MemoryCommitter
from tidegate.connectors.python_source.payload import pack
from tidegate.connectors.spark_types import spark_schema
from tidegate.model import types as t
from tidegate.model.batch_ids import BatchIds
from tidegate.model.ids import Attempt, BatchId, CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable
from tidegate.model.types import Field, Schema
from tidegate.ports.sink import SinkCommitter
from tidegate.storage.local import LocalBlobStore
from tidegate.storage.options import StorageOptions

ROOT = Path(__file__).parents[3]
SCHEMA: Schema = (Field("k", t.STRING), Field("n", t.LONG))
SUBTASKS, CHECKPOINTS, BATCHES, ROWS = 2, 3, 4, 50
PER_SUBTASK = CHECKPOINTS * BATCHES * ROWS
ALL = {f"s{subtask}": list(range(PER_SUBTASK)) for subtask in range(SUBTASKS)}


def sink_of(
    form: str, options: dict[str, str] | None = None, *, payload: bytes = b"", mode: OutputMode = OutputMode.APPEND
) -> Sink:
    return Sink(
        id=OperatorId("sink-0"),
        format=form,
        options={"tidegate.pipeline": "p1"} | (options or {}),
        columns=tuple((field.name, field.name) for field in SCHEMA),
        schema=SCHEMA,
        mode=mode,
        payload=payload,
    )


def run(connectors: ByNode, sink: Sink, committer: SinkCommitter | None) -> None:
    """Key of a row: its subtask. The second subtask is done first, the last two checkpoints are committed together."""
    slot = connectors.sink(sink)
    writers = [slot.writer(sink, Attempt(1), SlotIndex(subtask)) for subtask in range(SUBTASKS)]
    numbers = [itertools.count(0, ROWS) for _ in range(SUBTASKS)]
    prepared: tuple[Committable, ...] = ()
    if committer is not None:
        given = tuple((CheckpointId(batch + 1), BatchId(batch)) for batch in range(CHECKPOINTS))
        committer.number_batches(BatchIds(sink.id, BatchId(CHECKPOINTS), given))
    for checkpoint in range(1, CHECKPOINTS + 1):
        for subtask in reversed(range(SUBTASKS)):
            for begin in itertools.islice(numbers[subtask], BATCHES):
                rows = pl.DataFrame({"n": range(begin, begin + ROWS)}, schema={"n": pl.Int64})
                writers[subtask].write(rows.select(k=pl.lit(f"s{subtask}"), n="n"))
            payloads = writers[subtask].prepare(CheckpointId(checkpoint))
            prepared += tuple(
                Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(subtask), number=n, payload=payload)
                for n, payload in enumerate(payloads)
            )
        if committer is not None and checkpoint != CHECKPOINTS - 1:
            committer.commit(prepared)
            prepared = ()
    for writer in writers:
        writer.close()


def by_subtask(rows: Iterable[Sequence[Any]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {key: [] for key in ALL}
    for key, number in rows:
        found[key].append(number)
    return found


def assert_rising_in_each_file(files: Sequence[pl.DataFrame]) -> None:
    for file in files:
        for numbers in by_subtask(file.select("k", "n").iter_rows()).values():
            assert numbers == sorted(numbers)
    assert {k: sorted(n) for k, n in by_subtask(pl.concat(files).select("k", "n").iter_rows()).items()} == ALL
    assert any(file.height > ROWS for file in files), "files of one batch each say nothing"


def test_every_line_of_the_table_names_its_test() -> None:
    page = (ROOT / "docs/connectors/order.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("| ")][2:]
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*order*.py"))
    named = [re.search(r"\| `(test_\w+)` \|$", line) for line in lines]
    assert len(named) >= 10
    for line, name in zip(lines, named, strict=True):
        assert name is not None and f"def {name[1]}(" in tests, line


# --- one line of the table each -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
@pytest.mark.parametrize("options", [{}, {"maxRecordsPerFile": "70"}, {"mergeSmallFiles": "0"}], ids=str)
def test_files_hold_the_rows_of_a_subtask_in_order(tmp_path: Path, form: str, options: dict[str, str]) -> None:
    """T75"""
    header = {"header": "true"} if form == "csv" else {}
    sink = sink_of(form, {"path": str(tmp_path / "out")} | options | header)
    run(ByNode(), sink, ByNode().committer(sink))
    read = {"parquet": pl.read_parquet, "json": pl.read_ndjson, "csv": pl.read_csv}[form]
    assert_rising_in_each_file([read(path) for path in sorted((tmp_path / "out").glob("part-*"))])


@pytest.mark.parametrize("kind", [DeltaSinkTable, IcebergSinkTable])
def test_files_of_tables_hold_the_rows_of_a_subtask_in_order(tmp_path: Path, kind: Any) -> None:
    """T75"""
    table = kind(tmp_path)
    sink = sink_of(table.format, table.options)
    run(ByNode(), sink, ByNode().committer(sink))
    assert_rising_in_each_file([pl.read_parquet(path) for path in sorted(table.root.rglob("part-*.parquet"))])


def test_in_postgres_the_last_row_of_a_key_wins(postgres: Server) -> None:
    """T75: within a batch, a checkpoint, and from one checkpoint to the next."""
    url = postgres.database()
    sink = sink_of("postgres", {"url": url, "dbtable": "out", "keys": "k"}, mode=OutputMode.UPDATE)
    run(ByNode(), sink, ByNode().committer(sink))
    assert sorted(postgres.query(url, "SELECT k, n FROM out")) == [(key, PER_SUBTASK - 1) for key in ALL]


def test_memory_holds_the_rows_of_a_subtask_in_order() -> None:
    """T75"""
    sink = sink_of("memory")
    committer = MemoryCommitter(planned_sink(sink).spec)
    run(ByNode(), sink, committer)
    assert by_subtask(committer.table().iter_rows()) == ALL


def test_the_console_shows_the_rows_of_a_subtask_in_order() -> None:
    """T75"""
    sink, out = sink_of("console", {"numRows": "1000"}), io.StringIO()
    run(ByNode(), sink, ConsoleCommitter(1_000, 20, out))
    cells = (line.strip("|").split("|") for line in out.getvalue().splitlines() if line.strip("| ").startswith("s"))
    assert by_subtask((key.strip(), int(number)) for key, number in cells) == ALL


def test_foreach_sees_the_rows_of_a_subtask_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """T75"""
    seen: list[tuple[str, int]] = []
    monkeypatch.setitem(globals(), "SEEN", seen)
    run(ByNode(), sink_of("foreach", payload=cloudpickle.dumps(look_at)), None)
    assert by_subtask(seen) == ALL


SEEN: list[tuple[str, int]] = []
"""What the user's code below was given."""


def look_at(row: Any) -> None:
    SEEN.append((row.k, row.n))


@pytest.mark.spark
def test_the_dataframe_of_foreach_batch_holds_the_rows_of_a_subtask_in_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T75: rows that wait in several objects as well."""
    monkeypatch.setattr("tidegate.connectors.foreach_batch.sink.PART_BYTES_MAX", 2_000)
    monkeypatch.setattr("tidegate.connectors.foreach_batch.sink.INLINE_BYTES_MAX", 500)
    connectors, sink = ByNode(LocalBlobStore(tmp_path)), sink_of("foreachbatch")
    seen: list[tuple[str, int]] = []

    def collect(rows: DataFrame, _: int) -> None:
        seen.extend((row.k, row.n) for row in rows.collect())

    caller = BatchCaller(spark, collect, planned_sink(sink), 1, str(tmp_path), StorageOptions())
    committer = connectors.committer(sink, caller)
    run(connectors, sink, committer)
    assert by_subtask(seen) == ALL


@dataclass
class Wrote(WriterCommitMessage):
    rows: list[tuple[str, int]]


class Writer(DataSourceStreamWriter):
    def write(self, iterator: Iterator[Any]) -> Wrote:
        return Wrote([(row.k, row.n) for row in iterator])

    def commit(self, messages: list[Any], batchId: int) -> None:
        SEEN.extend(row for message in messages for row in message.rows)


class Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return "looking"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return Writer()


def test_a_python_data_source_gets_the_rows_of_a_subtask_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T75"""
    seen: list[tuple[str, int]] = []
    monkeypatch.setitem(globals(), "SEEN", seen)
    connectors, sink = ByNode(LocalBlobStore(tmp_path)), sink_of("looking")
    sink = replace(sink, payload=pack(Source, {}, spark_schema(SCHEMA)))
    run(connectors, sink, connectors.committer(sink))
    assert by_subtask(seen) == ALL
