"""Slot side of the Kafka sink."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import polars as pl

from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.connectors.kafka.sink.id_pool import IdPool
from tidegate.connectors.kafka.sink.names import TransactionNames, encode
from tidegate.connectors.kafka.sink.producer import Producer
from tidegate.connectors.kafka.sink.settling import Settling
from tidegate.connectors.kafka.sink.transaction import Transaction, Workshop, wait_for
from tidegate.connectors.kafka.sink_config import KafkaSinkConfig
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.ports.sink import SinkWriter


class TransactionalWriter(SinkWriter):
    """Rows of one checkpoint go into one transaction; prepared and settled, it is on the brokers, whole and not visible.

    A prepared transaction is never written to again: its producer is closed, the next checkpoint has an id of its own. Rows of the
    next checkpoint are written while those of a prepared one are still on their way, and come to lie behind them.
    """

    def __init__(self, config: KafkaSinkConfig, names: TransactionNames, attempt: Attempt, subtask: SlotIndex) -> None:
        self._config = config
        self._names = names
        self._attempt = attempt
        self._subtask = subtask
        self._pool = IdPool()
        self._stopping = threading.Event()
        self._workshop = Workshop(config, self._stopping)
        self._settling = Settling(Transactions(config.client, stop=self._stopping), self._workshop, self._stopping)
        self._current: Transaction | None = None
        self._topics = () if config.columns.topic is None else (config.columns.topic,)
        self._spare = self._order()

    def write(self, rows: pl.DataFrame) -> None:
        self._settling.raise_failure()
        if self._current is None:
            self._current = wait_for(self._spare, self._config.client["bootstrap.servers"])
            self._spare = self._order()
        self._current.write(rows)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        self._settling.raise_failure()
        self._pool.barrier(checkpoint)
        current = self._current
        if current is None:
            return ()
        self._pool.prepared(current.k, checkpoint)
        self._topics = current.producer.topics
        self._current = None
        self._settling.seal(current, checkpoint)
        return (encode(current.handle),)

    def settle(self, checkpoint: CheckpointId) -> None:
        self._settling.settle(checkpoint)

    def on_committed(self, checkpoint: CheckpointId) -> None:
        self._pool.committed(checkpoint)

    def close(self) -> None:
        self._stopping.set()
        begun = self._settling.close() + ([] if self._current is None else [self._current])
        self._current = None
        self._workshop.close([self._spare], begun)

    def _order(self) -> Future[Transaction]:
        k = self._pool.take()
        name = self._names.name(self._attempt, self._subtask, k)
        return self._workshop.order(k, name, self._topics)


class PlainWriter(SinkWriter):
    """At least once: rows are visible as soon as brokers have them, and again after a restart. One idempotent producer writes all of them."""

    def __init__(self, config: KafkaSinkConfig) -> None:
        self._config = config
        self._stopping = threading.Event()
        self._workshop = Workshop(config, self._stopping)
        self._ordered = self._workshop.order(0, "", () if config.columns.topic is None else (config.columns.topic,))
        self._written = False

    def write(self, rows: pl.DataFrame) -> None:
        self._producer.produce(rows)
        self._written = True

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        if self._written:
            self._producer.flush()
        return ()

    def close(self) -> None:
        self._stopping.set()
        self._workshop.close([self._ordered], [])

    @property
    def _producer(self) -> Producer:
        return wait_for(self._ordered, self._config.client["bootstrap.servers"], "producer id").producer
