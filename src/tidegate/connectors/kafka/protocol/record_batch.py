"""Messages of one partition as a record batch (magic 2), the unit that producers send and brokers store.

Nothing is done message by message. A record is a few bytes of lengths around two values, and a column of Arrow's views says for
each value where its bytes lie: the views of whole records, interleaved, are one column, and casting it to contiguous bytes
lays the records down one behind the other, in one pass over the data.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import google_crc32c
import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.connectors.kafka.protocol.codec import signed_varint
from tidegate.connectors.kafka.protocol.compression import UNCOMPRESSED, Compression
from tidegate.connectors.kafka.protocol.headers import encoded
from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.connectors.kafka.protocol.views import NULL_LENGTH, moved, views_of

Array = np.ndarray[Any, Any]

OVERHEAD_BYTES_MAX = 21
"""What a record has besides key, value and headers, at most."""
HEAD_BYTES = 61
LARGE_BYTES = (1 << 20) - OVERHEAD_BYTES_MAX
"""From here on a record's lengths do not fit into three bytes."""
_MAGIC = 2
_TRANSACTIONAL = 1 << 4
_NO_LEADER_EPOCH = -1
_HEAD = struct.Struct(">qiibI")
_CHECKED = struct.Struct(">hiqqqhii")
_SEQUENCES = (1 << 31) - 1
_WIDTH, _HALF, _BITS = np.uint64(0xFF), np.uint64(32), np.uint64(3)


@dataclass(frozen=True, slots=True)
class Headers:
    """What stands behind the value of each record, as views."""

    views: Array
    lengths: Array

    def at(self, rows: slice | Array) -> Headers:
        return Headers(self.views[rows], self.lengths[rows])


@dataclass(frozen=True, slots=True)
class Messages:
    """Where the keys and values of some messages lie. Rows may be taken out and put together; the bytes stay where they are."""

    keys: Array
    """A view per message, as two words."""
    values: Array
    key_lengths: Array
    """``NULL_LENGTH``: there is none."""
    value_lengths: Array
    buffers: tuple[pa.Buffer, ...]
    headers: Headers | None = None
    """None: no message has any."""

    @classmethod
    def of(cls, rows: pl.DataFrame, *, has_key: bool, has_headers: bool = False) -> Messages:
        values, value_lengths, buffers = views_of(rows["value"])
        keys, key_lengths = np.zeros_like(values), np.full(rows.height, NULL_LENGTH)
        if has_key:
            keys, key_lengths, more = views_of(rows["key"], len(buffers))
            buffers += more
        if not has_headers or not rows["headers"].list.len().sum():
            return cls(keys, values, key_lengths, value_lengths, buffers)
        views, lengths, more = views_of(encoded(rows["headers"]), len(buffers))
        return cls(keys, values, key_lengths, value_lengths, buffers + more, Headers(views, lengths))

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, begin: int, end: int | None = None) -> Messages:
        some = slice(begin, end)
        headers = None if self.headers is None else self.headers.at(some)
        return Messages(
            self.keys[some], self.values[some], self.key_lengths[some], self.value_lengths[some], self.buffers, headers
        )

    def take(self, rows: Array) -> Messages:
        """Those at these places, in this order."""
        return Messages(
            np.take(self.keys, rows, axis=0),  # many times faster than an index, for rows of two
            np.take(self.values, rows, axis=0),
            self.key_lengths[rows],
            self.value_lengths[rows],
            self.buffers,
            None if self.headers is None else self.headers.at(rows),
        )

    def sizes(self) -> Array:
        """Bytes of keys, values and headers."""
        sizes = np.maximum(self.key_lengths, 0) + np.maximum(self.value_lengths, 0)
        return sizes if self.headers is None else sizes + self.headers.lengths


def together(parts: Sequence[Messages]) -> Messages:
    """One behind the other."""
    if len(parts) == 1:
        return parts[0]
    keys: list[Array] = []
    values: list[Array] = []
    headers: list[Headers] = []
    buffers: tuple[pa.Buffer, ...] = ()
    with_headers = any(part.headers is not None for part in parts)
    for part in parts:
        keys.append(moved(part.keys, part.key_lengths, len(buffers)))
        values.append(moved(part.values, part.value_lengths, len(buffers)))
        if with_headers:
            own = part.headers or _without_headers(len(part))
            headers.append(Headers(moved(own.views, own.lengths, len(buffers)), own.lengths))
        buffers += part.buffers
    return Messages(
        np.concatenate(keys),
        np.concatenate(values),
        np.concatenate([part.key_lengths for part in parts]),
        np.concatenate([part.value_lengths for part in parts]),
        buffers,
        Headers(np.concatenate([one.views for one in headers]), np.concatenate([one.lengths for one in headers]))
        if with_headers
        else None,
    )


def _without_headers(count: int) -> Headers:
    """A zero byte for each: it has none."""
    views = np.zeros((count, 2), np.uint64)
    views[:, 0] = 1
    return Headers(views, np.ones(count, np.int64))


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Bytes as they are sent, however often: brokers know them again by ``sequence``."""

    sequence: int
    count: int
    parts: tuple[bytes | pa.Buffer, ...]
    size_bytes: int
    content_bytes: int
    """Bytes of keys, values and headers."""


def record_batch(
    messages: Messages, producer: Handle, sequence: int, now_ms: int, compression: Compression = UNCOMPRESSED
) -> RecordBatch:
    """Messages of one producer. One that is too large for others must be alone."""
    count, sizes = len(messages), messages.sizes()
    records = _large_record(messages) if count == 1 and int(sizes[0]) >= LARGE_BYTES else _records(messages, sizes)
    attributes = _TRANSACTIONAL if producer.is_transactional else 0
    packed = compression.compressed(records)
    if packed.size < records.size:
        attributes, records = attributes | compression.codec, packed
    checked = _CHECKED.pack(
        attributes, count - 1, now_ms, now_ms, producer.producer_id, producer.epoch, sequence, count
    )
    crc = google_crc32c.extend(google_crc32c.value(checked), records)
    behind_the_length = HEAD_BYTES - 12 + records.size
    head = _HEAD.pack(0, behind_the_length, _NO_LEADER_EPOCH, _MAGIC, crc) + checked
    return RecordBatch(sequence, count, (head, records), HEAD_BYTES + records.size, int(sizes.sum()))


def sequence_after(sequence: int, count: int) -> int:
    return (sequence + count) & _SEQUENCES


def _records(messages: Messages, sizes: Array) -> pa.Buffer:
    """Views of each record: what stands before the key, key, length of the value, value, headers.

    Without headers the byte that ends a record (there are none) stands in front of the next one, which saves a view.
    """
    count, varints, headers = len(messages), _varints(), messages.headers
    lead = np.uint64(1 if headers is None else 0)
    keys = varints[messages.key_lengths - NULL_LENGTH]
    values = varints[messages.value_lengths - NULL_LENGTH]
    offsets = varints[-NULL_LENGTH : count - NULL_LENGTH]
    widths = (keys & _WIDTH) + (offsets & _WIDTH)
    # Attributes and the difference of times are a zero byte each; with the one at the end they are three.
    lengths = varints[sizes + (widths + (values & _WIDTH) + lead).view(np.int64) + (2 - NULL_LENGTH)]
    behind = offsets >> _HALF | keys >> _HALF << ((offsets & _WIDTH) << _BITS)
    at = (lengths & _WIDTH) + np.uint64(2) + lead
    front = lengths >> _HALF << (lead << _BITS) | behind << (at << _BITS)
    of_record = 4 if headers is None else 5
    views = np.zeros((of_record * count + int(lead), 2), np.uint64)
    of_records = views[: of_record * count].reshape(count, of_record, 2)
    of_records[:, 0, 0] = at + widths | front << _HALF
    of_records[:, 0, 1] = front >> _HALF | behind >> ((np.uint64(8) - at) << _BITS) << _HALF
    of_records[:, 1] = messages.keys
    of_records[:, 2, 0] = values
    of_records[:, 3] = messages.values
    if headers is None:
        views[-1, 0] = 1
    else:
        of_records[:, 4] = headers.views
    column = pa.Array.from_buffers(
        pa.binary_view(), len(views), [None, pa.py_buffer(views), *messages.buffers], null_count=0
    )
    _, ends, data = column.cast(pa.large_binary()).buffers()
    size = int(np.frombuffer(ends, np.int64)[len(views)])
    return data.slice(int(lead), size - int(lead))


def _large_record(messages: Messages) -> pa.Buffer:
    headers = messages.headers or _without_headers(1)
    key, value, behind = (
        pa.Array.from_buffers(pa.binary_view(), 1, [None, pa.py_buffer(views.copy()), *messages.buffers])[0].as_py()
        for views in (messages.keys, messages.values, headers.views)
    )
    body = b"".join(
        (
            b"\0\0\0",  # attributes, difference of times, number
            signed_varint(int(messages.key_lengths[0])),
            key,
            signed_varint(int(messages.value_lengths[0])),
            value,
            behind,
        )
    )
    return pa.py_buffer(signed_varint(len(body)) + body)


@cache
def _varints() -> Array:
    """All signed varints (zigzag) of at most three bytes, from that of -1 on, as the first word of a view: their length and,
    in the upper half, their bytes. Short ones, which are used the most, lie together."""
    coded = np.arange((1 << 20) - NULL_LENGTH, dtype=np.uint64) * 2 - np.uint64(2)
    coded[0] = 1
    words = coded & np.uint64(0x7F)
    widths = np.ones(len(coded), np.uint64)
    for place in (1, 2):
        higher = coded >> np.uint64(7 * place)
        more = (higher > 0).astype(np.uint64)
        words |= (higher & np.uint64(0x7F)) << np.uint64(8 * place) | more << np.uint64(8 * place - 1)
        widths += more
    return widths | words << _HALF
