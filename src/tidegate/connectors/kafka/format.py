"""The format ``kafka`` as the registry sees it; as a source also ``tidegate-kafka``, for sessions without Spark's Kafka package."""

from __future__ import annotations

from tidegate.connectors.kafka.config import parse_kafka
from tidegate.connectors.kafka.sink.admission import check_cluster
from tidegate.connectors.kafka.sink.committer import FormerCommitter, KafkaCommitter
from tidegate.connectors.kafka.sink.connector import KafkaSink
from tidegate.connectors.kafka.sink.names import TransactionNames
from tidegate.connectors.kafka.sink_config import parse_sink
from tidegate.connectors.kafka.source.cluster import Cluster
from tidegate.connectors.kafka.source.enumerator import KafkaEnumerator
from tidegate.connectors.kafka.source.reader import KafkaSource
from tidegate.connectors.legacy import Scan, Sink
from tidegate.model.config import QueryConfig
from tidegate.ports.sink import SinkCommitter


def source(scan: Scan) -> KafkaSource:
    return KafkaSource(scan)


def enumerator(scan: Scan, config: QueryConfig) -> KafkaEnumerator:
    parsed = parse_kafka(scan.format, scan.options, warn=True)
    return KafkaEnumerator(parsed, Cluster(parsed), bounded=config.bounded)


def sink(node: Sink) -> KafkaSink:
    return KafkaSink(parse_sink(node))


def committer(node: Sink) -> SinkCommitter:
    config = parse_sink(node, warn=True)
    names = TransactionNames.of(node, config.id_prefix)
    check_cluster(config, names)
    return KafkaCommitter(config, names) if config.exactly_once else FormerCommitter(config, names)
