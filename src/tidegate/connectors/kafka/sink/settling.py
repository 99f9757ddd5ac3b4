"""Transactions that get no more rows and whose rows are still on their way: waited for in the background."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.connectors.kafka.sink.transaction import Transaction, Workshop, check_open
from tidegate.model.errors import TidegateError
from tidegate.model.ids import CheckpointId


@dataclass(frozen=True, slots=True)
class _Sealed:
    transaction: Transaction
    checkpoint: CheckpointId


class Settling:
    """Sealed by the thread that writes, settled by another, in order. A failure is final: whoever writes on hears of it."""

    def __init__(self, wire: Transactions, workshop: Workshop, stop: threading.Event) -> None:
        """``wire`` is used by the thread that settles alone. ``stop``: ends all waiting."""
        self._wire = wire
        self._workshop = workshop
        self._stop = stop
        self._sealed: deque[_Sealed] = deque()
        self._settling = threading.Lock()
        self._failure: TidegateError | None = None

    def seal(self, transaction: Transaction, checkpoint: CheckpointId) -> None:
        """It gets no more rows; its producer belongs to the other thread now."""
        self._sealed.append(_Sealed(transaction, checkpoint))

    def settle(self, checkpoint: CheckpointId) -> None:
        """Returns when brokers have all rows of the transactions up to this checkpoint, and hold each of them open."""
        with self._settling:
            self.raise_failure()
            try:
                while self._sealed and self._sealed[0].checkpoint <= checkpoint:
                    transaction = self._sealed[0].transaction
                    transaction.producer.flush(stop=self._stop)
                    check_open(transaction, self._wire)
                    self._sealed.popleft()
                    self._workshop.retire(transaction)
            except TidegateError as failure:
                self._failure = failure
                raise

    def raise_failure(self) -> None:
        """Rows of a sealed transaction did not arrive: nothing that is written after them can be part of a checkpoint."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> list[Transaction]:
        """Those that are not settled, which no checkpoint can name. ``stop`` must be set: nobody waits any more then."""
        with self._settling:
            left = [one.transaction for one in self._sealed]
            self._sealed.clear()
            self._wire.close()
            return left
