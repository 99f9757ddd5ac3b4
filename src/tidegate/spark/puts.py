"""Several objects on their way to the store at the same time, within a bound on their bytes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.model.errors import TidegateError
from tidegate.state.encoded import Encoded

BYTES_AT_ONCE_MAX = 512 << 20
"""Encoded state that waits or travels; one object may be larger, alone."""

STOPPED = "the slot leaves"


@dataclass(slots=True)
class Batch:
    """Puts that are waited for together. ``names``: of all that were begun, landed or not."""

    names: list[str] = field(default_factory=list)
    open: int = 0
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Put:
    batch: Batch
    name: str
    data: Encoded


class ParallelPuts:
    """Threads are started as they are needed, at most ``threads_max``. Puts begin in the order they came."""

    def __init__(self, put: Callable[[str, Encoded], None], threads_max: int, name: str) -> None:
        """``put`` stores one object; it may be called by several threads at once."""
        self._put = put
        self._threads_max = threads_max
        self._name = name
        self._changed = threading.Condition()
        self._waiting: deque[_Put] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._bytes = 0
        self._stopped = False

    def begin(self, batch: Batch, name: str, data: Encoded) -> None:
        """Returns as soon as there is room for the bytes: the object is stored meanwhile. After a failure of the batch it is not."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._has_room(data.size_bytes))
            if self._stopped:
                batch.failure = batch.failure or InterruptedError(STOPPED)
            if batch.failure is not None:
                return
            batch.names.append(name)
            batch.open += 1
            self._bytes += data.size_bytes
            self._waiting.append(_Put(batch, name, data))
            if self._idle < len(self._waiting) and len(self._threads) < self._threads_max:
                number = len(self._threads)
                thread = threading.Thread(target=self._run, name=f"{self._name}-{number}", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()

    def settle(self, batch: Batch) -> Exception | None:
        """Waits until none of the batch is under way any more. What failed first, or None: all are stored."""
        with self._changed:
            self._changed.wait_for(lambda: not batch.open)
            return batch.failure

    def stop(self) -> None:
        """No thread takes up anything new; ``join`` waits for them."""
        with self._changed:
            self._stopped = True
            for left in self._waiting:
                self._done(left, InterruptedError(STOPPED))
            self._waiting.clear()
            self._changed.notify_all()

    def join(self, timeout_s: float) -> bool:
        """Whether all threads have ended."""
        for thread in self._threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                self._idle -= 1
                if not self._waiting:
                    return
                put = self._waiting.popleft()
            failure: Exception | None = None
            if put.batch.failure is None:
                try:
                    self._put(put.name, put.data)
                except Exception as error:  # noqa: BLE001  whatever went wrong, whoever waits must hear of it
                    failure = error
            with self._changed:
                self._done(put, failure)
                self._changed.notify_all()

    def _has_room(self, size_bytes: int) -> bool:
        return not self._bytes or self._bytes + size_bytes <= BYTES_AT_ONCE_MAX

    def _done(self, put: _Put, failure: Exception | None) -> None:
        put.batch.open -= 1
        put.batch.failure = put.batch.failure or failure
        self._bytes -= put.data.size_bytes


def reason_of(failure: Exception) -> str:
    return str(failure) if isinstance(failure, TidegateError) else f"{type(failure).__name__}: {failure}"
