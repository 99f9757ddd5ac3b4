"""What a sink's target holds was set back or made anew, by its own means or by copying, beside a location that knows better: said in a
warning, and no checkpoint comes again by accident."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.integration.connectors.lake_tables import IcebergSinkTable
from tests.integration.connectors.remembering_targets import (
    Delta,
    Files,
    Iceberg,
    Postgres,
    Query,
    Target,
    copy,
    newest,
)

from tidegate.checkpoint import layout

pytestmark = pytest.mark.spark

FOLDERS = ("files", "files without log", "json", "csv", "text", "delta", "iceberg")


def made(name: str, folder: Path) -> tuple[Target, Path]:
    """The target, and the directory that holds all of it."""
    match name:
        case "delta":
            return Delta(folder / "out"), folder / "out"
        case "iceberg":
            (folder / "lake").mkdir()
            return Iceberg(IcebergSinkTable(folder / "lake")), folder / "lake"
        case "files" | "files without log":
            return Files(folder / "out", "true" if name == "files" else "false"), folder / "out"
        case _:
            return Files(folder / "out", "true", name), folder / "out"


def made_or_served(name: str, folder: Path, request: pytest.FixtureRequest) -> tuple[Target, Path]:
    """The same, or a database of the server, which leaves the directory empty."""
    if name != "postgres":
        return made(name, folder)
    server = request.getfixturevalue("postgres")
    return Postgres(server, server.database()), folder / "out"


def rows(query: Query) -> Counter[int]:
    return Counter(query.target.rows())


def pointer(folder: Path, to: str | None = None) -> str:
    """Which metadata the catalogue calls the table's; ``to``: set back to these."""
    with closing(sqlite3.connect(folder / "catalog.db")) as catalog, catalog:
        if to is not None:
            catalog.execute("UPDATE iceberg_tables SET metadata_location = ?", (to,))
        return str(catalog.execute("SELECT metadata_location FROM iceberg_tables").fetchone()[0])


@contextmanager
def one_warning(caplog: pytest.LogCaptureFixture, *words: str) -> Iterator[None]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "tidegate"):
        yield
    said = {one.getMessage() for one in caplog.records if "does not come again" in one.getMessage()}
    assert len(said) == 1, said
    assert all(word in said.copy().pop() for word in words), said
    caplog.clear()


@contextmanager
def no_warning(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "tidegate"):
        yield
    assert "does not come again" not in caplog.text


@pytest.mark.parametrize("name", FOLDERS)
def test_a_target_from_an_older_copy_is_said_and_gets_nothing_again(
    spark: SparkSession, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    target, folder = made(name, tmp_path)
    query = Query(spark, tmp_path, target)
    query.run(1)
    before = newest(query.location)
    old = copy(folder, tmp_path / "old")
    query.run(2)
    had = newest(query.location)
    query.run(3)
    copy(old, folder)
    with one_warning(caplog, f"checkpoint {before}", "had become visible"):
        query.run(4)
    assert had < newest(query.location)
    assert rows(query) == Counter([1, 4])
    with no_warning(caplog):
        query.run(5)
    assert rows(query) == Counter([1, 4, 5])


@pytest.mark.parametrize("name", [*FOLDERS, "postgres"])
def test_a_target_that_was_dropped_and_made_again_is_said(
    spark: SparkSession, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    """B12: it remembers nothing of the query, and the location knows that something was visible there."""
    target, folder = made_or_served(name, tmp_path, request)
    query = Query(spark, tmp_path, target)
    with no_warning(caplog):
        query.run(1)
        query.run()
    had = newest(query.location)
    if isinstance(target, Postgres):
        target.server.query(target.url, "DROP TABLE rows; DROP TABLE tidegate_ledger")
    elif isinstance(target, Iceberg):
        target.table.catalog.drop_table(target.table.name)
    else:
        shutil.rmtree(folder)
    with one_warning(caplog, "remembers no output of this query", f"attempt {had.attempt - 1}"):
        query.run(2)
    assert rows(query) == Counter([2])
    with no_warning(caplog):
        query.run(3)
    assert rows(query) == Counter([2, 3])


@pytest.mark.parametrize("name", [*FOLDERS, "postgres"])
def test_a_target_that_is_set_back_while_the_query_runs_gets_no_checkpoint_twice(
    spark: SparkSession, tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    """One attempt: what it has restored or published does not come again with what it publishes next."""
    target, folder = made_or_served(name, tmp_path, request)
    query = Query(spark, tmp_path, target)
    query.run(1)
    marker = query.location / layout.committed_key(newest(query.location))
    marker.unlink()  # The next start commits it, or finds it done.
    running = query.endless().trigger(checkpoint="1 hour").start()
    try:
        running.checkpoint(timeout=60)
        if isinstance(target, Iceberg):
            place = pointer(folder)
        elif not isinstance(target, Postgres):
            old = copy(folder, tmp_path / "old")
        query.add(2)
        running.processAllAvailable()
        assert rows(query) == Counter([1, 2])
        if isinstance(target, Postgres):
            target.server.query(target.url, "DELETE FROM rows WHERE id = 2; DELETE FROM tidegate_ledger")
        elif isinstance(target, Iceberg):
            pointer(folder, place)
        else:
            copy(old, folder)
        assert rows(query) == Counter([1])
        query.add(3)
        running.processAllAvailable()
        assert rows(query) == Counter([1, 3])
    finally:
        running.stop()
