"""Slot side of the Kafka sink."""

from __future__ import annotations

from concurrent.futures import Future

import polars as pl

from tidegate.connectors.kafka.names import TransactionNames, encode
from tidegate.connectors.kafka.pool import IdPool
from tidegate.connectors.kafka.producer import Producer
from tidegate.connectors.kafka.sink_config import KafkaSinkConfig
from tidegate.connectors.kafka.transaction import Transaction, Workshop, check_open, wait_for
from tidegate.connectors.kafka.wire.transactions import Transactions
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex


class TransactionalWriter:
    """Rows of one checkpoint go into one transaction; ``prepare`` leaves it on the brokers, whole and not visible.

    A prepared transaction is never written to again: its producer is closed, the next checkpoint has an id of its own.
    """

    def __init__(self, config: KafkaSinkConfig, names: TransactionNames, attempt: Attempt, subtask: SlotIndex) -> None:
        self._config = config
        self._names = names
        self._attempt = attempt
        self._subtask = subtask
        self._pool = IdPool()
        self._wire = Transactions(config.client)
        self._workshop = Workshop(config)
        self._current: Transaction | None = None
        self._topics = () if config.columns.topic is None else (config.columns.topic,)
        self._spare = self._order()

    def write(self, rows: pl.DataFrame) -> None:
        if self._current is None:
            self._current = wait_for(self._spare, self._config.client["bootstrap.servers"])
            self._spare = self._order()
        self._current.write(rows)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        self._pool.barrier(checkpoint)
        current = self._current
        if current is None:
            return ()
        current.producer.flush()
        check_open(current, self._wire)
        self._pool.prepared(current.k, checkpoint)
        self._topics = current.producer.topics
        self._current = None
        self._workshop.retire(current)
        return (encode(current.handle),)

    def on_committed(self, checkpoint: CheckpointId) -> None:
        self._pool.committed(checkpoint)

    def close(self) -> None:
        self._workshop.close([self._spare], self._current)
        self._current = None
        self._wire.close()

    def _order(self) -> Future[Transaction]:
        k = self._pool.take()
        name = self._names.name(self._attempt, self._subtask, k)
        return self._workshop.order(k, name, self._topics)


class PlainWriter:
    """At least once: rows are visible as soon as brokers have them, and again after a restart."""

    def __init__(self, config: KafkaSinkConfig) -> None:
        self._producer = Producer(config.producer(None), config.columns)

    def write(self, rows: pl.DataFrame) -> None:
        self._producer.produce(rows)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        self._producer.flush()
        return ()

    def close(self) -> None:
        self._producer.close()
