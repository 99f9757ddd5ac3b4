"""Arrow's binary views: columns whose bytes stay where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.model.errors import Unavailable

Array = np.ndarray[Any, Any]

NULL_LENGTH = -1
_WORD_BYTES = 8
_INLINE_BYTES_MAX = 12
"""A view that is not longer holds the bytes itself."""
_BUFFER_BYTES_MAX = 2**31 - 64
_BUFFERS_MAX, _ONE_BUFFER_BYTES_MAX = 64, 1 << 30
"""A column put together from many frames has the buffers of all of them: looking after each would cost more than copying."""
_LOW_BYTES = np.array([2 ** (8 * n) - 1 for n in range(9)], np.uint64)
"""Masks for the first n bytes of a word."""


def binary_views(data: Array, offsets: Array, sizes: Array, present: Array) -> pl.Series:
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
    views[:, 1] = np.where(sizes > _INLINE_BYTES_MAX, offsets.astype(np.uint64) << np.uint64(32), tail)
    valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [valid, pa.py_buffer(views), pa.py_buffer(data)]
    return pl.Series(pa.Array.from_buffers(pa.binary_view(), len(offsets), buffers))


def views_of(column: pl.Series, buffers_before: int = 0) -> tuple[Array, Array, tuple[pa.Buffer, ...]]:
    """Views, lengths and the buffers that the views point into, when so many other buffers stand before them.

    A null has an empty view and ``NULL_LENGTH``.
    """
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
    return moved(views, lengths, buffers_before), lengths, tuple(buffers)


def moved(views: Array, lengths: Array, buffers: int) -> Array:
    """Equal views, when so many buffers stand before those that the views were made for."""
    if not buffers:
        return views
    found = views.copy()
    found[:, 1] += np.where(lengths > _INLINE_BYTES_MAX, np.uint64(buffers), np.uint64(0))
    return found


def contiguous(column: pl.Series) -> tuple[pa.Array, Array, pa.Buffer | None]:
    """Its bytes one value behind the other: who owns them, where in them each value begins and the last one ends, and the bytes."""
    array = column.cast(pl.Binary).to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets_buffer, data = array.buffers()
    return array, np.frombuffer(offsets_buffer, np.int64)[array.offset : array.offset + len(array) + 1], data
