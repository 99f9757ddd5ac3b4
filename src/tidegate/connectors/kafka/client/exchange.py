"""Requests to many brokers at once, and what became of each: one thread waits for all of them."""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidegate.connectors.kafka.client.pipeline import Pipeline
from tidegate.connectors.kafka.client.security import Security
from tidegate.connectors.kafka.protocol.codec import Bytes, MalformedAnswer
from tidegate.connectors.kafka.protocol.requests import Address

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")

CONNECT_SECONDS_MAX = 3.0
"""It holds up all others."""
ANSWER_SECONDS_MAX = 15.0
"""Longer than a broker waits for its replicas. One that gives no sign of life is asked anew, on another connection."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Subject, Answer]):
    """What became of a request."""

    subject: Subject
    answer: Answer | None
    lost: str = ""
    """Why there is no answer: the broker may have done what was asked, or not, or may still do it."""


@dataclass(frozen=True, slots=True)
class _Asked(Generic[Subject, Answer]):
    correlation: int
    subject: Subject
    read: Callable[[Bytes], tuple[int, Answer]]


class _Broker(Generic[Subject, Answer]):
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.asked: deque[_Asked[Subject, Answer]] = deque()
        self.events = pipeline.events
        self.heard_s = 0.0
        """When it last gave a sign of life, or was asked with nothing else on its way."""


class Exchange(Generic[Subject, Answer]):
    """``ask`` and ``wait`` are for one thread, ``wake`` is for any. Every request has one outcome, in order for each broker."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._brokers: dict[Address, _Broker[Subject, Answer]] = {}
        self._correlation = 0
        self._lost: list[Outcome[Subject, Answer]] = []
        self._selector = selectors.DefaultSelector()
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ)

    def connect(self, address: Address) -> None:
        """Waits for the broker. Raises OSError when it is not to be had."""
        if address not in self._brokers:
            broker = _Broker[Subject, Answer](Pipeline(address, self._security, CONNECT_SECONDS_MAX))
            self._brokers[address] = broker
            self._selector.register(broker.pipeline, broker.events, address)

    def is_asked(self, address: Address) -> bool:
        """Whether an answer of this broker is on its way."""
        broker = self._brokers.get(address)
        return broker is not None and bool(broker.asked)

    def ask(
        self,
        address: Address,
        subject: Subject,
        encode: Callable[[int], Sequence[bytes]],
        read: Callable[[Bytes], tuple[int, Answer]],
    ) -> None:
        """Does not wait. There must be a connection. ``encode`` is given the correlation id that ``read`` has to find."""
        broker = self._brokers[address]
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        if not broker.asked:
            broker.heard_s = time.monotonic()
        broker.asked.append(_Asked(self._correlation, subject, read))
        try:
            broker.pipeline.send(encode(self._correlation))
        except OSError as error:
            self._drop(address, error)

    def wait(self, seconds: float) -> list[Outcome[Subject, Answer]]:
        """Until there is an outcome, or somebody wakes it, or the time is over."""
        self._expire()
        for address, broker in self._brokers.items():
            if broker.events != broker.pipeline.events:
                broker.events = broker.pipeline.events
                self._selector.modify(broker.pipeline, broker.events, address)
        outcomes: list[Outcome[Subject, Answer]] = []
        for key, events in self._selector.select(0.0 if self._lost else max(0.0, seconds)):
            if key.fileobj is self._ear:
                self._ear.recv(4_096)
            else:
                self._go_on(key.data, events, outcomes)
        outcomes += self._lost
        self._lost = []
        return outcomes

    def wake(self) -> None:
        with suppress(OSError):  # It is awake or about to be, or closed.
            self._bell.send(b"\0")

    def close(self) -> None:
        """What became of the requests nobody will know."""
        for broker in self._brokers.values():
            broker.pipeline.close()
        self._brokers = {}
        self._selector.close()
        self._bell.close()
        self._ear.close()

    def _go_on(self, address: Address, events: int, outcomes: list[Outcome[Subject, Answer]]) -> None:
        broker = self._brokers[address]
        broker.heard_s = time.monotonic()
        try:
            if events & selectors.EVENT_WRITE:
                broker.pipeline.go_on()
            if events & selectors.EVENT_READ:
                for data in broker.pipeline.receive():
                    if not broker.asked:
                        raise MalformedAnswer("an answer to a request that was not made")
                    correlation, answer = broker.asked[0].read(data)
                    if broker.asked[0].correlation != correlation:
                        raise MalformedAnswer(f"answer {correlation} to a request that was not made")
                    outcomes.append(Outcome(broker.asked.popleft().subject, answer))
        except (OSError, MalformedAnswer) as error:
            self._drop(address, error)

    def _drop(self, address: Address, error: Exception) -> None:
        """It may also be a connection that nobody needed for long."""
        broker = self._brokers.pop(address)
        self._selector.unregister(broker.pipeline)
        broker.pipeline.close()
        self._lost += [Outcome(asked.subject, None, f"{address}: {error}") for asked in broker.asked]

    def _expire(self) -> None:
        now_s = time.monotonic()
        for address, broker in list(self._brokers.items()):
            if broker.asked and broker.heard_s + ANSWER_SECONDS_MAX < now_s:
                self._drop(address, TimeoutError(f"no answer for {ANSWER_SECONDS_MAX:g} s"))
