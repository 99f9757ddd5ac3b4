"""Requests and their answers. Each is fixed to one version: brokers from 3.0 on know them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidegate.connectors.kafka.wire.codec import (
    NO_TAGS,
    Bytes,
    Reader,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    plain_bytes,
    plain_string,
    string,
    varint,
)

Answer = TypeVar("Answer")

CLIENT_ID = "tidegate"
GROUP, TRANSACTION = 0, 1
"""The kinds of keys that FindCoordinator looks for."""


def request_header(api_key: int, version: int, correlation: int) -> bytes:
    return int16(api_key) + int16(version) + int32(correlation) + plain_string(CLIENT_ID)


@dataclass(frozen=True, slots=True)
class Request(Generic[Answer]):
    """One message and how to read what comes back."""

    name: str
    api_key: int
    version: int
    body: bytes
    read: Callable[[Reader], Answer]
    flexible: bool = True

    def encode(self, correlation: int) -> bytes:
        """Header, body, and the length of both in front."""
        header = request_header(self.api_key, self.version, correlation)
        tags = NO_TAGS if self.flexible else b""
        message = header + tags + self.body + tags
        return int32(len(message)) + message

    def decode(self, data: Bytes) -> tuple[int, Answer]:
        """The correlation id and the answer."""
        reader = Reader(data)
        correlation = reader.int32()
        if self.flexible:
            reader.skip_tags()
        return correlation, self.read(reader)


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Who keeps a transactional id or a consumer group, or why nobody knows."""

    error: int
    address: Address


@dataclass(frozen=True, slots=True)
class Initialised:
    """The answer to InitProducerId."""

    error: int
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Described:
    """One transactional id, as its coordinator sees it."""

    error: int
    transactional_id: str
    state: str
    timeout_ms: int
    producer_id: int
    epoch: int
    partitions: tuple[tuple[str, int], ...]
    """What the open transaction has written to."""


@dataclass(frozen=True, slots=True)
class Listed:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class Listing:
    error: int
    transactions: tuple[Listed, ...]


@dataclass(frozen=True, slots=True)
class SaslAnswer:
    error: int
    message: str
    data: bytes = b""
    mechanisms: tuple[str, ...] = ()


def find_coordinator(key: str, kind: int = TRANSACTION) -> Request[Coordinator]:
    def read(reader: Reader) -> Coordinator:
        reader.int32()  # how long we were throttled
        if reader.length() != 1:
            return Coordinator(-1, Address("", 0))
        reader.text()
        reader.int32()
        host, port, error = reader.text(), reader.int32(), reader.int16()
        return Coordinator(error, Address(host, port))

    return Request("FindCoordinator", 10, 4, int8(kind) + array((string(key),)), read)


def end_transaction(transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> Request[int]:
    """Version 3 leaves the epoch alone, so the same request again finds the same transaction, ended."""

    def read(reader: Reader) -> int:
        reader.int32()
        return reader.int16()

    body = string(transactional_id) + int64(producer_id) + int16(epoch) + boolean(commit)
    return Request("EndTxn", 26, 3, body, read)


def init_producer_id(transactional_id: str, timeout_ms: int) -> Request[Initialised]:
    """Fences whoever held the id, and aborts the transaction it has open."""

    def read(reader: Reader) -> Initialised:
        reader.int32()
        return Initialised(reader.int16(), reader.int64(), reader.int16())

    return Request("InitProducerId", 22, 3, string(transactional_id) + int32(timeout_ms) + int64(-1) + int16(-1), read)


def describe_transaction(transactional_id: str) -> Request[Described]:
    def read(reader: Reader) -> Described:
        reader.int32()
        if reader.length() != 1:
            return Described(-1, transactional_id, "", 0, -1, -1, ())
        error, name, state = reader.int16(), reader.text(), reader.text()
        timeout_ms = reader.int32()
        reader.int64()  # when it began
        producer_id, epoch = reader.int64(), reader.int16()
        partitions: list[tuple[str, int]] = []
        for _ in range(reader.length()):
            topic = reader.text()
            partitions += [(topic, reader.int32()) for _ in range(reader.length())]
            reader.skip_tags()
        return Described(error, name, state, timeout_ms, producer_id, epoch, tuple(partitions))

    return Request("DescribeTransactions", 65, 0, array((string(transactional_id),)), read)


def list_transactions(states: tuple[str, ...]) -> Request[Listing]:
    """Those that the asked broker coordinates, in one of these states."""

    def read(reader: Reader) -> Listing:
        reader.int32()
        error = reader.int16()
        for _ in range(reader.length()):
            reader.text()  # states that this broker does not know
        found: list[Listed] = []
        for _ in range(reader.length()):
            found.append(Listed(reader.text(), reader.int64(), reader.text()))
            reader.skip_tags()
        return Listing(error, tuple(found))

    nobody_in_particular = varint(1)
    return Request(
        "ListTransactions", 66, 0, array(tuple(string(state) for state in states)) + nobody_in_particular, read
    )


def brokers() -> Request[tuple[Address, ...]]:
    """All brokers that are up: Metadata without topics."""

    def read(reader: Reader) -> tuple[Address, ...]:
        reader.int32()
        found: list[Address] = []
        for _ in range(reader.length()):
            reader.int32()
            found.append(Address(reader.text(), reader.int32()))
            reader.string()  # its rack
            reader.skip_tags()
        return tuple(found)

    no_topics, nothing_created, no_rights = varint(1), boolean(False), boolean(False) + boolean(False)
    return Request("Metadata", 3, 9, no_topics + nothing_created + no_rights, read)


def api_versions() -> Request[dict[int, tuple[int, int]]]:
    """What the broker speaks: lowest and highest version by API key. Every broker understands version 0 of this one."""

    def read(reader: Reader) -> dict[int, tuple[int, int]]:
        reader.int16()
        return {reader.int16(): (reader.int16(), reader.int16()) for _ in range(reader.plain_length())}

    return Request("ApiVersions", 18, 0, b"", read, flexible=False)


def sasl_handshake(mechanism: str) -> Request[SaslAnswer]:
    def read(reader: Reader) -> SaslAnswer:
        error = reader.int16()
        known = tuple(reader.plain_string() or "" for _ in range(reader.plain_length()))
        return SaslAnswer(error, "", mechanisms=known)

    return Request("SaslHandshake", 17, 1, plain_string(mechanism), read, flexible=False)


def sasl_authenticate(data: bytes) -> Request[SaslAnswer]:
    def read(reader: Reader) -> SaslAnswer:
        return SaslAnswer(reader.int16(), reader.plain_string() or "", reader.plain_bytes())

    return Request("SaslAuthenticate", 36, 0, plain_bytes(data), read, flexible=False)


USED = tuple(
    (request.name, request.api_key, request.version)
    for request in (
        find_coordinator(""),
        end_transaction("", 0, 0, commit=True),
        init_producer_id("", 0),
        describe_transaction(""),
        list_transactions(()),
        brokers(),
    )
)
"""What a broker must know for the exactly-once sink: name, API key, version."""
