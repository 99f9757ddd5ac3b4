"""Checkpoint locations and plans of earlier versions, under today's code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.golden import plans, world

import tidegate

pytestmark = pytest.mark.spark
GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.parent.name for path in GOLDEN.glob("*/plans.json"))


@pytest.fixture(scope="module")
def today(spark: SparkSession) -> dict[str, Any]:
    return plans.described(spark)


@pytest.mark.parametrize("version", VERSIONS)
def test_operators_have_the_names_and_the_state_that_they_had(today: dict[str, Any], version: str) -> None:
    """T48: a name or a shape that changes leaves the state of every stored location behind."""
    stored = json.loads((GOLDEN / version / "plans.json").read_text())
    for what in ("refused", "ids", "shapes"):
        now = {name: plan.get(what) for name, plan in today.items() if name in stored}
        assert now == {name: plan.get(what) for name, plan in stored.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_plans_are_explained_as_they_were(today: dict[str, Any], version: str) -> None:
    """Not a promise: whoever changes a plan sees here which ones have changed."""
    stored = json.loads((GOLDEN / version / "plans.json").read_text())
    changed = {name for name, plan in stored.items() if plan.get("explain") != today[name].get("explain")}
    assert changed == set()


@pytest.mark.parametrize("published", [True, False], ids=["published", "unpublished"])
@pytest.mark.parametrize("query", world.QUERIES)
@pytest.mark.parametrize("version", VERSIONS)
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
            world.QUERIES[query](rows), query, checkpointLocation=str(world.PLACE / "ck"), atEnd="drain"
        )
        running = writer.trigger(availableNow=True).start()
        assert running.awaitTermination(120)
        assert world.comparable(spark.read.parquet(str(world.PLACE / query))) == world.expected(spark, query)


@pytest.mark.parametrize("version", VERSIONS)
def test_queries_of_a_job_go_on_from_a_location_of_an_earlier_version(spark: SparkSession, version: str) -> None:
    """T48: they filter differently behind one ``withWatermark``."""
    with world.place():
        world.unpack(GOLDEN / version / "job.tar.xz")
        rows = world.rows_of(spark, streaming=True)
        job = tidegate.Job("golden", checkpointLocation=str(world.PLACE / "ck"), atEnd="drain")
        for name, build in world.JOB.items():
            job.add(world.writer(build(rows), name).queryName(name))
        assert job.trigger(availableNow=True).start().awaitTermination(120)
        for name in world.JOB:
            assert world.comparable(spark.read.parquet(str(world.PLACE / name))) == world.expected(spark, name)
