"""A gigabyte of keyed state in one subtask: how long the barrier keeps it, and how much each checkpoint uploads.

    python -m benchmarks.big_state [--gigabytes 1] [--checkpoints 30] [--changed 0.01]

Runs the real keyed table, chunk codec and persisting of a slot, without Spark, and prints the synchronous phase, the longest single step of
the copying that follows, and the bytes uploaded. Between two barriers the loop takes batches of changes, as it would in a query.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import numpy as np
import polars as pl

from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex, StageId, SubtaskId
from tidegate.model.snapshot import KeyGroupRange
from tidegate.model.types import LONG
from tidegate.operators.protocol import OperatorState
from tidegate.runtime.effects import Persist
from tidegate.runtime.persisting import persist_states
from tidegate.state.hashing import hash_columns
from tidegate.state.table import CAPTURE_ROWS, KeyedTable

BATCH_ROWS = 32_768
VALUES = 10
OPERATOR = OperatorId("aggregate")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--checkpoints", type=int, default=30)
    parser.add_argument(
        "--changed", type=float, default=0.01, help="part of the keys that change between two checkpoints"
    )
    options = parser.parse_args()
    row_bytes = 8 * (VALUES + 1)
    keys = int(options.gigabytes * 1e9 / row_bytes)
    chance = np.random.default_rng(1)
    table = KeyedTable(
        [pl.Int64()],
        [pl.Int64()] * VALUES,
        hash_keys=lambda frame: hash_columns(frame, (LONG,)),
        groups=KeyGroupRange(0, 128),
        max_parallelism=128,
    )
    print(f"filling {keys:,} keys of {row_bytes} bytes", flush=True)
    for start in range(0, keys, 1 << 18):
        change(table, np.arange(start, min(start + (1 << 18), keys)), chance)
    full = checkpoint(table, 1, lambda: None)
    print(f"first checkpoint: {full.uploaded / 1e6:,.0f} MB uploaded, sync {full.sync_ms:.2f} ms", flush=True)
    taken = []
    changed = np.zeros(keys, np.bool_)
    changed_keys = 0

    def changes(size: int) -> None:
        some = np.unique(chance.integers(0, keys, size))
        changed[some] = True
        change(table, some, chance)

    meanwhile = max(1, int(keys * options.changed / 10 / (keys / CAPTURE_ROWS)))
    for number in range(2, options.checkpoints + 2):
        while changed.sum() < keys * options.changed:
            changes(min(BATCH_ROWS, int(keys * options.changed - changed.sum()) + 1))
        changed_keys += int(changed.sum())
        changed[:] = False
        # A tenth of the changes of the next interval arrive while this snapshot is still being copied.
        taken.append(checkpoint(table, number, lambda: changes(meanwhile)))
    changed_bytes = full.uploaded * changed_keys / keys
    uploads = [one.uploaded for one in taken]
    syncs = sorted(one.sync_ms for one in (full, *taken))
    steps = sorted(step for one in (full, *taken) for step in one.steps_ms)
    print(
        f"synchronous phase: median {statistics.median(syncs):.2f} ms, p99 {at(syncs, 0.99):.2f} ms, max {syncs[-1]:.2f} ms\n"
        f"one step of copying: median {statistics.median(steps):.2f} ms, p99 {at(steps, 0.99):.2f} ms, max {steps[-1]:.2f} ms of CPU\n"
        f"changed between two checkpoints: {changed_keys / keys / len(uploads):.2%} of the keys\n"
        f"upload: median {statistics.median(uploads) / full.uploaded:.1%} of the state, largest {max(uploads) / full.uploaded:.1%}\n"
        f"sum of {len(uploads)} uploads: {sum(uploads) / changed_bytes:.2f} times the changed bytes"
    )
    held = (
        at(syncs, 0.99) < 10
        and statistics.median(uploads) < 0.05 * full.uploaded
        and sum(uploads) < 3 * changed_bytes + full.uploaded
    )
    print("OK" if held else "NOT within: sync p99 10 ms, median upload 5 %, sum 3 x the changed bytes plus one full")
    return 0 if held else 1


class Taken:
    def __init__(self) -> None:
        self.sync_ms = 0.0
        self.steps_ms: list[float] = []
        self.uploaded = 0


def checkpoint(table: KeyedTable, number: int, meanwhile) -> Taken:
    taken = Taken()
    began = time.perf_counter()
    chunks = table.snapshot(CheckpointId(number))
    taken.sync_ms = (time.perf_counter() - began) * 1e3
    while table.capturing:
        began = time.thread_time()
        table.capture()
        taken.steps_ms.append((time.thread_time() - began) * 1e3)
        meanwhile()
    persist = Persist(
        SubtaskId(StageId(1), SlotIndex(0)), CheckpointId(number), ((OPERATOR, OperatorState(chunks=chunks)),), 0.0, 0.0
    )
    stored = persist_states(
        persist, lambda op, slot, cp, n: f"{op}/{Attempt(1):06d}-{slot:05d}-{cp:06d}-{n}", lambda *_: None
    )
    taken.uploaded = stored.uploaded_bytes
    table.on_stored(CheckpointId(number), stored.snapshots[0].chunks)
    table.on_completed(CheckpointId(number))
    return taken


def change(table: KeyedTable, keys: np.ndarray, chance: np.random.Generator) -> None:
    rows, _ = table.upsert(pl.DataFrame({"k0": keys.astype(np.int64)}))
    table.write(
        rows,
        pl.DataFrame({f"v{i}": chance.integers(0, 1 << 62, len(keys)) for i in range(VALUES)}),
    )


def at(values: list[float], part: float) -> float:
    return values[min(len(values) - 1, int(part * len(values)))]


if __name__ == "__main__":
    sys.exit(main())
