"""End-to-end latency of both engines by one definition: creation of an event → ``process`` of the row that contains it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

import tidegate

KEYS = 100_000
WARM_S = 10
"""Left out of the numbers: deploying, compiling, filling caches."""
PATIENCE_S = 60
"""How much longer to wait for an engine that has delivered nothing at all."""


class PacedSource(DataSource):
    """Events 0, 1, 2, … of which number n is created at ``startMs`` + n / rate, and not readable earlier."""

    @classmethod
    def name(cls) -> str:
        return "paced"

    def schema(self) -> str:
        return "n long, created_us long"

    def streamReader(self, schema: Any) -> PacedReader:
        return PacedReader(int(self.options["startMs"]), int(self.options["rate"]))


class Stretch(InputPartition):
    def __init__(self, start: int, stop: int, part: int) -> None:
        super().__init__((start, stop, part))
        self.start, self.stop, self.part = start, stop, part


class PacedReader(DataSourceStreamReader):
    def __init__(self, start_ms: int, rate: int) -> None:
        self._start_us, self._rate = start_ms * 1_000, rate

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def latestOffset(self) -> dict[str, int]:
        elapsed_us = time.time_ns() // 1_000 - self._start_us
        return {"n": max(0, elapsed_us * self._rate // 1_000_000)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [Stretch(start["n"], end["n"], part) for part in range(2)] if end["n"] > start["n"] else []

    def read(self, partition: Stretch) -> Iterator[pa.RecordBatch]:
        numbers = np.arange(partition.start + partition.part, partition.stop, 2, dtype=np.int64)
        created_us = self._start_us + numbers * 1_000_000 // self._rate
        yield pa.record_batch({"n": numbers, "created_us": created_us})


class LatencyWriter:
    """The user's side of ``foreach``: how old is the newest event of each row that arrives? Samples go to files of its own."""

    def __init__(self, folder: str, from_us: int) -> None:
        self._folder, self._from_us = folder, from_us
        self._samples: list[int] = []

    def open(self, partition_id: int, epoch_id: int) -> bool:
        return True

    def process(self, row: Row) -> None:
        if row.created_us >= self._from_us:
            self._samples.append(time.time_ns() // 1_000 - row.created_us)
            if len(self._samples) >= 2_000:
                self._flush()

    def close(self, error: Exception | None) -> None:
        self._flush()

    def _flush(self) -> None:
        if self._samples:
            Path(self._folder, uuid.uuid4().hex).write_bytes(np.array(self._samples, dtype=np.int64).tobytes())
            self._samples = []


def running_count(events: DataFrame) -> DataFrame:
    keyed = events.withColumn("k", F.expr(f"pmod(n * 7919, {KEYS})"))
    return keyed.groupBy("k").agg(F.count("*").alias("events"), F.max("created_us").alias("created_us"))


def measure_latency(spark: SparkSession, rate: int, seconds: int, folder: Path) -> dict[str, dict[str, float]]:
    """``{"tidegate": {"p50": …, "p99": …, "events": …}, "spark": …}``, in milliseconds."""
    spark.dataSource.register(PacedSource)
    return {
        engine: _measure(spark, engine, rate, seconds, folder / f"latency-{engine}") for engine in ("tidegate", "spark")
    }


def _measure(spark: SparkSession, engine: str, rate: int, seconds: int, folder: Path) -> dict[str, float]:
    samples = folder / "samples"
    samples.mkdir(parents=True)
    start_ms = time.time_ns() // 1_000_000
    events = spark.readStream.format("paced").options(startMs=str(start_ms), rate=str(rate)).load()
    output = running_count(events)
    writer: Any = tidegate.writeStream(output) if engine == "tidegate" else output.writeStream
    writer = writer.outputMode("update").option("checkpointLocation", str(folder / "checkpoints"))
    writer = writer.foreach(LatencyWriter(str(samples), (start_ms + WARM_S * 1_000) * 1_000))
    if engine == "tidegate":
        writer = writer.trigger(checkpoint="1 second").option("parallelism", 2).option("discoveryInterval", "10 ms")
    else:
        writer = writer.trigger(processingTime="0 seconds")
    query = writer.start()
    query.awaitTermination(WARM_S + seconds)
    deadline_s = time.monotonic() + PATIENCE_S
    while not any(samples.iterdir()) and time.monotonic() < deadline_s:
        query.awaitTermination(1)
    query.stop()
    ages_us = np.concatenate(
        [
            np.zeros(0, dtype=np.int64),
            *(np.frombuffer(file.read_bytes(), dtype=np.int64) for file in sorted(samples.iterdir())),
        ]
    )
    if not len(ages_us):
        raise RuntimeError(f"{engine} delivered no row in {WARM_S + seconds + PATIENCE_S} s")
    p50, p99 = np.percentile(ages_us, [50, 99]) / 1_000
    print(f"bench: latency  {engine:9} p50 {p50:.0f} ms, p99 {p99:.0f} ms over {len(ages_us):,} rows", flush=True)
    return {"p50": float(p50), "p99": float(p99), "events": len(ages_us)}
