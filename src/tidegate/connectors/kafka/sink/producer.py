"""Takes whole frames of rows and gives them to the sender as messages, partition by partition."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

import numpy as np
import polars as pl

from tidegate.connectors.kafka.client.refusals import closed_meanwhile, explained, no_such_partition, nothing_taken
from tidegate.connectors.kafka.client.sender import Sender
from tidegate.connectors.kafka.protocol.errors import Code
from tidegate.connectors.kafka.protocol.headers import HeaderWithoutKey
from tidegate.connectors.kafka.protocol.partitioner import partitions_of
from tidegate.connectors.kafka.protocol.record_batch import Array, Messages
from tidegate.connectors.kafka.protocol.requests import Address
from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.connectors.kafka.sink.columns import MessageColumns
from tidegate.connectors.kafka.sink.producer_settings import ProducerSettings
from tidegate.model.errors import DataError

SLICE_ROWS = 32_768
"""So many are looked at at once: then they are still in the processor's cache when they are sorted."""
LOOK_SECONDS = 0.05
"""How often those who wait look whether they should stop."""
PATIENCE_SECONDS = 30.0
"""How long brokers may take nothing before the attempt is given up (and started again)."""
TOPICS_REMEMBERED = 64


class Producer:
    """Writes under one handle: one transaction, or all that a writer without transactions writes. Not for several threads at once.

    What brokers refuse is remembered and raised by the next call: nothing after it counts as written.
    """

    def __init__(self, sender: Sender, handle: Handle, columns: MessageColumns, settings: ProducerSettings) -> None:
        self._sender = sender
        self._columns = columns
        self._settings = settings
        batch_bytes_max = min(settings.message_bytes_max, settings.batch_bytes_max)
        self._delivery = sender.open(handle, batch_bytes_max, settings.compression)
        self._written: dict[str, None] = {}

    def learn(self, topics: Iterable[str]) -> None:
        """Asks in the background where the topics lie, so that the first message need not wait for it."""
        self._sender.leaders.doubt(topic for topic in topics if self._sender.leaders.partitions(topic) is None)
        self._sender.wake()

    def produce(self, rows: pl.DataFrame) -> None:
        """Hands the rows over. Waits while too much is not sent, up to ``PATIENCE_SECONDS`` without any progress."""
        for topic, part in self._columns.by_topic(rows):
            self._written[topic] = None
            partitions = self._partitions(topic)
            for some in part.iter_slices(SLICE_ROWS):
                self._await(lambda: self._has_room)
                self._give(topic, some, partitions)
        self._raise_failure()

    def flush(self, patience_s: float = PATIENCE_SECONDS, stop: threading.Event | None = None) -> None:
        """Returns when brokers have everything. ``stop``: ends the waiting, from another thread."""
        self._await(lambda: not self._delivery.messages, patience_s, stop)

    @property
    def topics(self) -> tuple[str, ...]:
        """Those written to, the latest ones."""
        return tuple(self._written)[-TOPICS_REMEMBERED:]

    def close(self) -> None:
        """Forgets what is not written yet. A transaction stays as it is."""
        self._sender.forget(self._delivery)

    def _give(self, topic: str, rows: pl.DataFrame, partitions: Mapping[int, Address | None]) -> None:
        columns = self._columns
        messages = self._messages(rows)
        if int(messages.sizes().max(initial=0)) > self._settings.message_bytes_max:
            raise explained(Code.MESSAGE_TOO_LARGE, self._sender.where, topic)
        led = np.array([number for number, leader in partitions.items() if leader is not None])
        chosen = partitions_of(
            rows,
            len(partitions),
            led,
            has_key=columns.has_key,
            has_partition=columns.has_partition,
            by=self._settings.partitioner,
        )
        if columns.has_partition and len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(partitions):
            if len(grown := self._partitions(topic, again=True)) > len(partitions):
                self._give(topic, rows, grown)
                return
            raise no_such_partition(self._sender.where, topic)
        for partition, some in _by_partition(messages, chosen):
            self._delivery.give((topic, partition), some)
        self._sender.wake()

    def _messages(self, rows: pl.DataFrame) -> Messages:
        try:
            return Messages.of(rows, has_key=self._columns.has_key, has_headers=self._columns.has_headers)
        except HeaderWithoutKey:
            raise DataError(
                "a header of a row for Kafka has no key: its field 'key' is null", hint="filter such headers"
            ) from None

    def _partitions(self, topic: str, *, again: bool = False) -> Mapping[int, Address | None]:
        """The partitions of the topic, once the cluster has said where they lie. ``again``: what it says now, not what it said before."""
        leaders = self._sender.leaders
        known = leaders.partitions(topic)
        if known is None or again:
            leaders.doubt((topic,))
            self._sender.wake()
            self._await(lambda: leaders.partitions(topic) is not None and not leaders.doubts(topic))
            known = leaders.partitions(topic)
        assert known is not None
        return known

    @property
    def _has_room(self) -> bool:
        delivery = self._delivery
        settings = self._settings
        return delivery.messages <= settings.unsent_rows_max and delivery.size_bytes <= settings.unsent_bytes_max

    def _await(
        self, done: Callable[[], bool], patience_s: float = PATIENCE_SECONDS, stop: threading.Event | None = None
    ) -> None:
        """Any message that arrived renews the patience: of this transaction, or of one before it, for which this one has to wait."""
        with self._sender.changed:
            until_s, left = time.monotonic() + patience_s, self._sender.left(self._delivery)
            while True:
                self._raise_failure()
                if done():
                    return
                if stop is not None and stop.is_set():
                    raise closed_meanwhile()
                if (now := self._sender.left(self._delivery)) < left:
                    until_s, left = time.monotonic() + patience_s, now
                elif time.monotonic() > until_s:
                    raise nothing_taken(self._sender.where, left, patience_s, self._sender.trouble)
                self._sender.changed.wait(LOOK_SECONDS)

    def _raise_failure(self) -> None:
        if self._delivery.failure is not None:
            raise self._delivery.failure


def _by_partition(messages: Messages, chosen: Array) -> list[tuple[int, Messages]]:
    """Messages of one partition keep their order."""
    if not len(chosen):
        return []
    first = int(chosen[0])
    if (chosen == first).all():
        return [(first, messages)]
    order = np.argsort(chosen.astype(np.int32), kind="stable")
    ordered = chosen[order]
    cuts = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(ordered)]
    return [(int(ordered[begin]), messages.take(order[begin:end])) for begin, end in pairwise(cuts)]
