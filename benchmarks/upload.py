"""A gigabyte of state on its way to a store: how fast a slot uploads it, beside the client library alone on the same files.

    python -m benchmarks.upload [--store s3 --store hdfs --store local] [--gigabytes 1] [--chunks 4] [--rounds 3] [--location URL]

Runs the real uploader of a slot without Spark: from rows in memory to the acknowledgement, encoding and checksums included. The
library gets the same bytes, encoded already, and the simplest program that uses it well: one call per file, one file after the other or
as many at a time as a slot sends; the faster way counts. In each round the two take turns, twice each, and the faster one of either side
counts; what was written is deleted before the next. Without a location, servers are started on this machine: moto for S3, a NameNode
with two DataNodes for HDFS. Ends with 1 if the median over the rounds is not above the goal for every store.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex, StageId, SubtaskId
from tidegate.model.snapshot import KeyGroupRange
from tidegate.operators.protocol import NewChunk, OperatorState
from tidegate.runtime.effects import Persist
from tidegate.spark.uploads import PUTS_MAX, Uploaded, Uploader, UploadOutcome
from tidegate.state.codec import encode_chunk
from tidegate.storage.object_clients import open_clients
from tidegate.storage.open import open_store
from tidegate.storage.options import StorageOptions, from_environment, storage_options
from tidegate.storage.places import BucketPlace, HdfsPlace, place_of

GOAL = 0.6
COLUMNS = 10
SUBTASK = SubtaskId(StageId(0), SlotIndex(0))
GROUPS = KeyGroupRange(0, 128)


@dataclass(frozen=True, slots=True)
class Target:
    location: str
    options: StorageOptions


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", action="append", choices=("s3", "hdfs", "local"), help="default: s3 and hdfs")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--chunks", type=int, default=4, help="operators whose state makes up the snapshot")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--location", default="", help="an existing place; credentials from the environment")
    arguments = parser.parse_args()
    chance = np.random.default_rng(1)
    rows = int(arguments.gigabytes * 1e9 / arguments.chunks / (8 * COLUMNS))
    frames = [
        pl.DataFrame({f"c{n}": chance.integers(0, 1 << 62, rows) for n in range(COLUMNS)})
        for _ in range(arguments.chunks)
    ]
    files = [encode_chunk(frame) for frame in frames]
    megabytes = sum(map(len, files)) / 1e6
    print(f"{arguments.chunks} chunks, {megabytes:,.0f} MB encoded, {arguments.rounds} rounds\n", flush=True)
    print(
        "| store | round | library alone, MB/s | slot, MB/s | ratio |\n| --- | ---: | ---: | ---: | ---: |", flush=True
    )
    missed = 0
    for store in ["given"] if arguments.location else arguments.store or ["s3", "hdfs"]:
        measured: list[Round] = []
        with _target(store, arguments.location) as target:
            for number in range(1, arguments.rounds + 1):
                measured.append(_round(target, frames, files))
                print(measured[-1].line(store, str(number), megabytes), flush=True)
        ratio = statistics.median(one.ratio for one in measured)
        missed += ratio <= GOAL
        print(f"| **{store}** | **median** | | | **{ratio:.2f}**, goal: over {GOAL} |", flush=True)
    return 1 if missed else 0


@dataclass(frozen=True, slots=True)
class Round:
    alone_s: float
    ours_s: float

    @property
    def ratio(self) -> float:
        return self.alone_s / self.ours_s

    def line(self, store: str, name: str, megabytes: float) -> str:
        return f"| {store} | {name} | {megabytes / self.alone_s:,.0f} | {megabytes / self.ours_s:,.0f} | {self.ratio:.2f} |"


def _round(target: Target, frames: list[pl.DataFrame], files: list[bytes]) -> Round:
    """Turns, so that a machine that gets slower or faster meanwhile does so for both."""
    alone_s: list[float] = []
    ours_s: list[float] = []
    for at_once in (1, PUTS_MAX):
        with _fresh(target) as place:
            alone_s.append(_library(place, files, at_once))
        with _fresh(target) as place:
            ours_s.append(_ours(place, frames))
    return Round(min(alone_s), min(ours_s))


def _ours(target: Target, frames: list[pl.DataFrame]) -> float:
    """Seconds from the barrier's hand-over to the acknowledgement."""
    answers: queue.SimpleQueue[UploadOutcome] = queue.SimpleQueue()
    uploader = Uploader(open_store(target.location, target.options), Attempt(1), SlotIndex(0), answers.put)
    states = []
    for number, frame in enumerate(frames):
        chunk = NewChunk(None, GROUPS)
        chunk.fill(frame)
        states.append((OperatorId(f"op-{number}"), OperatorState(chunks=(chunk,))))
    began = time.monotonic()
    uploader.submit(Persist(SUBTASK, CheckpointId(1), tuple(states), 0.0, 0.0))
    answer = answers.get()
    took_s = time.monotonic() - began
    if not isinstance(answer, Uploaded):
        raise SystemExit(f"the upload failed: {answer.reason}")
    uploader.stop(10)
    return took_s


def _library(target: Target, files: list[bytes], at_once: int) -> float:
    put = _library_put(target)
    began = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(put, range(len(files)), files))
    return time.monotonic() - began


def _library_put(target: Target) -> Callable[[int, bytes], None]:
    match place_of(target.location):
        case BucketPlace() as place:
            import obstore

            client = open_clients(place, target.options).normal
            return lambda number, data: obstore.put(client, f"file-{number}", data) and None
        case HdfsPlace() as place:
            from hdfs_native import Client

            hdfs = Client(f"{place.scheme}://{place.authority}")

            def write(number: int, data: bytes) -> None:
                with hdfs.create(f"{place.path}/file-{number}") as file:
                    file.write(data)

            return write
        case local:
            directory = Path(local.path)
            directory.mkdir(parents=True)

            def save(number: int, data: bytes) -> None:
                with (directory / f"file-{number}").open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())

            return save


@contextlib.contextmanager
def _fresh(target: Target) -> Iterator[Target]:
    """A place of its own, empty again afterwards: what is still on its way to a disk would slow down whoever is next."""
    place = Target(f"{target.location}/{uuid.uuid4().hex[:8]}", target.options)
    yield place
    store = open_store(place.location, place.options)
    for key in store.list(""):
        store.delete(key)


@contextlib.contextmanager
def _target(store: str, location: str) -> Iterator[Target]:
    run = f"upload-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="tidegate-upload-") as scratch:
        if location:
            yield Target(f"{location}/{run}", from_environment(os.environ))
        elif store == "local":
            yield Target(f"{scratch}/{run}", StorageOptions())
        elif store == "hdfs":
            from tests.servers.hdfs import hdfs_cluster

            with hdfs_cluster(Path(scratch)) as hdfs:
                yield Target(f"{hdfs.uri}/{run}", StorageOptions())
        else:
            from tests.servers.s3 import s3_server

            with s3_server(Path(scratch)) as s3:
                given = {name.removeprefix("storage."): value for name, value in s3.options.items()}
                yield Target(f"s3://{s3.bucket()}/{run}", storage_options({**given, "timeoutSeconds": "120"}))


if __name__ == "__main__":
    sys.exit(main())
