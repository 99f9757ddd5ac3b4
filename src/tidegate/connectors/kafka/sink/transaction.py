"""Transactions as a slot has them: made ready in the background, written into once, handed over at the barrier."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotReady
from contextlib import suppress
from dataclasses import dataclass

import polars as pl

from tidegate.connectors.kafka.client.refusals import explained
from tidegate.connectors.kafka.client.sender import Sender
from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.connectors.kafka.protocol.errors import Refused
from tidegate.connectors.kafka.protocol.transactions import OPEN_STATES, Handle
from tidegate.connectors.kafka.sink.producer import PATIENCE_SECONDS, Producer
from tidegate.connectors.kafka.sink_config import KafkaSinkConfig
from tidegate.model.errors import Bug, TidegateError, Unavailable

log = logging.getLogger("tidegate.kafka")

FAREWELL_SECONDS = 2.0
"""For aborting what a closed writer had open: brokers that do not answer by then do it when the transaction's time is over."""


@dataclass(slots=True)
class Transaction:
    """One producer with an id of its own. ``handle`` does not change: the id was initialised once, and only for this."""

    k: int
    handle: Handle
    producer: Producer
    begun: bool = False

    def write(self, rows: pl.DataFrame) -> None:
        """The transaction begins with its first message."""
        self.begun = True
        self.producer.produce(rows)


class Workshop:
    """Makes the next transaction ready while the present one is written, and takes old producers apart. One thread of its own."""

    def __init__(self, config: KafkaSinkConfig, stopping: threading.Event) -> None:
        """``stopping``: set before it is closed."""
        self._config = config
        self._stopping = stopping
        self._wire = Transactions(config.client, stop=self._stopping)
        self._sender = Sender(config.client, creates_topics=not config.exactly_once)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="tidegate-kafka")

    def order(self, k: int, transactional_id: str, topics: tuple[str, ...]) -> Future[Transaction]:
        """``topics``: those that will probably be written to. An empty id: a producer without transactions."""
        return self._executor.submit(self._make, k, transactional_id, topics)

    def retire(self, transaction: Transaction) -> None:
        """Its producer is closed; the transaction stays as it is."""
        self._executor.submit(transaction.producer.close)

    def close(self, unfinished: list[Future[Transaction]], begun: list[Transaction]) -> None:
        """What is open and was not prepared is aborted: readers need not wait until its time is over."""
        for one in unfinished:
            one.cancel()
        self._executor.shutdown(wait=True)
        for one in unfinished:
            if not one.cancelled() and one.exception() is None:
                one.result().producer.close()
        for one in begun:
            one.producer.close()
        self._sender.close()
        self._abort(begun)
        self._wire.close()

    def _abort(self, begun: list[Transaction]) -> None:
        with_little_time = Transactions(self._config.client, FAREWELL_SECONDS)
        for one in begun:
            try:
                with_little_time.initialise(one.handle.transactional_id, self._config.transaction_timeout_ms)
            except (TidegateError, Refused) as error:
                log.warning("%s stays open until its time is over: %s", one.handle.transactional_id, error)
        with_little_time.close()

    def _make(self, k: int, transactional_id: str, topics: tuple[str, ...]) -> Transaction:
        handle = self._initialise(transactional_id)
        producer = Producer(self._sender, handle, self._config.columns, self._config.producer)
        producer.learn(topics)
        return Transaction(k, handle, producer)

    def _initialise(self, transactional_id: str) -> Handle:
        """However long it takes: who needs it says how long that may be."""
        while True:
            try:
                return self._wire.initialise(transactional_id, self._config.transaction_timeout_ms)
            except Refused as error:
                raise explained(error.code, self._config.client["bootstrap.servers"], text=str(error)) from error
            except Unavailable:
                if self._stopping.is_set():
                    raise


def wait_for(ordered: Future[Transaction], where: str, what: str = "transaction") -> Transaction:
    with suppress(NotReady):
        return ordered.result(PATIENCE_SECONDS)
    raise Unavailable(
        f"the Kafka brokers at {where} have given no {what} for {PATIENCE_SECONDS:g} s",
        hint="are they up and to be reached from the executors? The query goes on from its last checkpoint",
    )


def check_open(transaction: Transaction, wire: Transactions) -> None:
    """Brokers abort a transaction that takes too long, and nobody tells who has nothing more to send. Before a checkpoint
    counts on it is the last moment at which nothing is lost."""
    handle = transaction.handle
    try:
        seen = wire.describe(handle.transactional_id)
    except Refused as error:
        raise Unavailable(f"a Kafka transaction is gone before it could be prepared: {error}") from error
    if (seen.producer_id, seen.epoch) == (handle.producer_id, handle.epoch) and seen.state in OPEN_STATES:
        return
    if not transaction.begun:
        raise Bug("a transaction without a record was to be prepared")
    raise Unavailable(
        f"Kafka transaction {handle.transactional_id} was ended before it was prepared "
        f"(now {seen.state}, epoch {seen.epoch} instead of {handle.epoch})",
        hint="checkpoints must come more often than kafka.transaction.timeout.ms; "
        "the query goes on from its last checkpoint, nothing is lost",
    )
