"""The generator as a PySpark Python Data Source: batch and streaming reads of the same rows, for Spark to be the oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tidegate.connectors.nexmark.config import FORMAT, TABLES, NexmarkConfig, parse_nexmark
from tidegate.connectors.nexmark.generator import NexmarkGenerator
from tidegate.connectors.nexmark.source import rows_of_part
from tidegate.connectors.pacing import wall_ms
from tidegate.connectors.spark_types import spark_schema
from tidegate.model.errors import InvalidQuery
from tidegate.operators.columns import to_arrow

BATCH_ROWS = 65_536
EVENTS_PER_MICRO_BATCH = 1_000_000
"""Spark's own stream, not paced: how much a micro-batch takes."""


def register(spark: SparkSession) -> None:
    """Makes ``format("tidegate-nexmark")`` known to this session."""
    spark.dataSource.register(NexmarkDataSource)


class NexmarkDataSource(DataSource):
    """``spark.readStream.format("tidegate-nexmark").option("table", "bid").option("events", 1_000_000).load()``"""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._config = parse_nexmark(dict(options))

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(TABLES[self._config.table])

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._config.events is None:
            raise InvalidQuery("a batch read of the Nexmark source needs an end", hint="set option events to a number")
        return NexmarkBatchReader(self._config)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return NexmarkStreamReader(self._config)


class RowRange(InputPartition):
    """Rows ``start`` … ``stop`` of the table, one of every ``of``, beginning with ``part``."""

    def __init__(self, part: int, of: int, start: int, stop: int) -> None:
        super().__init__((part, of, start, stop))
        self.part, self.of, self.start, self.stop = part, of, start, stop


class NexmarkBatchReader(DataSourceReader):
    def __init__(self, config: NexmarkConfig) -> None:
        self._config = config

    def partitions(self) -> Sequence[InputPartition]:
        return _ranges(self._config, 0, self._config.rows or 0)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self._config, partition)


class NexmarkStreamReader(DataSourceStreamReader):
    """Offsets count events; the wall-clock start travels in them, so that a paced stream goes on where it was."""

    def __init__(self, config: NexmarkConfig) -> None:
        self._config = config

    def initialOffset(self) -> dict[str, int]:
        return {"event": 0, "startedMs": wall_ms()}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        if self._config.rate:
            event = max(start["event"], (wall_ms() - start["startedMs"]) * self._config.rate // 1_000)
        else:
            event = start["event"] + EVENTS_PER_MICRO_BATCH
        return start | {"event": event if self._config.events is None else min(event, self._config.events)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, last = (self._config.rows_before(offset["event"]) for offset in (start, end))
        return _ranges(self._config, first, last) if last > first else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self._config, partition)


def _ranges(config: NexmarkConfig, start: int, stop: int) -> list[InputPartition]:
    parts = config.partitions or 2
    return [RowRange(part, parts, start, stop) for part in range(parts)]


def _batches(config: NexmarkConfig, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, RowRange)
    generator = NexmarkGenerator(config)
    first = rows_of_part(partition.start, partition.part, partition.of)
    last = rows_of_part(partition.stop, partition.part, partition.of)
    for begin in range(first, last, BATCH_ROWS):
        numbers = np.arange(begin, min(begin + BATCH_ROWS, last), dtype=np.int64) * partition.of + partition.part
        yield from to_arrow(generator.rows(numbers), TABLES[config.table]).to_batches()
