"""A checkpoint location and what its sink's target holds, after one of them was set back. For every exactly-once sink: refused with both
numbers, or every row at least once and only the named ones twice."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.integration.connectors.lake_tables import IcebergSinkTable
from tests.integration.connectors.remembering_targets import (
    Delta,
    Files,
    Iceberg,
    Kafka,
    Postgres,
    Query,
    Target,
    copy,
    delete_newest,
    newest,
    unchanged,
)
from tests.servers.postgres import Server

import tidegate
from tidegate.checkpoint import layout
from tidegate.model.errors import CorruptSnapshot, InvalidQuery

pytestmark = pytest.mark.spark

TARGETS = ("files", "files without log", "json", "csv", "text", "delta", "iceberg", "postgres", "kafka")
FALL_BACK = {"onCorruptCheckpoint": "fallBack"}


@pytest.fixture(params=TARGETS)
def query(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Query:
    return Query(spark, tmp_path, made(request.param, request, tmp_path))


def made(name: str, request: pytest.FixtureRequest, folder: Path) -> Target:
    match name:
        case "files" | "files without log":
            return Files(folder / "out", "true" if name == "files" else "false")
        case "json" | "csv" | "text":
            return Files(folder / "out", "false" if name == "json" else "true", name)
        case "delta":
            return Delta(folder / "out")
        case "iceberg":
            (folder / "lake").mkdir()
            return Iceberg(IcebergSinkTable(folder / "lake"))
        case "postgres":
            server = request.getfixturevalue("postgres")
            return Postgres(server, server.database())
        case _:
            broker = request.getfixturevalue("kafka")
            return Kafka(broker, broker.topic())


def assert_rows(query: Query, once: Iterable[int], twice: Iterable[int] = ()) -> None:
    if isinstance(query.target, Kafka):
        query.target.expected = len([*once, *twice, *twice])
    assert Counter(query.target.rows()) == Counter([*once, *twice, *twice])


def refusal(query: Query, location: Path | None = None) -> str:
    """What a start is refused with; nothing is written anywhere."""
    with unchanged(query.target, location or query.location), pytest.raises(CorruptSnapshot) as refused:
        query.writer(location).start()
    assert "fallBack" in refused.value.hint
    return refused.value.message


def test_a_location_from_an_older_copy_is_refused_and_falls_back_without_a_gap(
    query: Query, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """T74: nothing is skipped because an attempt or a number was there before; nor do starts as usual complain, before or after."""
    query.run(1, 2)
    query.run(3)
    old = copy(query.location, tmp_path / "old")
    query.run(4, 5)
    ahead = copy(query.location, tmp_path / "ahead")
    assert "copy" not in caplog.text and "set back" not in caplog.text
    copy(old, query.location)

    query.add(6)
    said = refusal(query)
    assert re.search(r"holds output of (checkpoint \d+ of )?attempt 3,", said), said
    assert "its newest is attempt 2" in said and "older copy" in said
    query.run(**FALL_BACK)
    assert_rows(query, [1, 2, 3, 6], twice=[4, 5])
    query.run(7)
    assert_rows(query, [1, 2, 3, 6, 7], twice=[4, 5])

    # The other copy of the location does not know what came since; a pipeline of its own has a history of its own.
    said = refusal(query, ahead)
    assert "its newest is attempt 3" in said and "another copy of it has been used" in said
    saved = query.location / layout.manifest_key(newest(query.location))
    query.run(8, location=tmp_path / "other", startFrom=str(saved.parent))
    query.run(location=tmp_path / "other")
    query.run(9)
    assert_rows(query, [1, 2, 3, 6, 7, 9], twice=[4, 5, 8])


def test_a_location_without_its_newest_manifest_is_refused_and_falls_back_without_a_gap(query: Query) -> None:
    """T73: with the marker that says that it was committed, and without. No number is given out again."""
    query.run(1)
    query.run(2, 3)
    lost = delete_newest(query.location, marker=False)
    query.add(4)
    said = refusal(query)
    assert str(lost) in said, said
    query.run(**FALL_BACK)
    assert_rows(query, [1, 4], twice=[2, 3])
    assert newest(query.location) > lost
    query.run(5)
    assert_rows(query, [1, 4, 5], twice=[2, 3])

    lost = delete_newest(query.location, marker=True)
    query.add(6)
    said = refusal(query)
    left = newest(query.location)
    assert f"checkpoint {lost}" in said and "manifest is missing" in said and str(left) in said, said
    query.run(**FALL_BACK)
    assert newest(query.location) > lost
    assert_rows(query, [1, 4, 6], twice=[2, 3, 5])
    query.run(7)
    assert_rows(query, [1, 4, 6, 7], twice=[2, 3, 5])


def test_a_table_that_was_set_back_is_said_and_nothing_is_skipped(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Delta's RESTORE takes the rows and leaves the transactions."""
    query = Query(spark, tmp_path, Delta(tmp_path / "out"))
    query.run(1)
    before = newest(query.location)
    version = DeltaTable(str(tmp_path / "out")).version()
    query.run(2)
    had = newest(query.location)
    DeltaTable(str(tmp_path / "out")).restore(version)
    assert_rows(query, [1])
    with caplog.at_level(logging.WARNING, "tidegate"):
        query.run(3)
    (warning,) = [one.getMessage() for one in caplog.records if "set back" in one.getMessage()]
    assert f"checkpoint {before}" in warning and f"checkpoint {had}" in warning
    assert_rows(query, [1, 3])
    caplog.clear()
    old = copy(query.location, tmp_path / "old")
    version = DeltaTable(str(tmp_path / "out")).version()
    query.run(4)
    assert "set back" not in caplog.text, "it has been said"
    assert_rows(query, [1, 3, 4])

    # Table and location of the same time: the table's memory is ahead, so a person has to say that it may be passed over.
    DeltaTable(str(tmp_path / "out")).restore(version)
    copy(old, query.location)
    assert "older copy" in refusal(query)
    query.run(**FALL_BACK)
    query.run(5)
    assert_rows(query, [1, 3, 4, 5])


def test_a_database_from_its_backup_is_said_and_goes_on(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, postgres: Server
) -> None:
    """The ledger is part of the backup. Output that no marker calls visible is missed at its commit: that stays an alarm."""
    target = Postgres(postgres, postgres.database())
    name = target.url.rpartition("/")[2]
    query = Query(spark, tmp_path, target)
    query.run(1)
    before = newest(query.location)
    postgres.query(postgres.url(), f"CREATE DATABASE {name}_backup TEMPLATE {name}")
    query.run(2)
    had = newest(query.location)
    postgres.query(postgres.url(), f"DROP DATABASE {name}")
    postgres.query(postgres.url(), f"ALTER DATABASE {name}_backup RENAME TO {name}")
    with caplog.at_level(logging.WARNING, "tidegate"):
        query.run(3)
    (warning,) = {one.getMessage() for one in caplog.records if "older copy" in one.getMessage()}
    assert f"checkpoint {before}" in warning and f"checkpoint {had}" in warning
    assert_rows(query, [1, 3])
    caplog.clear()
    query.run(4)
    assert "older copy" not in caplog.text, "it has been said"
    assert_rows(query, [1, 3, 4])

    postgres.query(postgres.url(), f"CREATE DATABASE {name}_backup TEMPLATE {name}")
    query.run(5)
    postgres.query(postgres.url(), f"DROP DATABASE {name}")
    postgres.query(postgres.url(), f"ALTER DATABASE {name}_backup RENAME TO {name}")
    (query.location / layout.committed_key(newest(query.location))).unlink()
    query.add(6)
    with pytest.raises(CorruptSnapshot, match="is lost") as alarm:
        query.run()
    postgres.query(target.url, alarm.value.hint[alarm.value.hint.index("INSERT") :])
    query.run()
    assert_rows(query, [1, 3, 4, 6])


def test_a_location_of_structured_streaming_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """T74: the same query with the same location and path, first on Spark, then on Tidegate, wrote every row twice."""
    query = Query(spark, tmp_path, Files(tmp_path / "out", "true"))
    query.add(*range(181))
    on_spark = query.stream().writeStream.format("parquet").option("checkpointLocation", str(query.location))
    assert on_spark.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(120)
    again = query.writer()
    job = tidegate.Job("again", checkpointLocation=str(query.location))
    job.add(tidegate.writeStream(query.stream()).format("parquet").option("path", str(tmp_path / "out")))
    for refused in (again.start, again.check, job.trigger(availableNow=True).start):
        with unchanged(query.target, query.location), pytest.raises(InvalidQuery, match="Structured Streaming") as said:
            refused()
        assert str(query.location) in said.value.message and "new checkpointLocation" in said.value.hint
    query.target = Files(tmp_path / "new out", "true")
    query.run(181, location=tmp_path / "new ck")
    assert_rows(query, range(182))
