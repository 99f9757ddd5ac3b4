"""A Kafka sink without a query around it: both sides driven by hand, step by step."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
from tests.servers.kafka import Broker

from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.connectors.kafka.sink.committer import KafkaCommitter
from tidegate.connectors.kafka.sink.names import TransactionNames
from tidegate.connectors.kafka.sink.writer import TransactionalWriter
from tidegate.connectors.kafka.sink_config import parse_sink
from tidegate.connectors.legacy import PIPELINE, Sink
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import Committable
from tidegate.model.types import STRING, Field, Schema

VALUE: Schema = (Field("value", STRING),)


def sink_node(
    broker: Broker | str,
    topic: str | None,
    *,
    pipeline: str = "pipeline-1",
    sink: str = "sink",
    schema: Schema = VALUE,
    **options: str,
) -> Sink:
    """``options``: underscores in a name are dots (``kafka_transaction_timeout_ms``)."""
    bootstrap = broker if isinstance(broker, str) else broker.bootstrap
    given = {"kafka.bootstrap.servers": bootstrap, PIPELINE: pipeline} | ({"topic": topic} if topic else {})
    given |= {name.replace("_", "."): value for name, value in options.items()}
    columns = tuple((field.name, field.name) for field in schema)
    return Sink(id=OperatorId(sink), format="kafka", options=given, columns=columns, schema=schema)


def rows(values: Iterable[str]) -> pl.DataFrame:
    return pl.DataFrame({"value": list(values)}, schema={"value": pl.String})


class HandSink:
    """One sink of one attempt: writers by subtask, and a committer. Whoever forgets to close it leaves what a crash leaves."""

    def __init__(self, node: Sink, attempt: int = 1) -> None:
        self.node = node
        self.attempt = Attempt(attempt)
        self.config = parse_sink(node)
        self.names = TransactionNames.of(node, self.config.id_prefix)
        self.committer = KafkaCommitter(self.config, self.names)
        self.wire = Transactions(self.config.client)
        self._writers: dict[int, TransactionalWriter] = {}

    def writer(self, subtask: int = 0) -> TransactionalWriter:
        if subtask not in self._writers:
            self._writers[subtask] = TransactionalWriter(self.config, self.names, self.attempt, SlotIndex(subtask))
        return self._writers[subtask]

    def write(self, *values: str, subtask: int = 0) -> None:
        self.writer(subtask).write(rows(values))

    def prepare(self, checkpoint: int, subtask: int = 0) -> tuple[Committable, ...]:
        """What a subtask acknowledges: prepared, and settled."""
        prepared = self.seal(checkpoint, subtask)
        self.writer(subtask).settle(CheckpointId(checkpoint))
        return prepared

    def seal(self, checkpoint: int, subtask: int = 0) -> tuple[Committable, ...]:
        payloads = self.writer(subtask).prepare(CheckpointId(checkpoint))
        return tuple(
            Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(subtask), number=number, payload=payload)
            for number, payload in enumerate(payloads)
        )

    def commit(self, checkpoint: int, committables: tuple[Committable, ...]) -> None:
        """As the driver does, and the notice after it."""
        assert self.committer.commit(committables) is None
        for writer in self._writers.values():
            writer.on_committed(CheckpointId(checkpoint))

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self.wire.close()


def values(broker: Broker, topic: str, count: int, *, committed: bool = True, seconds: float = 90.0) -> list[str]:
    """Sorted values of the topic; waits until at least ``count`` are there."""
    found = broker.read(topic, count, committed=committed, seconds=seconds)
    return sorted((message.value() or b"").decode() for message in found)
