"""A Kafka producer that takes whole frames. Every message either arrives or is known to have failed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from typing import Any

import polars as pl

from tidegate.connectors.kafka import librdkafka as rd
from tidegate.connectors.kafka.columns import MessageBlock, MessageColumns
from tidegate.connectors.kafka.headers import produce_one
from tidegate.connectors.kafka.librdkafka import LibraryError, ask_about, library
from tidegate.connectors.kafka.missing import missing_topics
from tidegate.connectors.kafka.refusal import closed_meanwhile, explained, nothing_taken, topic_gone
from tidegate.model.errors import DataError, InvalidQuery, TidegateError

log = logging.getLogger("tidegate.kafka")

POLL_MS = 50
FULL_MS = 1
"""How long to wait for room in the library's queue: it does not say when there is some."""
PATIENCE_SECONDS = 30.0
"""How long brokers may take nothing before the attempt is given up (and started again)."""

TOPICS_REMEMBERED = 64


class Producer:
    """One client. ``options`` as librdkafka takes them. Not for several threads at once.

    Failures of single messages are remembered and raised by the next call: nothing after them counts as written.
    """

    def __init__(self, options: dict[str, str], columns: MessageColumns) -> None:
        """Returns at once; brokers are looked for in the background."""
        self._columns = columns
        self._options = options
        self._where = options.get("bootstrap.servers", "")
        self._failed: LibraryError | None = None
        self._trouble = ""
        """What the library last said about brokers that it cannot reach."""
        # Kept: the library only has their addresses.
        self._callbacks = (rd.ON_DELIVERY(self._on_delivery), rd.ON_ERROR(self._on_error), rd.ON_LOG(self._on_log))
        try:
            # Only failures are reported: a success costs nothing.
            self._handle = rd.new_producer(options | {"delivery.report.only.error": "true"}, *self._callbacks)
        except LibraryError as error:
            raise InvalidQuery(
                f"the Kafka client refuses its options: {error.text}",
                hint="options under 'kafka.' are librdkafka's, and Java's where they have the same meaning",
            ) from error
        self._topics: dict[str, int] = {}
        self._written: dict[str, None] = {}

    def connect(self, wait_ms: int) -> None:
        """Gives the library a connection to a broker of the cluster. Having one is no condition.

        ``init_transactions`` looks for one only every 500 ms. The first question goes through the connection to a bootstrap server,
        which the library closes once it knows the cluster; the second opens one to a broker.
        """
        ask_about(self._handle, 0, wait_ms)
        ask_about(self._handle, 0, wait_ms)

    def init_transactions(self, wait_ms: int) -> bool:
        """Whether it is done; if not, call it again. Takes the transactional id from whoever had it."""
        try:
            rd.raise_for(library().rd_kafka_init_transactions(self._handle, wait_ms))
        except LibraryError as error:
            self.poll(0)
            if not error.retriable:
                raise self._explained(error) from error
            return False
        return True

    def learn(self, topics: Iterable[str], wait_ms: int) -> None:
        """Asks where the topics lie, so that the first message need not wait for it. Knowing it is no condition."""
        for topic in topics:
            if not ask_about(self._handle, self._topic(topic), wait_ms):
                return

    def begin_transaction(self) -> None:
        try:
            rd.raise_for(library().rd_kafka_begin_transaction(self._handle))
        except LibraryError as error:
            raise self._explained(error) from error

    def produce(self, rows: pl.DataFrame) -> None:
        """Hands the rows over. Waits while the library's queue is full, up to ``PATIENCE_SECONDS`` without any progress."""
        for topic, part in self._columns.by_topic(rows):
            self._written[topic] = None
            if self._columns.has_headers:
                bare = part["headers"].is_null()
                if bare.all():
                    self._produce_block(topic, part)
                else:
                    self._produce_with_headers(topic, part)
            else:
                self._produce_block(topic, part)
        self.poll(0)

    def poll(self, wait_ms: int) -> None:
        """Lets the library tell what happened. Raises if a message or the producer itself has failed."""
        library().rd_kafka_poll(self._handle, wait_ms)
        self._raise_failure()

    def finish(self) -> None:
        """The next producer knows nothing of this one: only what has arrived is sure to lie before its messages."""
        self.flush()

    def flush(self, patience_s: float = PATIENCE_SECONDS, stop: threading.Event | None = None) -> None:
        """Returns when brokers have everything. ``stop``: ends the waiting, from another thread."""
        until, left, wait_ms = time.monotonic() + patience_s, self.waiting, 1
        # The library looks whether it is done only when its time is over: short at first, because brokers mostly are fast.
        while library().rd_kafka_flush(self._handle, wait_ms):
            self._raise_failure()
            if stop is not None and stop.is_set():
                raise closed_meanwhile()
            until, left = self._patience(until, left, patience_s)
            wait_ms = min(wait_ms + 1, POLL_MS)
        self._raise_failure()

    @property
    def topics(self) -> tuple[str, ...]:
        """Those written to, the latest ones."""
        return tuple(self._written)[-TOPICS_REMEMBERED:]

    @property
    def waiting(self) -> int:
        """Messages that no broker has yet."""
        return library().rd_kafka_outq_len(self._handle)

    def close(self) -> None:
        """Forgets what is not written yet. A transaction stays as it is."""
        if not self._handle:
            return
        lib = library()
        lib.rd_kafka_purge(self._handle, rd.PURGE_ALL)
        for topic in self._topics.values():
            lib.rd_kafka_topic_destroy(topic)
        lib.rd_kafka_destroy(self._handle)
        self._handle, self._topics = 0, {}

    def _produce_block(self, topic: str, rows: pl.DataFrame) -> None:
        block = MessageBlock(rows, self._columns)
        messages, handle = block.messages, self._topic(topic)
        flags = rd.COPY | (rd.OWN_PARTITION if self._columns.has_partition else 0)
        until, left = time.monotonic() + PATIENCE_SECONDS, self.waiting
        while len(messages):
            taken = library().rd_kafka_produce_batch(
                handle, rd.ANY_PARTITION, flags, messages.ctypes.data, len(messages)
            )
            if taken == len(messages):
                return
            errors = messages["error"]
            # The first that finds the queue full stops all behind it, so order is kept.
            refused = errors[(errors != 0) & (errors != rd.QUEUE_FULL)]
            if len(refused):
                self.poll(0)
                raise self._explained(LibraryError(int(refused[0]), rd.text_of(int(refused[0]))), topic)
            messages = messages[taken:]
            messages["error"] = 0
            self.poll(FULL_MS)
            until, left = self._patience(until, left, PATIENCE_SECONDS)

    def _produce_with_headers(self, topic: str, rows: pl.DataFrame) -> None:
        """Message by message: the library takes headers no other way."""
        names = ["value", *(["key"] if self._columns.has_key else [])]
        frame = rows.with_columns(pl.col(names).cast(pl.Binary))
        values = frame["value"].to_list()
        keys = frame["key"].to_list() if self._columns.has_key else [None] * len(values)
        partitions = (
            frame["partition"].fill_null(rd.ANY_PARTITION).to_list()
            if self._columns.has_partition
            else [rd.ANY_PARTITION] * len(values)
        )
        handle = self._topic(topic)
        for value, key, partition, headers in zip(values, keys, partitions, frame["headers"].to_list(), strict=True):
            until, left = time.monotonic() + PATIENCE_SECONDS, self.waiting
            while (error := produce_one(self._handle, handle, partition, value, key, headers)) is not None:
                if error.code != rd.QUEUE_FULL:
                    self.poll(0)
                    raise self._explained(error, topic)
                self.poll(POLL_MS)
                until, left = self._patience(until, left, PATIENCE_SECONDS)

    def _topic(self, name: str) -> int:
        handle = self._topics.get(name)
        if handle is None:
            handle = self._topics[name] = library().rd_kafka_topic_new(self._handle, name.encode(), None)
            if not handle:
                del self._topics[name]
                raise DataError(f"{name!r} cannot be the name of a Kafka topic", hint="see column 'topic'")
            if self._columns.has_partition:
                # A block that names partitions of a topic not known yet would ask brokers for a partition -1.
                until, left = time.monotonic() + PATIENCE_SECONDS, 0
                while not ask_about(self._handle, handle, POLL_MS):
                    self.poll(0)
                    until, left = self._patience(until, left, PATIENCE_SECONDS)
        return handle

    def _patience(self, until: float, left: int, patience_s: float) -> tuple[float, int]:
        """Any message that arrived renews it."""
        now, waiting = time.monotonic(), self.waiting
        if waiting < left:
            return now + patience_s, waiting
        if now < until:
            return until, waiting
        if missing := missing_topics(self._options, self._topics):
            raise topic_gone(self._where, missing[0])
        raise nothing_taken(self._where, waiting, patience_s, self._trouble)

    def _raise_failure(self) -> None:
        if self._failed is not None:
            raise self._explained(self._failed)
        if (fatal := rd.fatal_error(self._handle)) is not None:
            raise self._explained(fatal)

    def _on_delivery(self, _: Any, message: Any, __: Any) -> None:
        code = message.contents.error
        if code and self._failed is None:
            topic = library().rd_kafka_topic_name(message.contents.topic)
            self._failed = LibraryError(code, f"{rd.text_of(code)} (topic {topic.decode(errors='replace')})")

    def _on_error(self, _: Any, code: int, reason: bytes, __: Any) -> None:
        self._trouble = reason.decode(errors="replace")
        if code == rd.AUTHENTICATION and self._failed is None:
            self._failed = LibraryError(code, self._trouble)

    def _on_log(self, _: Any, level: int, facility: bytes, text: bytes) -> None:
        said = text.decode(errors="replace")
        if facility == b"TXNERR":  # Said nowhere else: messages of a failed transaction are only called purged.
            self._trouble = said
        log.debug("%s %s %s", level, facility.decode(errors="replace"), said)

    def _explained(self, error: LibraryError, topic: str = "") -> TidegateError:
        return explained(error.code, self._where, topic, self._trouble, error.text)
