"""Under pressure nothing starves and nothing grows: a hot key, and a sink far slower than its source."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.e2e.scenario import while_active

import tidegate
from tidegate.connectors.nexmark.datasource import register

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WATCHED_S = float(os.environ.get("TIDEGATE_PRESSURE_S", "20"))
"""How long memory is watched; 60 for the full proof."""
GROWTH_MAX_BYTES = 48 * 1024 * 1024
"""Of any process after warm-up: less than a second of what an unbounded queue would hold."""


def events(spark: SparkSession) -> DataFrame:
    """Bids as fast as they can be made, for ever."""
    register(spark)
    return spark.readStream.format("tidegate-nexmark").options(table="bid", events=str(10**12), seed="7").load()


def rows_read(query: Any) -> dict[int, int]:
    """Rows that the source of each slot has handed out."""
    return {slot: progress.metrics[0].rows_out for slot, progress in query.snapshot().slots.items()}


def completed(query: Any) -> int:
    return query.snapshot().history.completed


def go_on(query: Any) -> None:
    """Every source reads more and two more checkpoints complete."""
    rows, checkpoints = rows_read(query), completed(query)

    def went_on() -> bool:
        now = rows_read(query)
        return all(now.get(slot, 0) > before for slot, before in rows.items()) and completed(query) >= checkpoints + 2

    while_active(query, went_on, "every source has read more and two more checkpoints are complete")


@pytest.fixture
def started():
    queries: list[Any] = []
    yield queries
    for query in queries:
        query.stop()


def test_one_key_with_nine_rows_in_ten_starves_neither_sources_nor_checkpoints(spark, started, tmp_path):
    """T16: channels that hardly carry a row carry every barrier."""
    bids = events(spark).select(
        F.expr("CASE WHEN bidder % 10 < 9 THEN 0 ELSE auction END").alias("k"), "price", "bidder"
    )
    hot = bids.groupBy("k").agg(F.count("*").alias("n"), F.max("price").alias("top"), F.sum("bidder").alias("s"))
    query = (
        tidegate.writeStream(hot)
        .format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .option("parallelism", 2)
        .option("progressInterval", "200 milliseconds")
        .trigger(checkpoint="500 milliseconds")
        .start()
    )
    started.append(query)
    while_active(query, lambda: len(rows_read(query)) == 2 and completed(query) >= 2, "both slots at work")
    for _ in range(5):
        go_on(query)
    history = query.snapshot().history
    assert history.failed == 0 and query.recoveries == ()
    assert sum(rows_read(query).values()) > 100_000


def chained(bids: DataFrame) -> DataFrame:
    return bids.select("auction", "price")


def through_an_exchange(bids: DataFrame) -> DataFrame:
    """Every batch changes hundreds of groups, and each of them is a row for the sink; the state itself stays small."""
    return bids.groupBy((F.col("price") % 20_000).alias("k")).agg(F.count("*").alias("n"))


def slow(row) -> None:
    """A hundred times slower than the source, which makes far more than 500,000 rows per second and slot."""
    until_s = time.perf_counter() + 0.0002
    time.sleep(0.0001)
    while time.perf_counter() < until_s:
        pass


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(chained, id="chained"),
        pytest.param(through_an_exchange, id="behind an exchange", marks=pytest.mark.soak),
    ],
)
def test_a_sink_a_hundred_times_slower_than_its_source_makes_no_process_grow(spark, started, tmp_path, shape):
    query = (
        tidegate.writeStream(shape(events(spark)))
        .foreach(slow)
        .outputMode("update" if shape is through_an_exchange else "append")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .option("parallelism", 2)
        .option("progressInterval", "200 milliseconds")
        # Aligned barriers wait behind the rows under way: with so slow a sink, fewer of them.
        .option("batchRowsMax", 500)
        .option("channelBatchesMax", 2)
        .trigger(checkpoint="1 second")
        .start()
    )
    started.append(query)
    while_active(query, lambda: len(rows_read(query)) == 2 and completed(query) >= 3, "warmed up: three checkpoints")
    family = [psutil.Process(pid) for pid in query.snapshot().pids.values()]
    own = psutil.Process()
    family += [own, *(one for one in own.children(recursive=True) if "java" in one.name())]
    sizes: dict[int, list[int]] = {one.pid: [] for one in family}
    checkpoints, rows = completed(query), rows_read(query)

    def went_on() -> bool:
        now = rows_read(query)
        read = all(now.get(slot, 0) > before for slot, before in rows.items())
        return read and completed(query) - checkpoints >= WATCHED_S / 5

    watched = time.monotonic() + WATCHED_S
    while time.monotonic() < watched or not went_on():
        assert time.monotonic() < watched + 120, "rows and checkpoints go on, though the sink is slow"
        for one in family:
            sizes[one.pid].append(one.memory_info().rss)
        assert query.isActive, query.exception()
        time.sleep(0.2)  # The interval of the measurement, not a synchronisation.
    growth = {pid: max(seen[len(seen) // 2 :]) - max(seen[: len(seen) // 4]) for pid, seen in sizes.items()}
    shown = {pid: f"{bytes_ / 2**20:+.1f} MB" for pid, bytes_ in growth.items()}
    assert all(bytes_ < GROWTH_MAX_BYTES for bytes_ in growth.values()), shown
    assert query.snapshot().history.failed == 0 and query.recoveries == ()
    print(f"{Path(str(tmp_path)).name}: growth {shown}, {completed(query) - checkpoints} checkpoints")
