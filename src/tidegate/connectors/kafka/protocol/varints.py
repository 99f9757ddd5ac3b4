"""Signed varints (zigzag) at many places at once: read, and written as Arrow's views."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.connectors.kafka.protocol.codec import MalformedAnswer

Array = np.ndarray[Any, Any]

_ONES = np.uint64(1)
_LOW = np.uint64(0x7F)
_MORE = np.uint64(0x80)
_ALL_MORE = np.uint64(0x8080808080808080)
_A_BIT_PER_BYTE = np.uint64(0x0101010101010101)


def words_of(data: Array) -> Array:
    """The eight bytes from each place on, little endian. ``SPARE_BYTES`` behind those that count must be readable."""
    return np.ndarray((max(0, len(data) - 7),), "<u8", data.data, strides=(1,))


def varints(words: Array, at: Array) -> tuple[Array, Array]:
    """The numbers that stand there, and the places behind them. None has more than eight bytes."""
    found = words[at]
    if not (found & _MORE).any():
        value = found & _LOW
        behind = at + 1
    else:
        last = ~found & _ALL_MORE
        if not last.all():
            raise MalformedAnswer("a varint of more than eight bytes")
        last &= ~last + _ONES  # the lowest bit alone: it ends the last byte of the number
        found &= last - _ONES  # and what stands before it counts
        value = found & _LOW
        for place in range(1, int(last.max()).bit_length() // 8):
            value |= found >> np.uint64(8 * place) << np.uint64(7 * place) & _LOW << np.uint64(7 * place)
        sizes = (((last | (last - _ONES)) >> np.uint64(7) & _A_BIT_PER_BYTE) * _A_BIT_PER_BYTE) >> np.uint64(56)
        behind = at + sizes.view(np.int64)
    return (value >> _ONES).view(np.int64) ^ -(value & _ONES).view(np.int64), behind


def varint_views(numbers: Array) -> Array:
    """A binary view of each number, which holds its bytes itself. None has more than five."""
    coded = ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)
    words, widths = coded & _LOW, np.ones(len(coded), np.uint64)
    for place in range(1, 5):
        higher = coded >> np.uint64(7 * place)
        more = (higher > 0).astype(np.uint64)
        words |= (higher & _LOW) << np.uint64(8 * place) | more << np.uint64(8 * place - 1)
        widths += more
    return np.stack((widths | words << np.uint64(32), words >> np.uint64(32)), axis=1)
