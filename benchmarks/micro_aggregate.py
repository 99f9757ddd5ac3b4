"""Aggregation on one core, as a ratio to a plain Polars ``group_by`` of the same data.

Run: ``python benchmarks/micro_aggregate.py``
"""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"  # Only counts before the import.

import time
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from tidegate.model.elements import Batch
from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import KeyGroupRange
from tidegate.model.types import LONG, TIMESTAMP, Field, Struct
from tidegate.operators.aggregate import AggregateOperator
from tidegate.operators.partial_aggregate import PartialAggregateOperator, partial_schema
from tidegate.operators.protocol import NewChunk, OperatorContext
from tidegate.plan.relational import Aggregate, AggregateCall, EventTimeKey, PartialAggregate

BATCH_ROWS = 1 << 15
WINDOW_US = 10_000_000
WINDOW = Struct((Field("start", TIMESTAMP, False), Field("end", TIMESTAMP, False)))
CALLS = (AggregateCall("n", "count", (), LONG), AggregateCall("s", "sum", ("v",), LONG, (LONG,)))


def running() -> Aggregate:
    keys = (Field("k", LONG),)
    schema = (*keys, Field("n", LONG), Field("s", LONG))
    return Aggregate(
        id=OperatorId("running"),
        keys=("k",),
        calls=CALLS,
        event_time=None,
        mode=OutputMode.UPDATE,
        schema=schema,
        input_schema=(*keys, Field("v", LONG)),
    )


def windowed() -> Aggregate:
    keys = (Field("w", WINDOW, False), Field("k", LONG))
    schema = (*keys, Field("n", LONG), Field("s", LONG))
    return Aggregate(
        id=OperatorId("windowed"),
        keys=("w", "k"),
        calls=CALLS,
        event_time=EventTimeKey("w", "end"),
        mode=OutputMode.APPEND,
        schema=schema,
        input_schema=(*keys, Field("v", LONG)),
    )


def built(node: Aggregate) -> tuple[PartialAggregateOperator, AggregateOperator]:
    context = OperatorContext(node.id, SlotIndex(0), 1, 128, KeyGroupRange(0, 128))
    return PartialAggregateOperator(PartialAggregate(aggregate=node, schema=partial_schema(node))), AggregateOperator(
        node, context
    )


def running_rows(batches: int, keys: int) -> list[pl.DataFrame]:
    rng = np.random.default_rng(0)
    return [
        pl.DataFrame({"k": rng.integers(0, keys, BATCH_ROWS), "v": rng.integers(0, 1000, BATCH_ROWS)})
        for _ in range(batches)
    ]


def windowed_rows(batches: int, keys: int) -> Iterator[tuple[pl.DataFrame, int]]:
    """Five windows are open at a time, ``keys`` groups in each; every 40 batches one closes."""
    rng = np.random.default_rng(0)
    for i in range(batches):
        start = (i // 40 + rng.integers(0, 5, BATCH_ROWS)) * WINDOW_US
        window = pl.struct(
            pl.col("s").cast(pl.Datetime("us", "UTC")).alias("start"),
            (pl.col("s") + WINDOW_US).cast(pl.Datetime("us", "UTC")).alias("end"),
        )
        rows = pl.DataFrame(
            {"s": start, "k": rng.integers(0, keys, BATCH_ROWS), "v": rng.integers(0, 1000, BATCH_ROWS)}
        )
        yield rows.select(window.alias("w"), "k", "v"), (i // 40) * WINDOW_US


def drive(
    node: Aggregate, batches: list[tuple[pl.DataFrame, int]], before: list[pl.DataFrame]
) -> tuple[float, AggregateOperator]:
    partial, final = built(node)
    for rows in before:
        for piece in partial.on_batch(Batch(rows)):
            list(final.on_batch(piece))  # type: ignore[arg-type]
    started = time.process_time()
    for rows, watermark_us in batches:
        for piece in partial.on_batch(Batch(rows)):
            for _ in final.on_batch(piece):  # type: ignore[arg-type]
                pass
        for _ in final.on_watermark(watermark_us):
            pass
    return time.process_time() - started, final


def baseline(
    batches: list[tuple[pl.DataFrame, int]], keys: Callable[[pl.DataFrame], pl.DataFrame], by: list[str]
) -> float:
    flat = [keys(rows) for rows, _ in batches]
    started = time.process_time()
    for rows in flat:
        rows.group_by(by).agg(pl.len(), pl.col("v").sum())
    return time.process_time() - started


def best(
    ours: Callable[[], tuple[float, AggregateOperator]], plain: Callable[[], float], pairs: int = 3
) -> tuple[tuple[float, AggregateOperator], float]:
    """The fastest of a few interleaved runs of each: other work on the machine only ever slows one down."""
    runs = [(ours(), plain()) for _ in range(pairs)]
    return min((run for run, _ in runs), key=lambda run: run[0]), min(seconds for _, seconds in runs)


def report(name: str, seconds: float, plain: float, rows: int) -> None:
    print(
        f"{name:<44} {rows / seconds / 1e6:6.2f} M rows/s   {seconds / plain:5.2f} × the time of a plain group_by per batch"
    )


def main() -> None:
    million = running_rows(120, 1_000_000)
    warm = [pl.DataFrame({"k": range(i, i + 100_000), "v": [0] * 100_000}) for i in range(0, 1_000_000, 100_000)]
    timed = [(rows, 0) for rows in million]
    (seconds, table), plain = best(
        lambda: drive(running(), timed, warm), lambda: baseline(timed, lambda rows: rows, ["k"])
    )
    report("running aggregate, 1 M keys, update", seconds, plain, len(million) * BATCH_ROWS)

    windows = list(windowed_rows(240, 14_000))
    by = ["start", "end", "k"]
    (seconds, _), plain = best(
        lambda: drive(windowed(), windows, []), lambda: baseline(windows, lambda rows: rows.unnest("w"), by)
    )
    report("tumbling windows, 70 k live groups, append", seconds, plain, len(windows) * BATCH_ROWS)

    for checkpoint in (1, 2):
        started = time.process_time()
        chunks = table.snapshot(CheckpointId(checkpoint)).chunks
        copied = sum(chunk.rows.height for chunk in chunks if isinstance(chunk, NewChunk))
        print(f"snapshot, synchronous phase: {(time.process_time() - started) * 1e3:.1f} ms for {copied} rows")


if __name__ == "__main__":
    main()
