"""Fetched messages as columns: read where librdkafka has them, for all messages of a call at once.

Python's binding makes an object of every message, which costs twice as much as everything else. Here a call gives an array of
addresses, and the fields of ``rd_kafka_message_t`` behind them are gathered by NumPy. Bytes are copied once, into the buffer of an
Arrow column, before the messages are given back.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.connectors.kafka.librdkafka import MESSAGES, library, quick_library
from tidegate.model.errors import Unavailable

_WORD_BYTES = 8
_FIELDS: Any = MESSAGES.fields
_WORD_OF = {name: offset // _WORD_BYTES for name, (_, offset) in _FIELDS.items()}
_PAGE_SHIFT = 12
"""Pages of memory are at least 4 KiB."""
_INLINE_BYTES = 12
"""Arrow keeps values up to this size in the view itself."""
_BUFFER_BYTES_MAX = 2**31 - 64
_HEADERS = pl.List(pl.Struct({"key": pl.String, "value": pl.Binary}))
_TIMESTAMP_TYPE_SHIFT = 1
"""librdkafka counts not available, create time, log append time from 0; Kafka's Java client, and so Spark, from -1."""
_LOW_BYTES = np.array([2 ** (8 * n) - 1 for n in range(9)], np.uint64)
"""Masks for the first n bytes of a word."""


class Fetched:
    """Messages of one call, at least one. Valid until ``release``."""

    def __init__(self, addresses: np.ndarray) -> None:
        """``addresses`` of ``rd_kafka_message_t``, as ``rd_kafka_consume_batch_queue`` writes them; unsigned."""
        self._addresses = addresses
        low, high = int(addresses.min()), int(addresses.max())
        words: Any = (ctypes.c_int64 * ((high - low + MESSAGES.itemsize) // _WORD_BYTES)).from_address(low)
        self._words = np.frombuffer(words, np.int64)
        self._first = ((addresses - np.uint64(low)) >> np.uint64(3)).astype(np.int64)
        self.errors = self._field("error").astype(np.int32)
        self.partitions = self._field("partition").astype(np.int32)
        self.offsets = self._field("offset")
        self._topics = self._field("topic")

    def __len__(self) -> int:
        return len(self._addresses)

    def only(self, chosen: np.ndarray) -> Fetched:
        """Some of them, as another view; whoever made the whole releases it."""
        return Fetched(self._addresses[chosen])

    def topics(self) -> tuple[list[str], np.ndarray]:
        """Names, and for each message the number of its own. Errors that concern no topic have an empty one."""
        same = bool((self._topics == self._topics[0]).all())
        none = np.zeros(len(self), np.int64)
        found, numbers = (self._topics[:1], none) if same else np.unique(self._topics, return_inverse=True)
        name = library().rd_kafka_topic_name
        return [name(one).decode() if one else "" for one in found.tolist()], numbers

    def text(self, number: int) -> str:
        """What an error says."""
        at, size = int(self._field("payload")[number]), int(self._field("length")[number])
        return ctypes.string_at(at, size).decode(errors="replace") if at else ""

    def frame(self, columns: Sequence[str]) -> pl.DataFrame:
        """Spark's columns, of messages that are no errors."""
        if not columns:
            return pl.DataFrame(height=len(self))
        # A key and its value lie side by side: they are copied together.
        kept = [name for name in ("key", "value") if name in columns]
        made = dict(zip(kept, binary_columns(*map(self._bytes, kept)), strict=True))
        return pl.DataFrame(
            [made[name].alias(name) if name in made else _COLUMNS[name](self).alias(name) for name in columns]
        )

    def release(self) -> None:
        """Gives the messages back to librdkafka."""
        deque(map(quick_library().rd_kafka_message_destroy, self._addresses.tolist()), 0)

    def topic(self) -> pl.Series:
        names, numbers = self.topics()
        return pl.Series(names, dtype=pl.String).gather(numbers)

    def timestamps(self) -> pl.Series:
        """A record of the oldest format has none, which Kafka, and so Spark, writes as -1 ms."""
        moments_ms = map(quick_library().rd_kafka_message_timestamp, self._addresses.tolist(), repeat(None))
        return pl.Series(np.fromiter(moments_ms, np.int64, len(self)) * 1_000).cast(pl.Datetime("us", "UTC"))

    def timestamp_types(self) -> pl.Series:
        kinds = np.zeros(len(self), np.int32)
        places = kinds.ctypes.data + kinds.itemsize * np.arange(len(self))
        deque(map(quick_library().rd_kafka_message_timestamp, self._addresses.tolist(), places.tolist()), 0)
        return pl.Series(kinds - _TIMESTAMP_TYPE_SHIFT)

    def headers(self) -> pl.Series:
        """Null for a message without any, as in Spark."""
        return pl.Series([_headers_of(one) for one in self._addresses.tolist()], dtype=_HEADERS)

    def _bytes(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        return (
            (self._field("key"), self._field("key_length"))
            if name == "key"
            else (self._field("payload"), self._field("length"))
        )

    def _field(self, name: str) -> np.ndarray:
        return self._words[self._first + _WORD_OF[name]]


def binary_columns(*columns: tuple[np.ndarray, np.ndarray]) -> list[pl.Series]:
    """Copies of the bytes at the addresses, of the sizes, that each column names, row by row; an address of 0 is a null.

    Fastest where the values of a row lie one behind the other, and so do the rows.
    """
    if not columns:
        return []
    at, sizes = (np.stack(one, axis=1).ravel() for one in zip(*columns, strict=True))
    full = sizes > 0
    if full.all():
        data, places = _copied(at, sizes)
    else:
        # Where nothing is kept nothing is read: an empty value may stand behind the last byte that can be.
        data, offsets = _copied(at[full], sizes[full])
        places = np.zeros(len(at), np.int64)
        places[full] = offsets
    step = len(columns)
    return [
        binary_views(data, places[number::step], sizes[number::step], at[number::step] != 0) for number in range(step)
    ]


def _copied(at: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bytes, in pieces as large as can be, with two words to spare; and where in them each value is. None is empty."""
    ends = at + sizes
    # What lies between two values of one fetch is copied with them. It can be read if no whole page is in between: the pages
    # on both sides hold bytes of a value. Other gaps, and steps back, begin another piece.
    apart = ((at[1:] >> _PAGE_SHIFT) > ((ends[:-1] - 1) >> _PAGE_SHIFT) + 1) | (at[1:] < ends[:-1])
    bounds = np.concatenate(([0], np.flatnonzero(apart) + 1, [len(at)])) if len(at) else np.zeros(1, np.int64)
    lows, highs = at[bounds[:-1]], ends[bounds[1:] - 1]
    lengths = highs - lows
    starts = np.cumsum(lengths) - lengths
    data = np.empty(int(lengths.sum()) + 2 * _WORD_BYTES, np.uint8)
    for start, low, length in zip(starts.tolist(), lows.tolist(), lengths.tolist(), strict=True):
        ctypes.memmove(data.ctypes.data + start, low, length)
    return data, at + np.repeat(starts - lows, np.diff(bounds))


def binary_views(data: np.ndarray, offsets: np.ndarray, sizes: np.ndarray, present: np.ndarray) -> pl.Series:
    """Arrow's binary views over ``data``, which has two words to spare at its end."""
    if len(data) > _BUFFER_BYTES_MAX:
        raise Unavailable(
            f"{len(data)} bytes were fetched at once, and a column holds {_BUFFER_BYTES_MAX}",
            hint="leave kafka.queued.max.messages.kbytes as it is",
        )
    words = np.ndarray((len(data) - _WORD_BYTES + 1,), "<u8", data.data, strides=(1,))
    head = words[offsets] & _LOW_BYTES[np.minimum(sizes, 4)]
    tail = words[offsets + 4] & _LOW_BYTES[np.clip(sizes - 4, 0, 8)]
    views = np.empty((len(offsets), 2), np.uint64)
    views[:, 0] = sizes.astype(np.uint64) | (head << np.uint64(32))
    views[:, 1] = np.where(sizes > _INLINE_BYTES, offsets.astype(np.uint64) << np.uint64(32), tail)
    valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [valid, pa.py_buffer(views), pa.py_buffer(data)]
    return pl.Series(pa.Array.from_buffers(pa.binary_view(), len(offsets), buffers))


def _headers_of(message: int) -> list[dict[str, Any]] | None:
    headers = ctypes.c_void_p()
    if library().rd_kafka_message_headers(message, ctypes.byref(headers)):
        return None
    name, value, size = ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_size_t()
    found: list[dict[str, Any]] = []
    places = [ctypes.byref(one) for one in (name, value, size)]
    while not library().rd_kafka_header_get_all(headers, len(found), *places):
        content = ctypes.string_at(value.value, size.value) if value.value else None
        found.append({"key": (name.value or b"").decode(errors="replace"), "value": content})
    return found or None


def runs(*columns: np.ndarray) -> list[tuple[int, int]]:
    """Ranges in which no column changes."""
    changes = np.logical_or.reduce([one[1:] != one[:-1] for one in columns])
    return list(pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), len(columns[0])]))


_COLUMNS: dict[str, Callable[[Fetched], pl.Series]] = {
    "topic": Fetched.topic,
    "partition": lambda fetched: pl.Series(fetched.partitions),
    "offset": lambda fetched: pl.Series(fetched.offsets),
    "timestamp": Fetched.timestamps,
    "timestampType": Fetched.timestamp_types,
    "headers": Fetched.headers,
}
