"""Requests of a consumer: where logs begin and end, and the messages themselves.

Versions are fixed, as everywhere here: brokers from 2.7 on know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.connectors.kafka.protocol.codec import NO_TAGS, Bytes, Reader, array, int8, int32, int64, string
from tidegate.connectors.kafka.protocol.metadata import Partition, by_topic, in_order
from tidegate.connectors.kafka.protocol.requests import Request

_NOBODY = -1  # as the id of a replica: a consumer
_WITHOUT_SESSION = int32(0) + int32(-1)
_ANY_EPOCH = -1
EARLIEST, LATEST = -2, -1
"""As a moment: the first offset of a log, and the one behind its last record."""
_READ_COMMITTED, _READ_UNCOMMITTED = 1, 0
_DIVERGING_EPOCH = 0
"""Tag of the field that says where this log and the one that was read before part."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """From where on a partition is to be read."""

    offset: int
    epoch: int = _ANY_EPOCH
    """The epoch of the leader that wrote what lies before the offset: another history is noticed."""


@dataclass(frozen=True, slots=True)
class Aborted:
    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    error: int
    end: int
    """So far it may be read."""
    high_watermark: int
    """So far there are records: those of open transactions, too."""
    aborted: tuple[Aborted, ...]
    place: tuple[int, int]
    """Where in the answer its batches are."""
    diverges: bool
    """What lies before the wanted offset is not what was read there."""


@dataclass(frozen=True, slots=True)
class Fetch:
    error: int
    partitions: Mapping[Partition, FetchedPartition]
    data: Bytes


@dataclass(frozen=True, slots=True)
class Limits:
    wait_ms: int
    bytes_min: int
    bytes_max: int
    partition_bytes_max: int


def fetch(wanted: Mapping[Partition, Wanted], limits: Limits, *, committed_only: bool) -> Request[Fetch]:
    """Brokers fill their answer in the order of ``wanted``."""

    def read(reader: Reader) -> Fetch:
        reader.int32()
        error = reader.int16()
        reader.int32()
        found: dict[Partition, FetchedPartition] = {}
        for _ in range(reader.length()):
            topic = reader.text()
            for _ in range(reader.length()):
                number = reader.int32()
                found[topic, number] = _partition(reader, committed_only=committed_only)
            reader.skip_tags()
        return Fetch(error, found, reader.data)

    def one(partition: Partition) -> bytes:
        at = wanted[partition]
        position = int32(_ANY_EPOCH) + int64(at.offset) + int32(at.epoch) + int64(-1)
        return int32(partition[1]) + position + int32(limits.partition_bytes_max) + NO_TAGS

    body = (
        int32(_NOBODY)
        + int32(limits.wait_ms)
        + int32(limits.bytes_min)
        + int32(limits.bytes_max)
        + int8(_READ_COMMITTED if committed_only else _READ_UNCOMMITTED)
        + _WITHOUT_SESSION
        + array(tuple(string(topic) + array(tuple(map(one, some))) + NO_TAGS for topic, some in in_order(wanted)))
        + array(())  # nothing is forgotten
        + string("")  # no rack
    )
    return Request("Fetch", 1, 12, body, read)


def beginnings(partitions: Iterable[Partition]) -> Request[dict[Partition, tuple[int, int]]]:
    """An error code and the first offset of each."""
    return offsets(dict.fromkeys(partitions, EARLIEST), committed_only=False)


def ends(partitions: Iterable[Partition]) -> Request[dict[Partition, tuple[int, int]]]:
    """An error code and the offset behind the last record of each, whether it may be read or not.

    A broker that leads since a moment ago may not know yet how much of the log is there. Here it says so; to a ``fetch`` it answers
    as if the log ended where it knows of.
    """
    return offsets(dict.fromkeys(partitions, LATEST), committed_only=False)


def offsets(moments: Mapping[Partition, int], *, committed_only: bool) -> Request[dict[Partition, tuple[int, int]]]:
    """An error code and the first offset at or after a moment, in milliseconds since 1970; -1 as an offset: no record is as late.

    ``committed_only``: a log ends before its first open transaction.
    """

    def read(reader: Reader) -> dict[Partition, tuple[int, int]]:
        reader.int32()
        found: dict[Partition, tuple[int, int]] = {}
        for _ in range(reader.length()):
            topic = reader.text()
            for _ in range(reader.length()):
                number, error = reader.int32(), reader.int16()
                reader.int64()  # a time
                found[topic, number] = error, reader.int64()
                reader.int32()  # the leader's epoch
                reader.skip_tags()
            reader.skip_tags()
        return found

    def one(partition: Partition) -> bytes:
        return int32(partition[1]) + int32(_ANY_EPOCH) + int64(moments[partition]) + NO_TAGS

    topics = array(tuple(string(topic) + array(tuple(map(one, some))) + NO_TAGS for topic, some in by_topic(moments)))
    level = int8(_READ_COMMITTED if committed_only else _READ_UNCOMMITTED)
    return Request("ListOffsets", 2, 6, int32(_NOBODY) + level + topics, read)


def _partition(reader: Reader, *, committed_only: bool) -> FetchedPartition:
    error = reader.int16()
    high_watermark, last_stable = reader.int64(), reader.int64()
    reader.int64()  # where the log begins
    aborted: list[Aborted] = []
    for _ in range(reader.length()):
        aborted.append(Aborted(reader.int64(), reader.int64()))
        reader.skip_tags()
    reader.int32()  # a replica that is nearer
    place = reader.skip(max(0, reader.varint() - 1))
    diverges = _DIVERGING_EPOCH in reader.tags()
    end = last_stable if committed_only else high_watermark
    return FetchedPartition(error, end, high_watermark, tuple(aborted) if committed_only else (), place, diverges)


USED = (("Fetch", 1, 12), ("ListOffsets", 2, 6))
"""What a broker must know for it: name, API key, version."""
