"""Requests about transactions, also those of processes that are dead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.connectors.kafka.protocol.codec import (
    NO_TAGS,
    Reader,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    varint,
)
from tidegate.connectors.kafka.protocol.metadata import Partition, by_topic, find_coordinator, metadata
from tidegate.connectors.kafka.protocol.requests import Request

OPEN_STATES = ("Ongoing",)
"""A transaction with records that nobody has ended or is ending."""
EVERY_STATE: tuple[str, ...] = ()
"""Brokers that are asked for no state in particular name all ids."""
_NO_ID = varint(0)
"""A null string: a producer without transactions."""


@dataclass(frozen=True, slots=True)
class Handle:
    """Names one transaction, and no other, for as long as the id is not initialised again. An empty id: a producer without transactions."""

    transactional_id: str
    producer_id: int
    epoch: int

    @property
    def is_transactional(self) -> bool:
        return bool(self.transactional_id)


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
    partitions: tuple[Partition, ...]
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


def end_transaction(transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> Request[int]:
    """Version 3 leaves the epoch alone, so the same request again finds the same transaction, ended."""

    def read(reader: Reader) -> int:
        reader.int32()
        return reader.int16()

    body = string(transactional_id) + int64(producer_id) + int16(epoch) + boolean(commit)
    return Request("EndTxn", 26, 3, body, read)


def init_producer_id(transactional_id: str, timeout_ms: int) -> Request[Initialised]:
    """Fences the producer that held the id, and aborts the transaction it has open. An empty id: a new producer without transactions."""

    def read(reader: Reader) -> Initialised:
        reader.int32()
        return Initialised(reader.int16(), reader.int64(), reader.int16())

    name = string(transactional_id) if transactional_id else _NO_ID
    return Request("InitProducerId", 22, 3, name + int32(timeout_ms) + int64(-1) + int16(-1), read)


def describe_transaction(transactional_id: str) -> Request[Described]:
    def read(reader: Reader) -> Described:
        reader.int32()
        if reader.length() != 1:
            return Described(-1, transactional_id, "", 0, -1, -1, ())
        error, name, state = reader.int16(), reader.text(), reader.text()
        timeout_ms = reader.int32()
        reader.int64()  # when it began
        producer_id, epoch = reader.int64(), reader.int16()
        partitions: list[Partition] = []
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


def add_partitions(
    transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[Partition]
) -> Request[dict[Partition, int]]:
    """The transaction is going to write there. Answers with an error code for each."""

    def read(reader: Reader) -> dict[Partition, int]:
        reader.int32()
        found: dict[Partition, int] = {}
        for _ in range(reader.length()):
            topic = reader.text()
            for _ in range(reader.length()):
                number = reader.int32()
                found[topic, number] = reader.int16()
                reader.skip_tags()
            reader.skip_tags()
        return found

    wanted = tuple(
        string(topic) + array(tuple(int32(number) for _, number in numbers)) + NO_TAGS
        for topic, numbers in by_topic(partitions)
    )
    body = string(transactional_id) + int64(producer_id) + int16(epoch) + array(wanted)
    return Request("AddPartitionsToTxn", 24, 3, body, read)


USED = tuple(
    (request.name, request.api_key, request.version)
    for request in (
        find_coordinator(""),
        end_transaction("", 0, 0, commit=True),
        init_producer_id("", 0),
        describe_transaction(""),
        list_transactions(()),
        metadata(()),
        add_partitions("", 0, 0, ()),
    )
)
"""What a broker must know for transactions: name, API key, version."""
USED_WITHOUT = tuple((one.name, one.api_key, one.version) for one in (init_producer_id("", 0), metadata(())))
"""What a broker must know for a producer without transactions."""
