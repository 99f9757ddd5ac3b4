"""Apache Kafka: a source whose partitions Tidegate assigns itself, and a sink that is exactly once by two-phase commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Makes ``format("tidegate-kafka")`` known to this session: for one without Spark's own Kafka package."""
    # Slots import this package and need no PySpark for it.
    from tidegate.connectors.kafka.datasource import KafkaDataSource

    spark.dataSource.register(KafkaDataSource)
