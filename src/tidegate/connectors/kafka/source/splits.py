"""What the Kafka source stores: splits, positions and the enumerator's memory. Documents of this package alone, versioned by tag."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tidegate.model.snapshot import Split
from tidegate.operators.values import Natural, decoded

T = TypeVar("T", bound=msgspec.Struct)

EARLIEST = -2
"""As an offset to start from: wherever the log begins when it is first read. Nothing can be lost before that."""


def _check_offset(offset: int) -> None:
    """Other negative numbers mean something to a client: -1 is the end of the log."""
    if offset < 0 and offset != EARLIEST:
        raise ValueError(f"{offset} is no offset")


class KafkaSplit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="kafka/1"):
    """A partition of a topic, or the part of it that one bounded run read."""

    topic: str
    partition: Natural
    topic_id: str = ""
    """A topic that is deleted and made again has another; empty: the broker does not say."""
    start: int = EARLIEST
    end: Natural | None = None
    """First offset that is not read; None: there is no end."""

    def __post_init__(self) -> None:
        _check_offset(self.start)

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition


class KafkaPosition(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="kafka-position/1"):
    """The next offset. Everything before it that a reader may see has been emitted."""

    offset: int

    def __post_init__(self) -> None:
        _check_offset(self.offset)


class NumberedSplit(msgspec.Struct, frozen=True, array_like=True):
    number: int
    split: KafkaSplit

    def as_split(self) -> Split:
        return Split(number=self.number, payload=msgspec.msgpack.encode(self.split))


class KnownPartitions(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="kafka-partitions/1"):
    """Per partition its newest split, and older ones that were perhaps not read when it was made."""

    started: bool = False
    """Where to start has been decided: partitions found later are new, and read from their beginning."""
    following: int = 0
    """Number of the next split."""
    splits: tuple[NumberedSplit, ...] = ()


def decode_split(payload: bytes) -> KafkaSplit:
    return _decode(payload, KafkaSplit, "a split")


def decode_position(position: bytes) -> KafkaPosition:
    return _decode(position, KafkaPosition, "a position")


def decode_known(state: bytes) -> KnownPartitions:
    return _decode(state, KnownPartitions, "the list of partitions")


def _decode(data: bytes, kind: type[T], what: str) -> T:
    return decoded(data, kind, f"{what} of the Kafka source")
