"""Questions to a cluster, whichever of its brokers answers. Asked again, within a time limit, while no broker is to be had."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from tidegate.connectors.kafka.client.connection import Connection
from tidegate.connectors.kafka.client.pauses import Pauses
from tidegate.connectors.kafka.client.security import Security
from tidegate.connectors.kafka.protocol.codec import MalformedAnswer
from tidegate.connectors.kafka.protocol.errors import RETRIABLE, UNAUTHORIZED, Refused
from tidegate.connectors.kafka.protocol.metadata import Metadata, TopicLeaders, api_versions, metadata
from tidegate.connectors.kafka.protocol.requests import Address, Request
from tidegate.model.errors import InvalidQuery, TidegateError, Unavailable

Answer = TypeVar("Answer")
Result = TypeVar("Result")

REQUEST_SECONDS_MAX = 10.0
PATIENCE_SECONDS = 30.0


class Brokers:
    """Connections are kept. Not for several threads at a time."""

    retriable: frozenset[int] = RETRIABLE
    """Error codes after which the same question is asked again."""
    unauthorized: frozenset[int] = UNAUTHORIZED
    """Error codes that mean a missing right. Any other is raised as ``Refused``."""

    def __init__(
        self,
        options: Mapping[str, str],
        patience_s: float = PATIENCE_SECONDS,
        stop: threading.Event | None = None,
        connect_patience_s: float | None = None,
    ) -> None:
        """``stop``: set by another thread, it ends all patience. ``connect_patience_s``: the patience while no broker can be
        connected to, if it is shorter."""
        self.stop = stop or threading.Event()
        self._security = Security.of(options)
        self._bootstrap = addresses(options["bootstrap.servers"])
        self._brokers: tuple[Address, ...] = ()
        """All of the cluster, as one of them said: those that the options name may die one after the other."""
        self._patience_s = patience_s
        self._connect_patience_s = patience_s if connect_patience_s is None else connect_patience_s
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

    def require(self, used: Iterable[tuple[str, int, int]], hint: str) -> None:
        """Raises InvalidQuery when the brokers are too old. ``hint``: which ones are not."""
        for name, version in self.unknown(used):
            raise InvalidQuery(f"the Kafka brokers do not know {name} version {version}", hint=hint)

    def topics(self, names: Iterable[str], *, create: bool = False) -> dict[str, TopicLeaders]:
        """What the cluster knows about them. ``create``: brokers that are set to do so may make them."""
        asked = metadata(tuple(names), create=create)
        found = self._patiently("the leaders of partitions", lambda: self._described(asked))
        return dict(found.topics)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open = {}

    def _described(self, asked: Request[Metadata]) -> Metadata:
        found = self._any(asked)
        self._brokers = tuple(found.brokers.values()) or self._brokers
        return found

    def _patiently(self, what: str, once: Callable[[], Result]) -> Result:
        began = time.monotonic()
        pauses = Pauses()
        while True:
            patience_s = self._patience_s
            try:
                return once()
            except Refused as error:
                if error.code in self.unauthorized:
                    raise self._forbidden(error) from error
                if error.code not in self.retriable:
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
                if not isinstance(error, TimeoutError):
                    patience_s = min(patience_s, self._connect_patience_s)
            pause_s = pauses.next_s()
            if time.monotonic() + pause_s > began + patience_s or self.stop.wait(pause_s):
                raise self._silent(what, trouble) from trouble

    def _forbidden(self, error: Refused) -> TidegateError:
        return InvalidQuery(
            f"the Kafka cluster does not allow it: {error}",
            hint="the user needs the rights Write and Describe on the transactional ids of the query",
        )

    def _silent(self, what: str, trouble: Exception) -> TidegateError:
        return Unavailable(
            f"the Kafka cluster at {self._names()} does not answer ({what}): {trouble}",
            hint="is it up and to be reached from here? See kafka.bootstrap.servers and kafka.security.protocol",
        )

    def _any(self, request: Request[Answer]) -> Answer:
        """What the first broker answers that is to be had: one that did before, one that the options name, any other of the cluster."""
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
