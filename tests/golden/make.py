"""Makes the golden documents of the version that is imported: run once per released format, with that version's code.

PYTHONPATH=<tree of the version>/src:<this tree> python tests/golden/make.py <directory> [documents plans locations connectors]
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.golden import connectors, documents, plans, servers, world

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
    for name in connectors.CASES if "connectors" in what else what:
        if name not in connectors.CASES:
            continue
        with world.place(), servers.running(connectors.CASES[name].stands) as running:
            make_connector(spark, name, running, target)
    spark.stop()


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def make_location(spark: SparkSession, name: str, target: Path) -> None:
    """Taken while the query runs, as a crash would leave it: between two checkpoints, in the middle of the input."""
    world.write_input(world.PLACE / "in")
    rows = world.rows_of(spark, streaming=True)
    options: dict[str, object] = {
        "batchRowsMax": 1 if name in ("joined", "job", "twice") else 40,
        "parallelism": 1 if name == "job" else 2,
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


def make_connector(spark: SparkSession, name: str, running: servers.Running, target: Path) -> None:
    """A location as a crash would leave it, and a savepoint with which the query is stopped a moment later."""
    case = connectors.CASES[name]
    case.write_input()
    running.prepare()
    ck = world.PLACE / "ck"
    query = connectors.writer(spark, name, running.addresses, slow=True, checkpointLocation=str(ck))
    query = query.trigger(checkpoint="5 minutes").start()
    inputs = ("in",) if case.packed_input else ()
    try:
        if case.stands == "kafka":
            query.processAllAvailable()
        while not on_the_way(ck, whole_splits=case.has_files):
            time.sleep(0.05)
            query.checkpoint(timeout=100)
        time.sleep(1)  # What follows a commit has been written then: the next checkpoint is minutes away.
        keep(running, target / f"{name}.tar.xz", "ck", *inputs)
        query.stop(savepoint=str(world.PLACE / "sv"))
        keep(running, target / f"{name}-savepoint.tar.xz", "sv", *inputs)
    finally:
        query.stop()
    newest = newest_manifest(ck)
    assert newest is not None
    print(name, newest.checkpoint, [(s.operator, s.done, len(s.open)) for s in newest.sources], flush=True)


def keep(running: servers.Running, target: Path, *parts: str) -> None:
    """Packed from a copy, as the place looks at one moment."""
    kept = world.PLACE.with_name(f"{world.PLACE.name}-kept")
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    running.save(kept)
    for part in (*parts, "out"):
        if (world.PLACE / part).exists():
            shutil.copytree(world.PLACE / part, kept / part, ignore=shutil.ignore_patterns(".tmp-*"))
    world.pack(target, *sorted(path.name for path in kept.iterdir()), below=kept)
    shutil.rmtree(kept)


def on_the_way(location: Path, *, whole_splits: bool) -> bool:
    """Something has been read, and something is being read. ``whole_splits``: one of them to its end."""
    newest = newest_manifest(location)
    if newest is None:
        return False
    assert not any(source.done and not source.open for source in newest.sources), "read to the end before it was caught"
    reading = all(any(one.position is not None for one in source.open) for source in newest.sources)
    return reading and (not whole_splits or all(source.done for source in newest.sources))


def newest_manifest(location: Path) -> Manifest | None:
    paths = sorted(location.rglob("manifest"))
    return decode(Manifest, str(paths[-1]), paths[-1].read_bytes()) if paths else None


def in_the_middle(location: Path) -> bool:
    """A file has been read, others are open; the checkpoint holds rows under way if there are any. In every pipeline of a job."""
    newest = [newest_manifest(path.parent) for path in location.rglob("checkpoints")]
    if not newest or not all(newest):
        return False
    sources = [source for one in newest if one is not None for source in one.sources]
    assert all(len(source.open) > 0 for source in sources), "read to the end before it was caught"
    return all(source.done for source in sources)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or ["documents", "plans", "locations"])
