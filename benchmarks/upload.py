"""A gigabyte of state on its way to a store: how fast a slot uploads it, beside the client library alone on the same files.

    python -m benchmarks.upload [--store s3|hdfs|local] [--gigabytes 1] [--chunks 4] [--rounds 3] [--location URL]

Runs the real uploader of a slot, encoding and checksums included, without Spark. The library gets the same bytes as files that are
encoded already, and puts them in two ways, one after the other and several at the same time, large ones in parts; the faster one
counts, as does the faster of two uploads by the slot. Rounds alternate. Without a location, a server is started on this machine: moto for S3, a cluster
of one node for HDFS.
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", choices=("s3", "hdfs", "local"), default="s3")
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
    print(f"{arguments.chunks} chunks, {megabytes:,.0f} MB encoded", flush=True)
    ratios: list[float] = []
    with _target(arguments.store, arguments.location) as target:
        for number in range(1, arguments.rounds + 1):
            alone_s = min(
                _library(_numbered(target, f"alone-{number}-{at_once}"), files, at_once) for at_once in (1, PUTS_MAX)
            )
            ours_s = min(_ours(_numbered(target, f"ours-{number}-{again}"), frames) for again in range(2))
            ratios.append(alone_s / ours_s)
            print(
                f"round {number}: library alone {megabytes / alone_s:,.0f} MB/s, slot {megabytes / ours_s:,.0f} MB/s, "
                f"ratio {ratios[-1]:.2f}",
                flush=True,
            )
    ratio = statistics.median(ratios)
    print(f"median ratio {ratio:.2f} (goal: over {GOAL})")
    return 0 if ratio > GOAL else 1


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


def _numbered(target: Target, name: str) -> Target:
    return Target(f"{target.location}/{name}", target.options)


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
