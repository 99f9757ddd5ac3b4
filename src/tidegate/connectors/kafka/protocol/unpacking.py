"""Record batches (magic 2), as brokers send what producers wrote, taken apart into columns: the counterpart of ``record_batch``.

Nothing is done message by message. The heads of all batches are gathered at once, records are found for all of them, and keys
and values stay where they were received: Arrow's views point there.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa

from tidegate.connectors.kafka.protocol.codec import SPARE_BYTES
from tidegate.connectors.kafka.protocol.compression import decompressed
from tidegate.connectors.kafka.protocol.fetching import Aborted
from tidegate.connectors.kafka.protocol.record_batch import HEAD_BYTES
from tidegate.connectors.kafka.protocol.records import Records, record_contents
from tidegate.connectors.kafka.protocol.varints import varints, words_of
from tidegate.model.errors import InvalidQuery, Unavailable

Array = np.ndarray[Any, Any]

LENGTH_BYTES = 12
"""What stands before the part of a batch that its length counts."""
_LENGTH_AT, _MAGIC_AT, _CRC_AT, _CHECKED_AT = 8, 16, 17, 21
_FIRST_TIME_AT, _MAX_TIME_AT, _PRODUCER_AT, _COUNT_AT = 27, 35, 43, 57
_ENDING = struct.Struct(">q4xi7xi")
"""First offset, the leader's epoch, and how far the last offset is from the first one."""
_MAGIC = 2
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20


@dataclass(frozen=True, slots=True)
class Received:
    """Whole batches of one partition, one behind the other."""

    data: Array
    """With ``SPARE_BYTES`` behind them."""
    offset: int
    """What lies before it was not asked for."""
    aborted: tuple[Aborted, ...] = ()
    """Transactions of which nothing is to be read; empty if everything is."""

    @property
    def size_bytes(self) -> int:
        return len(self.data) - SPARE_BYTES


def joined(parts: Sequence[Received]) -> Received:
    """At least one; they follow each other."""
    if len(parts) == 1:
        return parts[0]
    data = np.concatenate([*(one.data[:-SPARE_BYTES] for one in parts), np.zeros(SPARE_BYTES, np.uint8)])
    return Received(data, parts[0].offset, tuple(dict.fromkeys(gone for one in parts for gone in one.aborted)))


def extent(data: Array, size: int) -> tuple[int, int, int]:
    """How many of the bytes are whole batches, the offset behind them, and the epoch of the leader who wrote the last one."""
    view, at, last = data.data, 0, -1
    while at + HEAD_BYTES <= size:
        behind = at + LENGTH_BYTES + int.from_bytes(view[at + _LENGTH_AT : at + _LENGTH_AT + 4], "big")
        if behind > size:
            break
        if view[at + _MAGIC_AT] != _MAGIC or behind < at + HEAD_BYTES:
            raise _unknown_format(view[at + _MAGIC_AT])
        at, last = behind, at
    if last < 0:
        return 0, 0, 0
    first, epoch, delta = _ENDING.unpack_from(view, last)
    return at, first + delta + 1, epoch


class Heads:
    """The heads of the batches that lie one behind the other in ``data``."""

    def __init__(self, data: Array) -> None:
        at, end, found = 0, len(data) - SPARE_BYTES, list[int]()
        view = data.data
        while at < end:
            found.append(at)
            at += LENGTH_BYTES + int.from_bytes(view[at + _LENGTH_AT : at + _LENGTH_AT + 4], "big")
        self.starts = np.array(found, np.int64)
        self.ends = np.array([*found[1:], at], np.int64)
        self._words = words_of(data)
        attributes = self._number(_CHECKED_AT, 2)
        self.codecs = attributes & _CODEC
        self.is_control = attributes & _CONTROL != 0
        self.is_transactional = attributes & _TRANSACTIONAL != 0
        self.is_append_time = attributes & _APPEND_TIME != 0
        self.first_offsets = self._number(0, 8)
        self.counts = self._number(_COUNT_AT, 4)
        self.producers = self._number(_PRODUCER_AT, 8)

    def __len__(self) -> int:
        return len(self.starts)

    def first_times_ms(self) -> Array:
        return self._number(_FIRST_TIME_AT, 8)

    def max_times_ms(self) -> Array:
        return self._number(_MAX_TIME_AT, 8)

    def checksums(self) -> Array:
        return self._number(_CRC_AT, 4) & 0xFFFFFFFF

    def _number(self, at: int, size: int) -> Array:
        """Big endian and signed; at least so many bytes of a batch stand behind each of its numbers, or are to spare."""
        return self._words[self.starts + at].byteswap().view(np.int64) >> (8 * (8 - size))


def check(heads: Heads, data: Array, where: str) -> None:
    """Raises Unavailable for a batch that was damaged after it was written."""
    content = pa.py_buffer(data)
    for start, end, expected in zip(
        heads.starts.tolist(), heads.ends.tolist(), heads.checksums().tolist(), strict=True
    ):
        if google_crc32c.value(content.slice(start + _CHECKED_AT, end - start - _CHECKED_AT)) != expected:
            raise Unavailable(
                f"a batch of messages of {where} is damaged: its checksum is not that of its bytes",
                hint="damaged on its way it is read again, from the last checkpoint; if it stays, the disk of a broker is the place to look",
            )


def readable(heads: Heads, aborted: Sequence[Aborted]) -> Array:
    """Numbers of the batches with messages for readers: without markers, without what aborted transactions wrote."""
    wanted = ~heads.is_control
    if aborted:
        wanted &= ~_of_aborted(heads, aborted)
    return np.flatnonzero(wanted & (heads.counts > 0))


def unpacked(data: Array, heads: Heads, chosen: Array) -> list[Records]:
    """In order; those that lie in one piece of memory together. At least one batch is chosen."""
    parts: list[Records] = []
    plain = heads.codecs[chosen] == 0
    for some in np.split(chosen, np.flatnonzero(np.diff(plain.view(np.int8))) + 1):
        if heads.codecs[some[0]]:
            parts += [_decompressed(data, heads, one) for one in some.tolist()]
        else:
            starts, ends = heads.starts[some] + HEAD_BYTES, heads.ends[some]
            parts.append(_records(data, starts, ends, heads, some))
    return parts


def _decompressed(data: Array, heads: Heads, number: int) -> Records:
    start, end = int(heads.starts[number]) + HEAD_BYTES, int(heads.ends[number])
    content = decompressed(int(heads.codecs[number]), data.data[start:end])
    inside, outside = np.zeros(1, np.int64), np.array([len(content) - SPARE_BYTES], np.int64)
    return _records(content, inside, outside, heads, np.array([number]))


def _records(data: Array, starts: Array, ends: Array, heads: Heads, chosen: Array) -> Records:
    counts = heads.counts[chosen]
    words = words_of(data)
    times, at = varints(words, record_contents(data, words, starts, ends, counts) + 1)  # behind the attributes
    offsets, at = varints(words, at)
    key_sizes, keys = varints(words, at)
    value_sizes, values = varints(words, keys + np.maximum(key_sizes, 0))
    append_times = np.repeat(heads.is_append_time[chosen], counts)
    times_ms = np.repeat(heads.first_times_ms()[chosen], counts) + times
    if append_times.any():
        times_ms = np.where(append_times, np.repeat(heads.max_times_ms()[chosen], counts), times_ms)
    return Records(
        data=data,
        keys=keys,
        key_sizes=key_sizes,
        values=values,
        value_sizes=value_sizes,
        offsets=np.repeat(heads.first_offsets[chosen], counts) + offsets,
        times_ms=times_ms,
        is_append_time=append_times,
    )


def _of_aborted(heads: Heads, aborted: Sequence[Aborted]) -> Array:
    """Whether a batch was written by a transaction that was aborted: from its first offset to its producer's next marker."""
    waiting = deque(sorted(aborted, key=lambda one: one.first_offset))
    active: set[int] = set()
    found = np.zeros(len(heads), bool)
    rows = zip(heads.first_offsets.tolist(), heads.producers.tolist(), heads.is_control.tolist(), strict=True)
    for number, (offset, producer, is_marker) in enumerate(rows):
        while waiting and waiting[0].first_offset <= offset:
            active.add(waiting.popleft().producer_id)
        if is_marker:
            active.discard(producer)
        elif producer in active:
            found[number] = bool(heads.is_transactional[number])
    return found


def _unknown_format(magic: int) -> Exception:
    if magic in (0, 1):
        return InvalidQuery(
            f"the topic holds messages in format {magic}, of Kafka before 0.11",
            hint="copy the topic with a producer of today: brokers from 4.0 on do not serve that format either",
        )
    return Unavailable(f"a Kafka broker sent messages in format {magic}, which is not known")
