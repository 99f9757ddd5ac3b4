"""Checkpoint locations and plans of earlier versions, under today's code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.golden import plans, world

import tidegate
from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark
GOLDEN = Path(__file__).parents[1] / "golden"
APART = {"13a88b1": {"join with itself, filtered", "union with itself"}, "5aa351e": set[str]()}
"""Read one source once, with filters above the event time; now it is read twice. Locations are refused by name."""
CHANGED = {
    "13a88b1": APART["13a88b1"]
    | {
        # Filters stay where the optimiser puts them, below ``withWatermark``.
        "column names that clash",
        "explode above the watermark",
        "filter above the watermark",
        "filter above, of a function",
        "filter above, of a projection",
        "join of windows",
        "join with itself",
        "join, filter above",
        "join, filters on both sides",
        "join, inner",
        "join, left",
        "join, one side without time",
        "sessions, filter above",
        "union below, filter above",
        "union below, filtered branch",
    },
    # Values of options of a user's own data source are hidden.
    "5aa351e": {"python source to foreach", "python source to itself"},
}
"""Explained otherwise."""
VERSIONS = sorted(path.parent.name for path in GOLDEN.glob("*/plans.json"))
GOES_ON = [(version, query) for version in VERSIONS for query in world.QUERIES] + [("5aa351e", "twice")]


@pytest.fixture(scope="module")
def today(spark: SparkSession) -> dict[str, Any]:
    return plans.described(spark)


@pytest.mark.parametrize("version", VERSIONS)
def test_operators_have_the_names_and_the_state_that_they_had(today: dict[str, Any], version: str) -> None:
    """T48: a name or a shape that changes leaves the state of every stored location behind."""
    stored = json.loads((GOLDEN / version / "plans.json").read_text())
    kept = stored.keys() - APART[version]
    for what in ("refused", "ids", "shapes"):
        assert {name: today[name].get(what) for name in kept} == {name: stored[name].get(what) for name in kept}
    for name in APART[version]:
        assert {one for one in today[name]["ids"] if one.startswith("source-")} == {"source-json_a", "source-json_a-2"}


@pytest.mark.parametrize("version", VERSIONS)
def test_plans_are_explained_as_they_were(today: dict[str, Any], version: str) -> None:
    """Not a promise: whoever changes a plan sees here which ones have changed."""
    stored = json.loads((GOLDEN / version / "plans.json").read_text())
    changed = {name for name, plan in stored.items() if plan.get("explain") != today[name].get("explain")}
    assert changed == CHANGED[version]


@pytest.mark.parametrize("published", [True, False], ids=["published", "unpublished"])
@pytest.mark.parametrize(("version", "query"), GOES_ON)
def test_a_query_goes_on_from_a_location_of_an_earlier_version(
    spark: SparkSession, version: str, query: str, published: bool
) -> None:
    """T79: splits that are done, open or not begun, windows, joins, rows under way and output that waits: nothing is lost or
    doubled. Unpublished: as after a crash between the commit and the note that it is done."""
    with world.place():
        world.unpack(GOLDEN / version / f"{query}.tar.xz")
        if not published:
            for note in (world.PLACE / "ck").rglob("committed"):
                note.unlink()
        rows = world.rows_of(spark, streaming=True)
        writer = world.writer(
            {**world.QUERIES, **world.APART}[query](rows),
            query,
            checkpointLocation=str(world.PLACE / "ck"),
            atEnd="drain",
        )
        running = writer.trigger(availableNow=True).start()
        assert running.awaitTermination(120)
        assert world.comparable(spark.read.parquet(str(world.PLACE / query))) == world.expected(spark, query)


@pytest.mark.parametrize("version", ["13a88b1"])
def test_a_query_that_reads_its_source_twice_now_is_refused_by_name(spark: SparkSession, version: str) -> None:
    """T48: its halves filter differently, and filters stay below ``withWatermark`` now. Nothing is touched."""
    with world.place():
        world.unpack(GOLDEN / version / "twice.tar.xz")
        rows = world.rows_of(spark, streaming=True)
        writer = world.writer(world.twice(rows), "twice", checkpointLocation=str(world.PLACE / "ck"))
        with pytest.raises(
            InvalidQuery, match="source-json_in and source-json_in-2: nothing says which of them is which"
        ):
            writer.trigger(availableNow=True).start().awaitTermination(120)
        shown = world.comparable(spark.read.parquet(str(world.PLACE / "twice")))
        assert set(shown) <= set(world.expected(spark, "twice")) and len(shown) == len(set(shown))


@pytest.mark.parametrize("version", ["13a88b1"])
def test_queries_of_a_job_that_read_their_source_apart_now_are_refused_by_name(
    spark: SparkSession, version: str
) -> None:
    """T48: one of them would go on and the other begin anew, its rows twice in the output. Nothing is touched."""
    with world.place():
        world.unpack(GOLDEN / version / "job.tar.xz")
        files = {path for path in world.PLACE.rglob("*") if path.is_file()}
        rows = world.rows_of(spark, streaming=True)
        job = tidegate.Job("golden", checkpointLocation=str(world.PLACE / "ck"))
        for name, build in world.JOB.items():
            job.add(world.writer(build(rows), name, parallelism=1).queryName(name))
        with pytest.raises(InvalidQuery, match="'few' has run in one pipeline with 'counts'"):
            job.trigger(availableNow=True).start()
        assert {path for path in world.PLACE.rglob("*") if path.is_file()} == files


def test_queries_of_a_job_go_on_from_the_location_of_an_earlier_version(spark: SparkSession) -> None:
    """T79: each with its own pipeline, below one location."""
    with world.place():
        world.unpack(GOLDEN / "5aa351e" / "job.tar.xz")
        rows = world.rows_of(spark, streaming=True)
        job = tidegate.Job("golden", checkpointLocation=str(world.PLACE / "ck"))
        for name, build in world.JOB.items():
            job.add(world.writer(build(rows), name, parallelism=1, atEnd="drain").queryName(name))
        assert job.trigger(availableNow=True).start().awaitTermination(120)
        for name in world.JOB:
            assert world.comparable(spark.read.parquet(str(world.PLACE / name))) == world.expected(spark, name)
