"""Records of one piece of memory, found and shown as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tidegate.connectors.kafka.protocol.codec import MalformedAnswer
from tidegate.connectors.kafka.protocol.headers import decoded
from tidegate.connectors.kafka.protocol.varints import words_of
from tidegate.connectors.kafka.protocol.views import binary_views

Array = np.ndarray[Any, Any]

SHORTEST_BYTES = 6
"""Attributes, time, offset, two lengths, the number of headers: a byte each."""
PLACES_PER_RECORD_MAX = 4
"""Bytes with more places between zeros are no text."""
ROUNDS_MAX = 4
CREATE_TIME, APPEND_TIME = 0, 1


@dataclass(frozen=True, slots=True)
class Records:
    data: Array
    """Two words to spare at its end."""
    keys: Array
    """Where they are."""
    key_sizes: Array
    """Negative: there is none."""
    values: Array
    value_sizes: Array
    offsets: Array
    times_ms: Array
    is_append_time: Array

    def __len__(self) -> int:
        return len(self.offsets)

    def after(self, count: int) -> Records:
        """Without the first ones."""
        return Records(
            self.data,
            self.keys[count:],
            self.key_sizes[count:],
            self.values[count:],
            self.value_sizes[count:],
            self.offsets[count:],
            self.times_ms[count:],
            self.is_append_time[count:],
        )

    def frame(self, columns: Sequence[str], topic: str, partition: int) -> pl.DataFrame:
        """Spark's columns."""
        if not columns:
            return pl.DataFrame(height=len(self))
        return pl.DataFrame(
            [
                _COLUMNS[name](self).alias(name) if name in _COLUMNS else self._everywhere(name, topic, partition)
                for name in columns
            ]
        )

    def _everywhere(self, name: str, topic: str, partition: int) -> pl.Series:
        """A column in which all rows are the same."""
        one = pl.Series(name, [topic]) if name == "topic" else pl.Series(name, [partition], pl.Int32)
        return one.new_from_index(0, len(self))

    def _binary(self, at: Array, sizes: Array) -> pl.Series:
        present = sizes >= 0
        return binary_views(self.data, at, sizes if present.all() else np.maximum(sizes, 0), present)

    def _headers(self) -> pl.Series:
        """They stand behind the values."""
        return decoded(self.data, words_of(self.data), self.values + np.maximum(self.value_sizes, 0))

    def _timestamps(self) -> pl.Series:
        return pl.Series(self.times_ms * 1_000).cast(pl.Datetime("us", "UTC"))


def record_contents(data: Array, words: Array, starts: Array, ends: Array, counts: Array) -> Array:
    """Where the records of batches whose records lie from ``starts`` to ``ends`` begin, each behind its length.

    A record begins with its length, so each says where the next one is. To follow that from record to record would be a step of
    Python for each of them. But behind the length stands a byte of attributes, which is 0, and before it the number of headers of
    the record before, which is 0, too, nearly always; and text has no such bytes. So all places between zeros are looked at, at
    once, and if the length of each leads to the next, from the first one of a batch to its end, and there are as many as there
    should be, then they are the records. If not, they are followed one by one.
    """
    total = int(counts.sum())
    found = _between_zeros(data, words, starts, ends, total)
    return found if found is not None else _followed(data, starts, ends, counts)


def _between_zeros(data: Array, words: Array, starts: Array, ends: Array, total: int) -> Array | None:
    low, high = int(starts[0]), int(ends[-1])
    zeros = np.flatnonzero(data[low:high] == 0) + low
    # From a zero that ends a record to the one that is attributes there are one to three bytes of length.
    gaps = np.diff(zeros)
    places = zeros[:-1][(gaps >= 2) & (gaps <= 4)] + 1
    if len(starts) == 1:
        places = np.concatenate((starts, places[places > low]))
    else:
        batch = np.searchsorted(starts, places) - 1
        places = places[(places > starts[batch]) & (places < ends[batch])]  # and not in the head of the next one
        places = np.insert(places, np.searchsorted(places, starts), starts)
    if not total <= len(places) <= PLACES_PER_RECORD_MAX * total:
        return None
    heads = words[places]
    first, second, third = (heads >> np.uint64(8 * n) & np.uint64(0xFF) for n in range(3))
    long, longer = first >= 0x80, (first >= 0x80) & (second >= 0x80)
    lengths = (first & np.uint64(0x7F)) | np.where(long, (second & np.uint64(0x7F)) << np.uint64(7), np.uint64(0))
    lengths |= np.where(longer, (third & np.uint64(0x7F)) << np.uint64(14), np.uint64(0))
    contents = places + 1 + long + longer
    following = contents + (lengths >> np.uint64(1)).view(np.int64)
    if len(starts) > 1:
        # Behind the last record of a batch comes the first one of the next.
        batch = np.minimum(np.searchsorted(ends, following), len(ends) - 1)
        at_end = following == ends[batch]
        following[at_end] = np.append(starts[1:], high)[batch[at_end]]
    for _ in range(ROUNDS_MAX):
        if len(places) <= total:
            break
        # Some are no records: those that nothing leads to, and then those that nothing else led to.
        is_next = np.zeros(high - low + 1, bool)
        is_next[0] = is_next[np.minimum(following, high) - low] = True
        led_to = is_next[places - low]
        places, contents, following = places[led_to], contents[led_to], following[led_to]
    if len(places) != total or following[-1] != high or not np.array_equal(following[:-1], places[1:]):
        return None
    return contents


def _followed(data: Array, starts: Array, ends: Array, counts: Array) -> Array:
    view, found = data.data, list[int]()
    for at, end, count in zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True):
        for _ in range(count):
            if at + SHORTEST_BYTES > end:
                raise MalformedAnswer("a batch of messages has fewer than it says")
            length, shift = view[at], 7
            at += 1
            while length >> shift:  # the highest bit so far says that there is more of it
                length = length & (1 << shift) - 1 | view[at] << shift
                shift += 7
                at += 1
            found.append(at)
            at += length >> 1
        if at != end:
            raise MalformedAnswer("a batch of messages is not as long as its messages")
    return np.array(found, np.int64)


_COLUMNS: dict[str, Callable[[Records], pl.Series]] = {
    "key": lambda records: records._binary(records.keys, records.key_sizes),
    "value": lambda records: records._binary(records.values, records.value_sizes),
    "headers": lambda records: records._headers(),
    "offset": lambda records: pl.Series(records.offsets),
    "timestamp": Records._timestamps,
    "timestampType": lambda records: pl.Series(
        np.where(records.is_append_time, APPEND_TIME, CREATE_TIME).astype(np.int32)
    ),
}
