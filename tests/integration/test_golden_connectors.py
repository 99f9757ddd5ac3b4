"""Locations and savepoints of every connector, written by earlier versions: today's code goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.golden import connectors, servers, world
from tests.golden.connectors import CASES

from tidegate.checkpoint.manifest import Manifest, decode
from tidegate.checkpoint.savepoint import read_savepoint
from tidegate.plan.graph import is_input_state
from tidegate.storage.local import LocalBlobStore

pytestmark = pytest.mark.spark
GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted({path.parent.name for name in CASES for path in GOLDEN.glob(f"*/{name}.tar.xz")})
LOCATION, SAVEPOINT = str(world.PLACE / "ck"), str(world.PLACE / "sv")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_location_goes_on_and_its_target_has_each_row_once(spark: SparkSession, version: str, name: str) -> None:
    """T48, T79: as after a crash between the commit and the note that it is done, so that it is repeated."""
    with world.place():
        restored(version, name)
        for note in Path(LOCATION).rglob("committed"):
            note.unlink()
        was = newest(LOCATION)
        found = run_to_the_end(spark, name, checkpointLocation=LOCATION)
        judge(name, found)
        assert operators(newest(LOCATION)) == operators(was) and newest(LOCATION).checkpoint > was.checkpoint


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_savepoint_goes_on_and_its_target_has_each_row_once(spark: SparkSession, version: str, name: str) -> None:
    """T49, T79"""
    with world.place():
        restored(version, f"{name}-savepoint")
        savepoint = read_savepoint(LocalBlobStore(world.PLACE / "sv"))
        assert savepoint is not None
        found = run_to_the_end(spark, name, run=connectors.new_run(), checkpointLocation=LOCATION, startFrom=SAVEPOINT)
        judge(name, found)
        assert operators(newest(LOCATION)) == operators(savepoint.manifest)


def restored(version: str, archive: str) -> None:
    case = CASES[archive.removesuffix("-savepoint")]
    world.unpack(GOLDEN / version / f"{archive}.tar.xz", (lambda: None) if case.packed_input else case.write_input)


def run_to_the_end(spark: SparkSession, name: str, run: str = "first", **options: Any) -> list[int]:
    case = CASES[name]
    with servers.running(case.stands) as server:
        server.prepare()
        server.more()
        writer = connectors.writer(spark, name, server.addresses, run, **options)
        query = (
            writer.trigger(checkpoint="5 minutes").start()
            if case.endless
            else writer.trigger(availableNow=True).start()
        )
        try:
            if case.endless:
                before = len(case.numbers(spark, server.addresses))
                connectors.wait_until(lambda: query.checkpoint(timeout=100) is not None and more(spark, name, before))
            else:
                assert query.awaitTermination(120)
        finally:
            query.stop()
        return case.numbers(spark, server.addresses)


def more(spark: SparkSession, name: str, before: int) -> bool:
    return len(CASES[name].numbers(spark, connectors.Servers())) > before


def judge(name: str, found: list[int]) -> None:
    case = CASES[name]
    wanted = case.wanted(found)
    assert set(found) == set(wanted)
    assert case.repeats or len(found) == len(wanted)


def operators(manifest: Manifest) -> list[str]:
    """But the inputs of stages: the golden query had one stage more, to be slow."""
    return [operator for operator in manifest.stateful if not is_input_state(operator)]


def newest(location: str) -> Manifest:
    path = max(Path(location).rglob("manifest"))
    return decode(Manifest, str(path), path.read_bytes())
