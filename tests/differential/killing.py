"""A corpus query on real Spark whose slot process is killed, and which is stopped and started again with fewer slots."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from tests.differential.harness import Query, Sources
from tests.e2e.scenario import slow_while, while_active

import tidegate


@dataclass(frozen=True)
class SlowSources(Sources):
    """The same rows, in steps that take some time while the file ``slow`` exists."""

    slow: Path

    def table(self, name: str) -> DataFrame:
        table = super().table(name)
        return table.mapInArrow(slow_while(self.slow, 0.1), table.schema)


def run_killed(
    spark: SparkSession, query: Query, tables: Path, folder: Path
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """``kill -9`` of a slot after the first checkpoint, a stop after some more, and the rest with one slot."""
    slow = folder / "slow"
    slow.touch()
    df = query.build(SlowSources(spark, tables, streaming=True, slow=slow))
    running = _start(df, query, folder, parallelism=2)
    while_active(running, lambda: running.snapshot().history.completed >= 1, "a first checkpoint")
    os.kill(max(running.snapshot().pids.values()), signal.SIGKILL)
    while_active(running, lambda: running.recoveries, "it recovers")
    before = running.snapshot().history.completed
    while_active(running, lambda: running.snapshot().history.completed > before, "a checkpoint after the recovery")
    running.stop()
    slow.unlink()
    again = _start(df, query, folder, parallelism=1)
    assert again.awaitTermination(180)
    result = spark.read.schema(df.schema).parquet(str(folder / "out")).select(*df.columns)
    return df.columns, [tuple(row) for row in result.collect()]


def _start(df: DataFrame, query: Query, folder: Path, parallelism: int) -> Any:
    return (
        tidegate.writeStream(df)
        .format("parquet")
        .outputMode(query.mode)
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("parallelism", parallelism)
        .option("batchRowsMax", 10)
        .option("atEnd", "drain")
        .option("progress", "off")
        .trigger(availableNow=True, checkpoint="200 milliseconds")
        .start(str(folder / "out"))
    )
