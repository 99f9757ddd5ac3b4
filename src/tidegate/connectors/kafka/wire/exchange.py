"""Messages sent to many brokers at once, and what became of each: one thread waits for all of them."""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidegate.connectors.kafka.wire.codec import MalformedAnswer
from tidegate.connectors.kafka.wire.pipeline import Pipeline
from tidegate.connectors.kafka.wire.producing import Partition, produce, read_produced
from tidegate.connectors.kafka.wire.requests import Address
from tidegate.connectors.kafka.wire.security import Security

Subject = TypeVar("Subject")

CONNECT_SECONDS_MAX = 3.0
"""It holds up all others."""
ANSWER_SECONDS_MAX = 15.0
"""Longer than a broker waits for its replicas. One that gives no sign of life is asked anew, on another connection."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Subject]):
    """What became of a request."""

    subject: Subject
    codes: Mapping[Partition, int]
    """The broker's answer, partition by partition."""
    lost: str = ""
    """Why there is no answer: the broker may have done what was asked, or not, or may still do it."""


@dataclass(frozen=True, slots=True)
class _Asked(Generic[Subject]):
    correlation: int
    subject: Subject


class _Broker(Generic[Subject]):
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.asked: deque[_Asked[Subject]] = deque()
        self.events = pipeline.events
        self.heard_s = 0.0
        """When it last gave a sign of life, or was asked with nothing else on its way."""


class Exchange(Generic[Subject]):
    """``ask`` and ``wait`` are for one thread, ``wake`` is for any. Every request has one outcome, in order for each broker."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._brokers: dict[Address, _Broker[Subject]] = {}
        self._correlation = 0
        self._lost: list[Outcome[Subject]] = []
        self._selector = selectors.DefaultSelector()
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ)

    def connect(self, address: Address) -> None:
        """Waits for the broker. Raises OSError when it is not to be had."""
        if address not in self._brokers:
            broker = _Broker[Subject](Pipeline(address, self._security, CONNECT_SECONDS_MAX))
            self._brokers[address] = broker
            self._selector.register(broker.pipeline, broker.events, address)

    def ask(
        self,
        address: Address,
        transactional_id: str,
        batches: Mapping[Partition, Sequence[bytes]],
        subject: Subject,
    ) -> None:
        """Does not wait. There must be a connection."""
        broker = self._brokers[address]
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        if not broker.asked:
            broker.heard_s = time.monotonic()
        broker.asked.append(_Asked(self._correlation, subject))
        try:
            broker.pipeline.send(produce(transactional_id, batches, self._correlation))
        except OSError as error:
            self._drop(address, error)

    def wait(self, seconds: float) -> list[Outcome[Subject]]:
        """Until there is an outcome, or somebody wakes it, or the time is over."""
        self._expire()
        for address, broker in self._brokers.items():
            if broker.events != broker.pipeline.events:
                broker.events = broker.pipeline.events
                self._selector.modify(broker.pipeline, broker.events, address)
        outcomes: list[Outcome[Subject]] = []
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

    def _go_on(self, address: Address, events: int, outcomes: list[Outcome[Subject]]) -> None:
        broker = self._brokers[address]
        broker.heard_s = time.monotonic()
        try:
            if events & selectors.EVENT_WRITE:
                broker.pipeline.go_on()
            if events & selectors.EVENT_READ:
                for answer in broker.pipeline.receive():
                    correlation, codes = read_produced(answer)
                    if not broker.asked or broker.asked[0].correlation != correlation:
                        raise MalformedAnswer(f"answer {correlation} to a request that was not made")
                    outcomes.append(Outcome(broker.asked.popleft().subject, codes))
        except (OSError, MalformedAnswer) as error:
            self._drop(address, error)

    def _drop(self, address: Address, error: Exception) -> None:
        """It may also be a connection that nobody needed for long."""
        broker = self._brokers.pop(address)
        self._selector.unregister(broker.pipeline)
        broker.pipeline.close()
        self._lost += [Outcome(asked.subject, {}, f"{address}: {error}") for asked in broker.asked]

    def _expire(self) -> None:
        now_s = time.monotonic()
        for address, broker in list(self._brokers.items()):
            if broker.asked and broker.heard_s + ANSWER_SECONDS_MAX < now_s:
                self._drop(address, TimeoutError(f"no answer for {ANSWER_SECONDS_MAX:g} s"))
