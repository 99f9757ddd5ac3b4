"""The request that carries messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.connectors.kafka.protocol.codec import Bytes, Reader, int16, int32, plain_string
from tidegate.connectors.kafka.protocol.metadata import Partition, by_topic
from tidegate.connectors.kafka.protocol.requests import CLIENT_ID, request_header

ACKNOWLEDGE_MS = 10_000
"""How long a broker may wait for the other replicas."""
_ALL_REPLICAS = -1
_NO_TRANSACTION = int16(-1)
_PRODUCE, _PRODUCE_VERSION = 0, 7


def produce(
    transactional_id: str,
    batches: Mapping[Partition, Sequence[bytes]],
    correlation: int,
    client_id: str = CLIENT_ID,
) -> list[bytes]:
    """The parts of the whole message, in order. Batches are not copied: they are most of it.

    Version 7 is known to every broker of the last years, and lets brokers refuse single partitions.
    """
    transaction = plain_string(transactional_id) if transactional_id else _NO_TRANSACTION
    parts: list[bytes] = [
        request_header(_PRODUCE, _PRODUCE_VERSION, correlation, client_id),
        transaction + int16(_ALL_REPLICAS) + int32(ACKNOWLEDGE_MS),
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


USED = (("Produce", _PRODUCE, _PRODUCE_VERSION),)
"""What a broker must know for it: name, API key, version."""
