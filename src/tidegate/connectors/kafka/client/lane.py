"""Messages of one producer for one partition, on their way: in order, each batch sent until a broker has it.

Brokers keep no order between transactions: so a lane has its turn when they have everything of the lane before it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from tidegate.connectors.kafka.client.pauses import Pauses
from tidegate.connectors.kafka.protocol.compression import UNCOMPRESSED, Compression
from tidegate.connectors.kafka.protocol.record_batch import (
    HEAD_BYTES,
    LARGE_BYTES,
    OVERHEAD_BYTES_MAX,
    Array,
    Messages,
    RecordBatch,
    record_batch,
    sequence_after,
    together,
)
from tidegate.connectors.kafka.protocol.transactions import Handle

IN_FLIGHT_MAX = 5
"""More than that a broker does not remember, and could not tell a batch from its repetition."""


@dataclass(eq=False, slots=True)
class _Sent:
    batch: RecordBatch
    lost: bool = False


class Lane:
    """Brokers take batches of a lane in the order of their numbers only: whatever comes after one that was lost is sent again."""

    def __init__(
        self,
        handle: Handle,
        topic: str,
        partition: int,
        batch_bytes_max: int,
        behind: Lane | None = None,
        compression: Compression = UNCOMPRESSED,
    ) -> None:
        """``behind``: that of the transaction before, into the same partition."""
        self.place = topic, partition
        self.is_added = False
        """Whether the coordinator knows that the transaction writes here."""
        self._is_known = False
        """Whether a broker has something of it."""
        self._behind = behind
        self._is_ended = False
        """It gets no more messages."""
        if behind is not None:
            behind._is_ended = True
        self._handle = handle
        self._compression = compression
        self._batch_bytes = min(batch_bytes_max, LARGE_BYTES) - HEAD_BYTES
        self._sequence = 0
        self._unmade: deque[tuple[Messages, Array]] = deque()
        """Messages, and at which byte each would end."""
        self._unmade_bytes = 0
        self._again: deque[RecordBatch] = deque()
        self._sent: deque[_Sent] = deque()
        self._may_send_s = 0.0
        self._pauses = Pauses()

    def put(self, messages: Messages) -> None:
        ends = np.cumsum(messages.sizes() + OVERHEAD_BYTES_MAX)
        self._unmade.append((messages, ends))
        self._unmade_bytes += int(ends[-1])

    @property
    def is_idle(self) -> bool:
        return not (self._unmade or self._again or self._sent)

    @property
    def has_turn(self) -> bool:
        """Brokers have everything that was written to the partition before."""
        if self._behind is not None and self._behind.is_idle:
            self._behind = None
        return self._behind is None

    def wants(self, now_s: float) -> bool:
        """Whether a batch should be sent, once the lane has its turn. While some are on their way messages gather: full batches cost
        least, and with nothing on its way nothing is gained by waiting."""
        if now_s < self._may_send_s or len(self._sent) >= self._in_flight_max or self.is_recovering:
            return False
        if self._again or self._unmade_bytes >= self._batch_bytes:
            return True
        return bool(self._unmade) and (self._is_ended or not self._sent)

    def wakes_s(self, now_s: float) -> float | None:
        """When there may be something to do though nothing happens."""
        return self._may_send_s if now_s < self._may_send_s and not self.is_idle else None

    def send(self, now_ms: int) -> RecordBatch:
        """The next one: it counts as sent."""
        batch = self._again.popleft() if self._again else self._make(now_ms)
        self._sent.append(_Sent(batch))
        return batch

    def taken(self, batch: RecordBatch) -> None:
        """A broker has it."""
        self._is_known = True
        self._sent.remove(self._find(batch))
        self._pauses.begin_again()
        self._recover()

    def lost(self, batch: RecordBatch, now_s: float) -> None:
        """No broker has it, or nobody knows. Sent again once it is known what became of those behind it."""
        self._find(batch).lost = True
        self.pause(now_s)
        self._recover()

    def pause(self, now_s: float) -> None:
        if now_s >= self._may_send_s:
            self._may_send_s = now_s + self._pauses.next_s()

    @property
    def is_recovering(self) -> bool:
        """One was lost: that those behind it came out of order is no surprise."""
        return any(one.lost for one in self._sent)

    @property
    def _in_flight_max(self) -> int:
        """The first batch travels alone: from a producer that they do not know brokers take any number, so that one that comes just
        when a broker begins to lead the partition would be taken after the first one was refused, and the first one never."""
        return IN_FLIGHT_MAX if self._is_known else 1

    def _recover(self) -> None:
        if self._sent and all(one.lost for one in self._sent):
            self._again.extendleft(one.batch for one in reversed(self._sent))
            self._sent.clear()

    def _find(self, batch: RecordBatch) -> _Sent:
        return next(one for one in self._sent if one.batch is batch)

    def _make(self, now_ms: int) -> RecordBatch:
        parts: list[Messages] = []
        room = self._batch_bytes
        while self._unmade:
            messages, ends = self._unmade[0]
            size = int(ends[-1])
            fit = len(messages) if size <= room else int(np.searchsorted(ends, room, "right"))
            if not fit and not parts:
                fit = 1  # larger than a batch should be: it goes alone
            if fit:
                parts.append(messages.slice(0, fit))
            self._unmade.popleft()
            if fit < len(messages):
                done = int(ends[fit - 1]) if fit else 0
                self._unmade.appendleft((messages.slice(fit), ends[fit:] - done))
                self._unmade_bytes -= done
                break
            self._unmade_bytes -= size
            room -= size
        batch = record_batch(together(parts), self._handle, self._sequence, now_ms, self._compression)
        self._sequence = sequence_after(self._sequence, batch.count)
        return batch
