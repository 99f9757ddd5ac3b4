"""Questions to a cluster, whichever of its brokers answers. Asked again, within a time limit, while no broker is to be had."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from tidegate.connectors.kafka.wire.codec import MalformedAnswer
from tidegate.connectors.kafka.wire.connection import Connection
from tidegate.connectors.kafka.wire.errors import RETRIABLE, UNAUTHORIZED, Refused
from tidegate.connectors.kafka.wire.pauses import Pauses
from tidegate.connectors.kafka.wire.producing import Topic, topics
from tidegate.connectors.kafka.wire.requests import Address, Request, api_versions
from tidegate.connectors.kafka.wire.security import Security
from tidegate.model.errors import InvalidQuery, Unavailable

Answer = TypeVar("Answer")
Result = TypeVar("Result")

REQUEST_SECONDS_MAX = 10.0
PATIENCE_SECONDS = 30.0


class Brokers:
    """Connections are kept. Not for several threads at a time."""

    def __init__(
        self, options: Mapping[str, str], patience_s: float = PATIENCE_SECONDS, stop: threading.Event | None = None
    ) -> None:
        """``options`` as librdkafka gets them. ``stop``: set by another thread, it ends all patience."""
        self.stop = stop or threading.Event()
        self._security = Security.of(options)
        self._bootstrap = addresses(options["bootstrap.servers"])
        self._brokers: tuple[Address, ...] = ()
        """All of the cluster, as one of them said: those that the options name may die one after the other."""
        self._patience_s = patience_s
        self._open: dict[Address, Connection] = {}

    def unknown(self, used: Iterable[tuple[str, int, int]]) -> list[tuple[str, int]]:
        """Names and versions of requests that these brokers do not know. ``used``: name, API key, version."""
        spoken = self._patiently("the versions it speaks", lambda: self._any(api_versions()))
        nothing = (0, -1)
        return [
            (name, version)
            for name, key, version in used
            if not spoken.get(key, nothing)[0] <= version <= spoken.get(key, nothing)[1]
        ]

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """What the cluster knows about them."""
        asked = topics(tuple(names))
        found = self._patiently("the leaders of partitions", lambda: self._any(asked))
        leaders = (leader for topic in found.values() for leader in topic.leaders.values() if leader is not None)
        self._brokers = tuple(dict.fromkeys((*self._brokers, *leaders)))
        return found

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open = {}

    def _patiently(self, what: str, once: Callable[[], Result]) -> Result:
        until = time.monotonic() + self._patience_s
        pauses = Pauses()
        while True:
            try:
                return once()
            except Refused as error:
                if error.code in UNAUTHORIZED:
                    raise InvalidQuery(
                        f"the Kafka cluster does not allow it: {error}",
                        hint="the user needs the rights Write and Describe on the transactional ids of the query",
                    ) from error
                if error.code not in RETRIABLE:
                    raise
                trouble: Exception = error
            except MalformedAnswer as error:
                self.close()
                raise Unavailable(
                    f"what answers at {self._names()} does not speak Kafka's protocol: {error}",
                    hint="see kafka.bootstrap.servers and kafka.security.protocol",
                ) from error
            except OSError as error:
                trouble = error
            pause_s = pauses.next_s()
            if time.monotonic() + pause_s > until or self.stop.wait(pause_s):
                raise Unavailable(
                    f"the Kafka cluster at {self._names()} does not answer ({what}): {trouble}",
                    hint="is it up and to be reached from here? See kafka.bootstrap.servers and kafka.security.protocol",
                ) from trouble

    def _any(self, request: Request[Answer]) -> Answer:
        """Of the first broker that answers: one that did before, one that the options name, any other of the cluster."""
        trouble: OSError | None = None
        for address in dict.fromkeys((*self._open, *self._bootstrap, *self._brokers)):
            try:
                return self._ask(address, request)
            except OSError as error:
                trouble = error
        raise trouble or ConnectionError("kafka.bootstrap.servers is empty")

    def _ask(self, address: Address, request: Request[Answer]) -> Answer:
        return self._ask_all(address, (request,))[0]

    def _ask_all(self, address: Address, requests: Sequence[Request[Answer]]) -> list[Answer]:
        connection = self._open.get(address)
        if connection is not None:
            try:
                return connection.ask_all(requests)
            except OSError:
                # It was idle for long and the broker closed it: each request may be asked twice, so a new one is tried at once.
                self._drop(address)
        try:
            connection = Connection(address, self._security, min(REQUEST_SECONDS_MAX, self._patience_s))
            self._open[address] = connection
            return connection.ask_all(requests)
        except OSError:
            self._drop(address)
            raise

    def _drop(self, address: Address) -> None:
        if (connection := self._open.pop(address, None)) is not None:
            connection.close()

    def _names(self) -> str:
        return ",".join(map(str, self._bootstrap))


def addresses(bootstrap: str) -> tuple[Address, ...]:
    """``host:port,host:port``; a port left out is 9092."""
    found: list[Address] = []
    for part in (text.strip().rsplit("://", 1)[-1] for text in bootstrap.split(",") if text.strip()):
        host, colon, port = part.rpartition(":")
        if not colon:
            host, port = part, "9092"
        if not host or not port.isdigit():
            raise InvalidQuery(
                f"option 'kafka.bootstrap.servers' holds {part!r}", hint="it names brokers as host:port,host:port"
            )
        found.append(Address(host.strip("[]"), int(port)))
    return tuple(found)
