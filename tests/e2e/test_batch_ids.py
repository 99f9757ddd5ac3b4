"""Ids of batches as a user's functions see them, over everything that may end a query."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.e2e.batch_notes import Notes, start_job
from tests.e2e.scenario import Driver, wait_until, while_active

import tidegate
from tidegate.checkpoint.manifest import Manifest, decode
from tidegate.model.errors import CorruptSnapshot, UserCodeFailed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DRIVER = """
import json, sys
from pathlib import Path
import tidegate
from tests.e2e.batch_notes import start_job

given = json.loads(sys.argv[1])
start_job(tidegate.local_session("noted", cores=3), Path(given["folder"]), 2).awaitTermination()
"""


def test_ids_rise_by_one_over_a_killed_driver_a_raising_function_and_another_parallelism(
    spark: SparkSession, tmp_path: Path
) -> None:
    """T76: each sink counts for itself; a repeated call has the same id, the same name and the same rows."""
    often, seldom = Notes(tmp_path, "often"), Notes(tmp_path, "seldom")
    often.plan("kill", 2)
    with Driver(DRIVER, tmp_path) as driver:
        wait_until(lambda: driver.process.poll() is not None, "the driver is killed by its own function")
        assert driver.process.returncode == -9, driver.errors()
    assert [call.batch for call in often.calls()] == [0, 1, 2]

    often.plan("raise", 5)
    fresh = len(seldom.calls())
    seldom.plan("raise", fresh)
    while often.has_plans() or seldom.has_plans():
        job = start_job(spark, tmp_path, 1)
        with pytest.raises(UserCodeFailed, match=r"planned for batch \d"):
            job.awaitTermination(180)
    job = start_job(spark, tmp_path, 1)
    try:
        so_far = len(often.calls()), len(seldom.calls())
        while_active(
            job,
            lambda: len(often.calls()) > so_far[0] + 3 and len(seldom.calls()) > so_far[1] + 1,
            "some more batches of both",
        )
    finally:
        job.stop()

    for notes, repeated in ((often, [2, 5]), (seldom, [fresh])):
        calls = notes.calls()
        ids = [call.batch for call in calls]
        assert sorted(set(ids)) == list(range(max(ids) + 1)) and ids == sorted(ids)
        assert [batch for batch in range(max(ids) + 1) if ids.count(batch) == 2] == repeated
        assert len({call.name for call in calls}) == 1
        assert len(set(calls)) == max(ids) + 1, "the same rows for the same id"
    rows = sorted(row for call in set(often.calls()) for row in call.rows)
    assert rows == list(range(len(rows))), "every row is in one batch"
    assert often.calls()[0].name != seldom.calls()[0].name
    assert max(call.batch for call in often.calls()) > max(call.batch for call in seldom.calls())


def test_a_lost_manifest_is_noticed_by_the_calls_it_led_to_and_no_id_comes_again_with_other_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """T73, T76: manifest and marker of the newest checkpoint are gone, the note about the call is not."""
    notes = Notes(tmp_path, "rows")
    sold = itertools.count()

    def run(**options: str) -> None:
        writer = tidegate.writeStream(spark.readStream.schema("value bigint").json(str(tmp_path / "in")))
        writer = writer.foreachBatch(notes.save).option("checkpointLocation", str(tmp_path / "checkpoints"))
        writer.options(**options).trigger(availableNow=True).start().awaitTermination(180)

    def sell() -> None:
        number = next(sold)
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"value": {number}}}\n')

    for _ in range(3):
        sell()
        run()
    before = notes.calls()
    assert [(call.batch, call.rows) for call in before] == [(0, (0,)), (1, (1,)), (2, (2,))]
    manifests = sorted((tmp_path / "checkpoints" / "checkpoints").glob("*/manifest"))
    newest = next(path for path in reversed(manifests) if names_output(path))
    for path in manifests[manifests.index(newest) :]:
        shutil.rmtree(path.parent)
    with pytest.raises(CorruptSnapshot, match="manifest is missing"):
        run()
    assert notes.calls() == before
    run(onCorruptCheckpoint="fallBack")
    sell()
    run()
    again = notes.calls()[3:]
    assert [call.rows for call in again] == [(2,), (3,)], "the lost one comes again, under an id of its own"
    assert again[0].batch > 2 and again[1].batch == again[0].batch + 1
    assert len({call.name for call in notes.calls()}) == 1


def names_output(path: Path) -> bool:
    return bool(decode(Manifest, str(path), path.read_bytes()).committables())
