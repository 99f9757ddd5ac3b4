"""A scenario on Structured Streaming, on Tidegate and as a batch: what each shows after every burst, and what it calls late."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from tests.differential.harness import quickly
from tests.integration.event_time.directories import Directories
from tests.integration.event_time.queries import SCHEMA
from tests.integration.event_time.scenario import Burst, Scenario

import tidegate

IDLE_MS = 300
LOOK_MS, PATIENT_LOOK_MS = 100, 1_000
"""Between looks; the second where files are moved in one by one, which takes some thousandths of it."""
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
Multiset = Counter[str]
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Run:
    """``moments``: what was visible when the engine rested after each burst, as keys of the result with their rows.

    ``restarts``: of slots. Nobody kills any.
    """

    moments: tuple[Multiset, ...]
    late: int
    restarts: int


def run_on_spark(spark: SparkSession, scenario: Scenario, folder: Path) -> Run:
    """Every burst appears whole: this is a Spark that never looks in the middle of one."""
    whole = replace(scenario, bursts=tuple(replace(burst, one_by_one=False) for burst in scenario.bursts))
    with quickly(spark), _cheap_logs(spark):
        return _run(spark, whole, folder, lambda df: df.writeStream)


@contextmanager
def _cheap_logs(spark: SparkSession) -> Iterator[None]:
    """Spark's own logs and state are files made by the dozen per micro-batch; this manager makes them in a fifth of the time."""
    spark.conf.set(
        FILE_MANAGER, "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
    try:
        yield
    finally:
        spark.conf.unset(FILE_MANAGER)


def run_on_tidegate(spark: SparkSession, scenario: Scenario, folder: Path, parallelism: int) -> Run:
    """Small batches, so that one file is many; times that let a scenario last seconds. Nothing else is set."""
    look_ms = PATIENT_LOOK_MS if any(burst.one_by_one for burst in scenario.bursts) else LOOK_MS

    def writer(df: DataFrame) -> Any:
        chosen = tidegate.writeStream(df).option("parallelism", parallelism).option("batchRowsMax", 20)
        chosen = chosen.option("discoveryInterval", f"{look_ms} ms").option("idleTimeout", f"{IDLE_MS} ms")
        return chosen.option("atEnd", "drain") if scenario.trigger == "drained" else chosen

    return _run(spark, scenario, folder, writer)


def run_as_batch(spark: SparkSession, scenario: Scenario, folder: Path) -> tuple[Multiset, Multiset]:
    """All there is to find, and of it what Spark must have shown or dropped at the end: windows that are closed."""
    directories = Directories(folder, scenario)
    for burst in scenario.bursts:
        directories.put(burst)
    until = datetime.fromtimestamp(scenario.watermark_us() / 1e6, UTC)
    with quickly(spark):
        rows = _build(spark.read, scenario, directories).collect()
    # No deadline is one that has passed.
    closed = (row for row in rows if row.deadline is None or row.deadline.astimezone(UTC) <= until)
    return _multiset(rows), _multiset(closed)


def _build(reader: Any, scenario: Scenario, directories: Directories) -> DataFrame:
    reader = reader.schema(SCHEMA).format(scenario.format).option("recursiveFileLookup", "true")
    if scenario.per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", scenario.per_trigger)
    if scenario.bytes_per_trigger is not None:
        reader = reader.option("maxBytesPerTrigger", scenario.bytes_per_trigger)
    return scenario.query.build({name: reader.load(str(directories.of(name))) for name in scenario.query.streams})


def _run(spark: SparkSession, scenario: Scenario, folder: Path, writer: Any) -> Run:
    directories = Directories(folder / "in", scenario)
    df = _build(spark.readStream, scenario, directories)
    chosen = writer(df).outputMode("append").option("checkpointLocation", str(folder / "checkpoints"))
    if scenario.trigger == "endless":
        return _endless(spark, scenario, directories, chosen)
    return _available_now(spark, scenario, directories, chosen, folder / "out")


def _endless(spark: SparkSession, scenario: Scenario, directories: Directories, writer: Any) -> Run:
    name = f"event_time_{next(_numbers)}"
    directories.put(scenario.bursts[0])
    query = writer.format("memory").queryName(name).start()
    moments: list[Multiset] = []
    try:
        for number, burst in enumerate(scenario.bursts):
            if number:
                _be_silent(query, burst)
                directories.put(burst)
            query.processAllAvailable()
            moments.append(_multiset(spark.table(name).collect()))
    finally:
        query.stop()
    spark.catalog.dropTempView(name)
    return Run(tuple(moments), _late(query), _restarts(query))


def _available_now(spark: SparkSession, scenario: Scenario, directories: Directories, writer: Any, output: Path) -> Run:
    moments: list[Multiset] = []
    late = restarts = 0
    for burst in scenario.bursts:
        directories.put(burst)
        query = writer.format("parquet").trigger(availableNow=True).start(str(output))
        assert query.awaitTermination(120), "the run does not end"
        late += _late(query)
        restarts += _restarts(query)
        found = any(output.rglob("*.parquet"))
        moments.append(_multiset(spark.read.parquet(str(output)).collect()) if found else Counter())
    return Run(tuple(moments), late, restarts)


def _be_silent(query: Any, burst: Burst) -> None:
    """Time that passes is what is tested here. More of it, on a busy machine, tests the same."""
    if burst.after_silence:
        assert not query.awaitTermination(3 * IDLE_MS / 1_000), "the query ended"


def _late(query: Any) -> int:
    reports = query.recentProgress
    return sum(operator["numRowsDroppedByWatermark"] for report in reports for operator in report["stateOperators"])


def _restarts(query: Any) -> int:
    return query.snapshot().restarts if isinstance(query, tidegate.StreamingQuery) else 0


def _multiset(rows: Any) -> Multiset:
    found: Multiset = Counter()
    for row in rows:
        found[row.key] += row.n
    return found
