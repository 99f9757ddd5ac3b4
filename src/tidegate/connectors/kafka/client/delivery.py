"""What one producer has given to the sender and brokers do not have yet: shared by the thread that writes and the one that sends."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import MutableMapping

from tidegate.connectors.kafka.client.lane import Lane
from tidegate.connectors.kafka.protocol.compression import UNCOMPRESSED, Compression
from tidegate.connectors.kafka.protocol.metadata import Partition
from tidegate.connectors.kafka.protocol.record_batch import Messages, RecordBatch
from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.model.errors import TidegateError


class Delivery:
    """Counters and the failure are guarded by ``changed``, which is notified with each change. Lanes belong to the sender."""

    def __init__(
        self,
        handle: Handle,
        batch_bytes_max: int,
        changed: threading.Condition,
        compression: Compression = UNCOMPRESSED,
    ) -> None:
        self.handle = handle
        self.changed = changed
        self.lanes: dict[Partition, Lane] = {}
        self.messages = 0
        """Without an acknowledgement."""
        self.size_bytes = 0
        """Bytes of those messages."""
        self.failure: TidegateError | None = None
        self._batch_bytes_max = batch_bytes_max
        self._compression = compression
        self._given: deque[tuple[Partition, Messages]] = deque()

    def give(self, place: Partition, messages: Messages) -> None:
        with self.changed:
            self._given.append((place, messages))
            self.messages += len(messages)
            self.size_bytes += int(messages.sizes().sum())

    def accept(self, newest: MutableMapping[Partition, Lane]) -> None:
        """Into the lanes; called by the sender. ``newest``: by partition, of all deliveries."""
        while self._given:
            place, messages = self._given.popleft()
            if (lane := self.lanes.get(place)) is None:
                behind = newest.get(place)
                lane = Lane(self.handle, *place, self._batch_bytes_max, behind, self._compression)
                self.lanes[place] = newest[place] = lane
            lane.put(messages)

    def taken(self, batch: RecordBatch) -> None:
        """A broker has it; called by the sender."""
        with self.changed:
            self.messages -= batch.count
            self.size_bytes -= batch.content_bytes
            self.changed.notify_all()

    def fail(self, failure: TidegateError) -> None:
        """Nothing more is sent: only the first failure says why."""
        with self.changed:
            self.failure = self.failure or failure
            self.changed.notify_all()
