"""Makes the golden documents of the version that is imported: run once per released format, with that version's code.

PYTHONPATH=<tree of the version>/src:<this tree> python tests/golden/make.py <directory> [documents plans locations]
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.golden import documents, plans, world

import tidegate
from tidegate.checkpoint.manifest import Manifest, decode
from tidegate.spark.session import local_session

LOCATIONS = (*world.QUERIES, *world.APART, "job")


def main(target: Path, what: list[str]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    if "documents" in what:
        write(target / "documents.json", documents.made())
    if what == ["documents"]:
        return
    spark = local_session("golden", cores=2)
    if "plans" in what:
        write(target / "plans.json", plans.described(spark))
    for name in LOCATIONS if "locations" in what else what:
        if name not in LOCATIONS:
            continue
        with world.place():
            make_location(spark, name, target / f"{name}.tar.xz")
    spark.stop()


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def make_location(spark: SparkSession, name: str, target: Path) -> None:
    """Taken while the query runs, as a crash would leave it: between two checkpoints, in the middle of the input."""
    world.write_input(world.PLACE / "in")
    rows = world.rows_of(spark, streaming=True)
    options: dict[str, object] = {
        "batchRowsMax": 1 if name in ("joined", "job", "twice") else 40,
        "alignedTimeout": "1 ms" if name == "overtaken" else "off",
    }
    ck = str(world.PLACE / "ck")
    if name == "job":
        job = tidegate.Job("golden", checkpointLocation=ck).trigger(checkpoint="1 hour")
        for query, of in world.JOB.items():
            job.add(world.writer(of(rows), query, **options).queryName(query))
        running: Any = job.start()
        outputs = tuple(world.JOB)
    else:
        frame = (
            world.overtaken(rows, slow=True) if name == "overtaken" else {**world.QUERIES, **world.APART}[name](rows)
        )
        running = world.writer(frame, name, checkpointLocation=ck, **options).trigger(checkpoint="1 hour").start()
        outputs = (name,)
    try:
        while not in_the_middle(world.PLACE / "ck"):
            time.sleep(0.05)
            running.checkpoint(timeout=100)
        time.sleep(1)  # What follows a commit has been written then: the next checkpoint is an hour away.
        shutil.copytree(world.PLACE / "ck", world.PLACE / "kept", ignore=shutil.ignore_patterns(".tmp-*"))
        for one in outputs:
            shutil.copytree(world.PLACE / one, world.PLACE / "kept-output" / one)
    finally:
        running.stop()
    newest = newest_manifest(world.PLACE / "kept")
    assert newest is not None
    print(name, newest.checkpoint, [(s.operator, s.done, len(s.open)) for s in newest.sources], end=" ")
    print(sum(len(e.committables) for e in newest.operators), sum(len(e.in_flight) for e in newest.operators))
    shutil.rmtree(world.PLACE / "ck")
    (world.PLACE / "kept").rename(world.PLACE / "ck")
    for one in outputs:
        shutil.rmtree(world.PLACE / one)
        (world.PLACE / "kept-output" / one).rename(world.PLACE / one)
    world.pack(target, "ck", *outputs)


def newest_manifest(location: Path) -> Manifest | None:
    paths = sorted(location.rglob("manifest"))
    return decode(Manifest, str(paths[-1]), paths[-1].read_bytes()) if paths else None


def in_the_middle(location: Path) -> bool:
    """A file has been read, others are open; the checkpoint holds rows under way if there are any."""
    newest = newest_manifest(location)
    if newest is None:
        return False
    assert all(len(source.open) > 0 for source in newest.sources), "read to the end before it was caught"
    return all(source.done for source in newest.sources)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or ["documents", "plans", "locations"])
