"""``format("tidegate-kafka")``: Spark's Kafka columns and options in a session without Spark's Kafka package.

A batch read (``spark.read``) runs on Spark. A stream (``spark.readStream``) runs with ``tidegate.writeStream``, by the source itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from tidegate.connectors.kafka.config import OWN_FORMAT, parse_kafka, source_schema
from tidegate.connectors.kafka.source.cluster import Cluster
from tidegate.connectors.kafka.source.enumerator import KafkaEnumerator
from tidegate.connectors.kafka.source.reader import KafkaSource
from tidegate.connectors.legacy import Scan
from tidegate.connectors.spark_types import spark_schema
from tidegate.model.errors import InvalidQuery, Unavailable
from tidegate.model.ids import OperatorId
from tidegate.model.snapshot import Split
from tidegate.operators.columns import to_arrow

BATCH_ROWS = 65_536
SILENCE_MAX_S = 60.0
_PAUSE_S = 0.002


class KafkaDataSource(DataSource):
    """``spark.readStream.format("tidegate-kafka").option("kafka.bootstrap.servers", …).option("subscribe", …).load()``"""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._given = {str(name).lower(): str(value) for name, value in dict(options).items()}

    @classmethod
    def name(cls) -> str:
        return OWN_FORMAT

    def schema(self) -> StructType:
        parse_kafka(OWN_FORMAT, self._given)
        return spark_schema(source_schema(self._given))

    def reader(self, schema: StructType) -> DataSourceReader:
        return KafkaBatchReader(self._given)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise InvalidQuery(
            "Spark's own engine cannot stream from format tidegate-kafka",
            hint="start the query with tidegate.writeStream(df), or use format kafka with Spark's Kafka package",
        )


class PartitionRange(InputPartition):
    def __init__(self, payload: bytes) -> None:
        super().__init__(payload)
        self.payload = payload


class KafkaBatchReader(DataSourceReader):
    """From ``startingOffsets`` (for a batch: the earliest unless told) to where the partitions end now."""

    def __init__(self, options: dict[str, str]) -> None:
        starts = {"startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"}
        self._options = options if starts & options.keys() else options | {"startingoffsets": "earliest"}

    def partitions(self) -> Sequence[InputPartition]:
        config = parse_kafka(OWN_FORMAT, self._options, warn=True)
        found = KafkaEnumerator(config, Cluster(config), bounded=True).discover(0)
        return [PartitionRange(split.payload) for split in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PartitionRange)
        schema = source_schema(self._options)
        columns = tuple(one.name for one in schema)
        scan = Scan(
            id=OperatorId("batch"),
            format=OWN_FORMAT,
            options=self._options,
            schema=schema,
            columns=columns,
            source_schema=schema,
        )
        source = KafkaSource(scan)
        reader = source.open(Split(number=0, payload=partition.payload), None)
        heard = time.monotonic()
        while not reader.finished:
            rows = reader.read(BATCH_ROWS, 0)
            if rows is not None:
                heard = time.monotonic()
                yield from to_arrow(rows, schema).to_batches()
            elif time.monotonic() - heard > SILENCE_MAX_S:
                raise Unavailable(f"no rows of {reader.describe()} for {SILENCE_MAX_S:g} s, and its end is not reached")
            else:
                time.sleep(_PAUSE_S)
        reader.close()
        source.close()
