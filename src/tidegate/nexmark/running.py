"""Runs one query to the end of its events and, if asked, compares the result with Spark's."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.api.query import StreamingQuery
from tidegate.api.writer import writeStream
from tidegate.nexmark.catalogue import NexmarkQuery
from tidegate.nexmark.tables import Events, as_batch, as_stream

_LOOK_S = 0.05
_CHECKPOINTS_BEFORE_KILL = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    parallelism: int = 0
    """Slots; 0: as many as the session offers."""
    checkpoint: str = "1 second"
    check: bool = False
    """Keeps the result and compares it with Spark's."""
    kills: int = 0
    """How often the process of a slot is killed while the query runs, each time after another completed checkpoint."""
    progress: str = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    query: NexmarkQuery
    events: int
    seconds: float
    """From the moment all slots run to the end; of it, all attempts."""
    rows: int
    """Of the result; in update mode, of changes, unless it was checked."""
    checkpoints: int
    restarts: int
    difference: str | None = None
    """After a check: empty when the result equals Spark's, else in what they differ. None: not checked."""

    @property
    def events_per_second(self) -> float:
        return self.events / max(self.seconds, 1e-9)


def run(session: SparkSession, query: NexmarkQuery, events: Events, settings: RunSettings) -> Outcome:
    """Raises what ends the query if it fails. Stops it when interrupted."""
    with tempfile.TemporaryDirectory(prefix="tidegate-nexmark-") as scratch:
        frame = as_stream(session, query, events)
        # The view of the memory sink outlives the query, not the session: one name for all runs.
        name = f"nexmark_{query.name}"
        running = _start(frame, query, settings, scratch, name)
        try:
            seconds, rows = _follow(running, settings.kills)
        except BaseException:
            running.stop()
            raise
        now = running.snapshot()
        difference: str | None = None
        if settings.check:
            result = _result(session, query, frame, scratch, name)
            difference, rows = compare(result, as_batch(session, query, events))
        return Outcome(
            query=query,
            events=events.count,
            seconds=seconds,
            rows=rows,
            checkpoints=now.history.completed,
            restarts=now.restarts,
            difference=difference,
        )


def compare(actual: DataFrame, expected: DataFrame) -> tuple[str, int]:
    """In words how two results differ as multisets of rows, empty if they do not; and how many rows the first one has."""
    if actual.columns != expected.columns:
        return f"columns: expected {', '.join(expected.columns)}, got {', '.join(actual.columns)}", actual.count()
    expected = expected.cache()
    try:
        (found, found_sum), (wanted, wanted_sum) = _fingerprint(actual), _fingerprint(expected)
        if (found, found_sum) == (wanted, wanted_sum):
            return "", found
        missing, surplus = (
            [row.asDict(recursive=True) for row in one.exceptAll(other).limit(3).collect()]
            for one, other in ((expected, actual), (actual, expected))
        )
        return f"expected {wanted:,} rows, got {found:,}; missing: {missing}; not expected: {surplus}", found
    finally:
        expected.unpersist()


def _start(frame: DataFrame, query: NexmarkQuery, settings: RunSettings, scratch: str, name: str) -> StreamingQuery:
    form = "noop" if not settings.check else "memory" if query.mode == "update" else "parquet"
    writer = (
        writeStream(frame)
        .format(form)
        .outputMode(query.mode)
        .queryName(name)
        .option("checkpointLocation", f"{scratch}/checkpoints")
        .option("atEnd", "drain")
        .option("restartAttempts", 3)  # A slot that is killed comes back; what fails again and again is a bug.
        .option("progress", settings.progress)
        .trigger(availableNow=True, checkpoint=settings.checkpoint)
    )
    if settings.parallelism:
        writer = writer.option("parallelism", settings.parallelism)
    if form == "parquet":
        writer = writer.option("path", f"{scratch}/output").partitionBy(*query.partition_by)
    return writer.start()


def _follow(running: StreamingQuery, kills: int) -> tuple[float, int]:
    """Waits for the end. Seconds since all slots ran, and rows that reached the sink in the last attempt."""
    started_s: float | None = None
    killed = seen = 0
    while not running.wait_ended(_LOOK_S):
        now = running.snapshot()
        if now.phase != "running":
            continue
        started_s = started_s or time.monotonic()
        if killed < kills and now.history.completed >= seen + _CHECKPOINTS_BEFORE_KILL and now.pids:
            os.kill(now.pids[max(now.pids)], signal.SIGKILL)
            killed, seen = killed + 1, now.history.completed + 1
    running.awaitTermination()
    seconds = time.monotonic() - started_s if started_s is not None else 0.0
    operators = running.snapshot().operators()
    rows = sum(metrics.rows_in for label, metrics in operators.items() if label.split()[-1].startswith("sink-"))
    return seconds, rows


def _result(session: SparkSession, query: NexmarkQuery, frame: DataFrame, scratch: str, name: str) -> DataFrame:
    if query.mode == "update":
        newest = F.max_by(F.struct(*frame.columns), F.struct(*query.version)).alias("row")
        return (
            session.table(name)
            .groupBy(*[F.col(key).alias(f"key {key}") for key in query.keys])
            .agg(newest)
            .select("row.*")
        )
    if not any(Path(scratch, "output").rglob("*.parquet")):
        return session.createDataFrame([], frame.schema)
    return session.read.schema(frame.schema).parquet(f"{scratch}/output").select(*frame.columns)


def _fingerprint(frame: DataFrame) -> tuple[int, int]:
    """Number of rows and sum of their hashes: one pass, no shuffle."""
    rows = frame.select(F.xxhash64(*[F.col(f"`{column}`") for column in frame.columns]).alias("hash"))
    found = rows.agg(F.count("*"), F.sum(F.col("hash").cast("decimal(20,0)"))).first()
    assert found is not None
    return int(found[0]), int(found[1] or 0)
