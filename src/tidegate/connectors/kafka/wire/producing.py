"""Requests of a producer: where partitions lie, what a transaction writes to, and the messages themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tidegate.connectors.kafka.wire.codec import (
    NO_TAGS,
    Bytes,
    Reader,
    array,
    boolean,
    int16,
    int32,
    int64,
    plain_string,
    string,
)
from tidegate.connectors.kafka.wire.requests import Address, Request, request_header

Partition = tuple[str, int]
"""Topic and number."""

ACKNOWLEDGE_MS = 10_000
"""How long a broker may wait for the other replicas."""
_ALL_REPLICAS = -1
_PRODUCE, _PRODUCE_VERSION = 0, 7


@dataclass(frozen=True, slots=True)
class Topic:
    error: int
    leaders: Mapping[int, Address | None]
    """By partition; None: there is none at the moment."""


def by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[Partition]]]:
    """As requests name them."""
    return in_order(sorted(partitions))


def in_order(partitions: Iterable[Partition]) -> list[tuple[str, list[Partition]]]:
    """As they come: a topic is named again when others stood in between."""
    return [(topic, list(some)) for topic, some in groupby(partitions, key=lambda one: one[0])]


def topics(names: Iterable[str]) -> Request[dict[str, Topic]]:
    """Metadata of these topics. None of them is created by it."""

    def read(reader: Reader) -> dict[str, Topic]:
        reader.int32()
        brokers: dict[int, Address] = {}
        for _ in range(reader.length()):
            node = reader.int32()
            brokers[node] = Address(reader.text(), reader.int32())
            reader.string()  # its rack
            reader.skip_tags()
        reader.string()  # the cluster
        reader.int32()  # its controller
        found: dict[str, Topic] = {}
        for _ in range(reader.length()):
            error, name = reader.int16(), reader.text()
            reader.int8()
            leaders: dict[int, Address | None] = {}
            for _ in range(reader.length()):
                reader.int16()
                number, leader = reader.int32(), reader.int32()
                reader.int32()
                for _ in range(3):  # replicas: all, in sync, not there
                    reader.take(4 * reader.length())
                reader.skip_tags()
                leaders[number] = brokers.get(leader)
            reader.int32()
            reader.skip_tags()
            found[name] = Topic(error, leaders)
        return found

    wanted = array(tuple(string(name) + NO_TAGS for name in names))
    nothing_created, no_rights = boolean(False), boolean(False) + boolean(False)
    return Request("Metadata", 3, 9, wanted + nothing_created + no_rights, read)


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


def produce(transactional_id: str, batches: Mapping[Partition, Sequence[bytes]], correlation: int) -> list[bytes]:
    """The parts of the whole message, in order. Batches are not copied: they are most of it.

    Version 7 is known to every broker of the last years, and lets brokers refuse single partitions.
    """
    parts: list[bytes] = [
        request_header(_PRODUCE, _PRODUCE_VERSION, correlation),
        plain_string(transactional_id) + int16(_ALL_REPLICAS) + int32(ACKNOWLEDGE_MS),
    ]
    topics_written = by_topic(batches)
    parts.append(int32(len(topics_written)))
    for topic, partitions in topics_written:
        parts.append(plain_string(topic) + int32(len(partitions)))
        for partition in partitions:
            records = batches[partition]
            parts.append(int32(partition[1]) + int32(sum(len(part) for part in records)))
            parts += records
    return [int32(sum(len(part) for part in parts)), *parts]


def read_produced(data: Bytes) -> tuple[int, dict[Partition, int]]:
    """The correlation id, and an error code for each partition."""
    reader = Reader(data)
    correlation = reader.int32()
    found: dict[Partition, int] = {}
    for _ in range(reader.plain_length()):
        topic = reader.plain_string() or ""
        for _ in range(reader.plain_length()):
            number = reader.int32()
            found[topic, number] = reader.int16()
            reader.take(24)  # first offset, when it was appended, first offset of the log
    return correlation, found


USED = (("Produce", _PRODUCE, _PRODUCE_VERSION), ("AddPartitionsToTxn", 24, 3))
"""What a broker must know for it: name, API key, version."""
