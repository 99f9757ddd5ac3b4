"""The Kafka sink: exactly once by transactions that the driver commits, or at least once."""

from __future__ import annotations

from tidegate.connectors.kafka.sink.names import TransactionNames
from tidegate.connectors.kafka.sink.writer import PlainWriter, TransactionalWriter
from tidegate.connectors.kafka.sink_config import KafkaSinkConfig, parse_sink
from tidegate.connectors.legacy import Sink, SinkConnector
from tidegate.model.ids import Attempt, SlotIndex
from tidegate.ports.sink import SinkWriter


class KafkaSink(SinkConnector):
    """Slot side."""

    keeps_every_result = True
    """A topic is a log: the whole result of one checkpoint does not take the place of another's."""

    def __init__(self, config: KafkaSinkConfig) -> None:
        self.guarantee = config.guarantee

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter:
        config = parse_sink(sink)
        if not config.exactly_once:
            return PlainWriter(config)
        return TransactionalWriter(config, TransactionNames.of(sink, config.id_prefix), attempt, subtask)
