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

from tidegate.connectors.kafka.wire.codec import signed_varint

Array = np.ndarray[Any, Any]

NULL_LENGTH = -1
OVERHEAD_BYTES_MAX = 21
"""What a record has besides key and value, at most."""
HEAD_BYTES = 61
LARGE_BYTES = (1 << 20) - OVERHEAD_BYTES_MAX
"""From here on a record's lengths do not fit into three bytes."""
_INLINE_BYTES_MAX = 12
"""A view that is not longer holds the bytes itself."""
_BUFFERS_MAX, _ONE_BUFFER_BYTES_MAX = 64, 1 << 30
"""A column put together from many frames has the buffers of all of them: looking after each would cost more than copying."""
_MAGIC = 2
_TRANSACTIONAL = 1 << 4
_NO_LEADER_EPOCH = -1
_HEAD = struct.Struct(">qiibI")
_CHECKED = struct.Struct(">hiqqqhii")
_SEQUENCES = (1 << 31) - 1
_WIDTH, _HALF, _BITS = np.uint64(0xFF), np.uint64(32), np.uint64(3)
_NO_HEADERS = b"\0"


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

    @classmethod
    def of(cls, rows: pl.DataFrame, *, has_key: bool) -> Messages:
        values, value_lengths, buffers = _views(rows["value"])
        if not has_key:
            nothing = np.zeros_like(values)
            return cls(nothing, values, np.full(rows.height, NULL_LENGTH), value_lengths, buffers)
        keys, key_lengths, more = _views(rows["key"])
        return cls(_moved(keys, key_lengths, len(buffers)), values, key_lengths, value_lengths, buffers + more)

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, begin: int, end: int | None = None) -> Messages:
        some = slice(begin, end)
        return Messages(
            self.keys[some], self.values[some], self.key_lengths[some], self.value_lengths[some], self.buffers
        )

    def take(self, rows: Array) -> Messages:
        """Those at these places, in this order."""
        return Messages(
            np.take(self.keys, rows, axis=0),  # many times faster than an index, for rows of two
            np.take(self.values, rows, axis=0),
            self.key_lengths[rows],
            self.value_lengths[rows],
            self.buffers,
        )

    def sizes(self) -> Array:
        """Bytes of keys and values."""
        return np.maximum(self.key_lengths, 0) + np.maximum(self.value_lengths, 0)


def together(parts: Sequence[Messages]) -> Messages:
    """One behind the other."""
    if len(parts) == 1:
        return parts[0]
    keys: list[Array] = []
    values: list[Array] = []
    buffers: tuple[pa.Buffer, ...] = ()
    for part in parts:
        keys.append(_moved(part.keys, part.key_lengths, len(buffers)))
        values.append(_moved(part.values, part.value_lengths, len(buffers)))
        buffers += part.buffers
    return Messages(
        np.concatenate(keys),
        np.concatenate(values),
        np.concatenate([part.key_lengths for part in parts]),
        np.concatenate([part.value_lengths for part in parts]),
        buffers,
    )


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Bytes as they are sent, however often: brokers know them again by ``sequence``."""

    sequence: int
    count: int
    parts: tuple[bytes | pa.Buffer, ...]
    size_bytes: int
    content_bytes: int
    """Of keys and values."""


def record_batch(messages: Messages, producer_id: int, epoch: int, sequence: int, now_ms: int) -> RecordBatch:
    """Messages of a transaction. All that is a large one must be alone."""
    count, sizes = len(messages), messages.sizes()
    records = _large_record(messages) if count == 1 and int(sizes[0]) >= LARGE_BYTES else _records(messages, sizes)
    records_bytes = sum(len(part) for part in records)
    checked = _CHECKED.pack(_TRANSACTIONAL, count - 1, now_ms, now_ms, producer_id, epoch, sequence, count)
    crc = google_crc32c.value(checked)
    for part in records:
        crc = google_crc32c.extend(crc, part)
    behind_the_length = HEAD_BYTES - 12 + records_bytes
    head = _HEAD.pack(0, behind_the_length, _NO_LEADER_EPOCH, _MAGIC, crc) + checked
    return RecordBatch(sequence, count, (head, *records), HEAD_BYTES + records_bytes, int(sizes.sum()))


def sequence_after(sequence: int, count: int) -> int:
    return (sequence + count) & _SEQUENCES


def _records(messages: Messages, sizes: Array) -> tuple[pa.Buffer, ...]:
    """Views of each record: what stands before the key, key, length of the value, value.

    The byte that ends a record (no headers) stands in front of the next one, which saves a view.
    """
    count, varints = len(messages), _varints()
    keys = varints[messages.key_lengths - NULL_LENGTH]
    values = varints[messages.value_lengths - NULL_LENGTH]
    offsets = varints[-NULL_LENGTH : count - NULL_LENGTH]
    widths = (keys & _WIDTH) + (offsets & _WIDTH)
    # Attributes and the difference of times are a zero byte each; with the one at the end they are three.
    lengths = varints[sizes + (widths + (values & _WIDTH)).view(np.int64) + (3 - NULL_LENGTH)]
    behind = offsets >> _HALF | keys >> _HALF << ((offsets & _WIDTH) << _BITS)
    at = (lengths & _WIDTH) + np.uint64(3)
    front = lengths >> _HALF << np.uint64(8) | behind << (at << _BITS)
    views = np.zeros((4 * count + 1, 2), np.uint64)
    of_records = views[:-1].reshape(count, 4, 2)
    of_records[:, 0, 0] = at + widths | front << _HALF
    of_records[:, 0, 1] = front >> _HALF | behind >> ((np.uint64(8) - at) << _BITS) << _HALF
    of_records[:, 1] = messages.keys
    of_records[:, 2, 0] = values
    of_records[:, 3] = messages.values
    views[-1, 0] = 1
    column = pa.Array.from_buffers(
        pa.binary_view(), len(views), [None, pa.py_buffer(views), *messages.buffers], null_count=0
    )
    _, ends, data = column.cast(pa.large_binary()).buffers()
    size = int(np.frombuffer(ends, np.int64)[len(views)])
    return (data.slice(1, size - 1),)


def _large_record(messages: Messages) -> tuple[bytes, ...]:
    key, value = (
        pa.Array.from_buffers(pa.binary_view(), 1, [None, pa.py_buffer(views.copy()), *messages.buffers])[0].as_py()
        for views in (messages.keys, messages.values)
    )
    body = b"".join(
        (
            b"\0\0\0",  # attributes, difference of times, number
            signed_varint(int(messages.key_lengths[0])),
            key,
            signed_varint(int(messages.value_lengths[0])),
            value,
            _NO_HEADERS,
        )
    )
    return (signed_varint(len(body)) + body,)


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


def _views(column: pl.Series) -> tuple[Array, Array, tuple[pa.Buffer, ...]]:
    """Views, lengths and the buffers that the views point into. A null has an empty view."""
    array = column.cast(pl.Binary).to_arrow(compat_level=pl.CompatLevel.newest())
    if len(array.buffers()) > _BUFFERS_MAX and array.nbytes < _ONE_BUFFER_BYTES_MAX:
        array = array.cast(pa.large_binary()).cast(pa.binary_view())
    _, views_buffer, *buffers = array.buffers()
    views = np.frombuffer(views_buffer, np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    lengths = views[:, 0].astype(np.uint32).astype(np.int64)
    if array.null_count:
        there = column.is_not_null().to_numpy()
        views = np.where(there[:, None], views, np.uint64(0))
        lengths = np.where(there, lengths, NULL_LENGTH)
    return views, lengths, tuple(buffers)


def _moved(views: Array, lengths: Array, buffers: int) -> Array:
    """The same, when so many buffers stand before those that the views were made for."""
    if not buffers:
        return views
    moved = views.copy()
    moved[:, 1] += np.where(lengths > _INLINE_BYTES_MAX, np.uint64(buffers), np.uint64(0))
    return moved
