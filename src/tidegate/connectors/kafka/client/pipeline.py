"""A connection on which requests and answers pass each other: neither sending nor receiving waits for the broker."""

from __future__ import annotations

import selectors
import ssl
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress

from tidegate.connectors.kafka.client.connection import ANSWER_BYTES_MAX, Connection
from tidegate.connectors.kafka.client.security import Security
from tidegate.connectors.kafka.protocol.codec import SPARE_BYTES, MalformedAnswer
from tidegate.connectors.kafka.protocol.requests import Address

_LENGTH_BYTES = 4
SENT_PARTS_MAX = 64
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""It would have to wait."""


class Pipeline:
    """Raises OSError when the broker is not to be had: then it is closed and of no more use. Answers come in the order of the
    requests. ``events`` says what its owner has to wait for."""

    def __init__(self, address: Address, security: Security, timeout_s: float) -> None:
        """Waits until the broker has accepted the connection, and the user."""
        self._connection = Connection(address, security, timeout_s)
        self._socket = self._connection.socket
        self._socket.setblocking(False)
        self._encrypted = isinstance(self._socket, ssl.SSLSocket)
        self._unsent: deque[memoryview] = deque()
        self._expect(_LENGTH_BYTES)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def events(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)

    def send(self, parts: Sequence[bytes]) -> None:
        """Takes all of it. What the kernel has no room for is sent when there is some."""
        self._unsent.extend(memoryview(part).cast("B") for part in parts)
        self.go_on()

    def go_on(self) -> None:
        """Sends what there is room for."""
        with suppress(*_NOT_NOW):
            while self._unsent:
                self._sent(self._send_some())

    def receive(self) -> Iterator[memoryview]:
        """Whole answers that are there. Each is the beginning of memory of its own, with ``SPARE_BYTES`` behind it."""
        with suppress(*_NOT_NOW):
            while count := self._socket.recv_into(self._missing):
                self._missing = self._missing[count:]
                if self._missing:
                    continue
                if self._is_length:
                    self._expect(int.from_bytes(self._memory[:_LENGTH_BYTES], "big"), is_length=False)
                else:
                    yield memoryview(self._memory)[:-SPARE_BYTES]
                    self._expect(_LENGTH_BYTES)
            raise ConnectionError(f"{self._connection.address} closed the connection")

    def close(self) -> None:
        self._connection.close()

    def _expect(self, length: int, *, is_length: bool = True) -> None:
        if not 0 < length <= ANSWER_BYTES_MAX:
            raise MalformedAnswer(f"an answer of {length} bytes")
        self._is_length = is_length
        self._memory = bytearray(length + SPARE_BYTES)
        self._missing = memoryview(self._memory)[:length]

    def _send_some(self) -> int:
        if self._encrypted:
            return self._socket.send(self._unsent[0])
        return self._socket.sendmsg([self._unsent[n] for n in range(min(len(self._unsent), SENT_PARTS_MAX))])

    def _sent(self, count: int) -> None:
        while count:
            first = self._unsent.popleft()
            if count < len(first):
                self._unsent.appendleft(first[count:])
                return
            count -= len(first)
