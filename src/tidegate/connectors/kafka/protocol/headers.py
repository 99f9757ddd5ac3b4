"""Headers of records, for whole columns: made of lists of key and value, and made into them again. No step per record."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.connectors.kafka.protocol.codec import MalformedAnswer
from tidegate.connectors.kafka.protocol.varints import varint_views, varints
from tidegate.connectors.kafka.protocol.views import binary_views, views_of

Array = np.ndarray[Any, Any]

HEADERS = pl.List(pl.Struct({"key": pl.String, "value": pl.Binary}))


class HeaderWithoutKey(ValueError):
    """A header of a record has a null for its name."""


def encoded(headers: pl.Series) -> pl.Series:
    """What stands behind the value of each record: how many headers there are, and the headers. A null list has none.

    One header is four views: the length of the key, the key, the length of the value, the value. The number of headers of a record
    stands before them. Casting that column to contiguous bytes lays everything down in one pass.
    """
    counts = headers.list.len().fill_null(0).to_numpy().astype(np.int64)
    flat = headers.filter(headers.list.len() > 0).explode()
    key_views, key_lengths, key_buffers = views_of(flat.struct.field("key"))
    value_views, value_lengths, value_buffers = views_of(flat.struct.field("value"), len(key_buffers))
    if (key_lengths < 0).any():
        raise HeaderWithoutKey
    before = np.cumsum(counts) - counts
    starts = np.arange(len(counts)) + 4 * before  # of the number of each record's headers
    views = np.zeros((len(counts) + 4 * len(key_lengths), 2), np.uint64)
    views[starts] = varint_views(counts)
    behind = np.repeat(np.arange(len(counts)) + 1, counts) + 4 * np.arange(len(key_lengths))
    views[behind] = varint_views(key_lengths)
    views[behind + 1] = key_views
    views[behind + 2] = varint_views(value_lengths)
    views[behind + 3] = value_views
    buffers = [None, pa.py_buffer(views), *key_buffers, *value_buffers]
    laid_down = pa.Array.from_buffers(pa.binary_view(), len(views), buffers, null_count=0).cast(pa.large_binary())
    _, ends, data = laid_down.buffers()
    offsets = np.frombuffer(ends, np.int64)[np.append(starts, len(views))]
    whole = pa.Array.from_buffers(pa.large_binary(), len(counts), [None, pa.py_buffer(offsets), data], null_count=0)
    return pl.Series(whole)


def decoded(data: Array, words: Array, at: Array) -> pl.Series:
    """Lists of the headers that stand at these places of ``data``; null where there are none.

    The first headers of all records are looked at together, then the second ones of those that have two, and so on.
    """
    counts, at = varints(words, at)
    if (counts < 0).any() or int(counts.sum()) > len(data):
        raise MalformedAnswer("a message with fewer than no headers, or more than it has bytes")
    first = np.cumsum(counts) - counts
    total = int(counts.sum())
    keys, key_sizes, values, value_sizes = (np.zeros(total, np.int64) for _ in range(4))
    left = np.flatnonzero(counts)
    number = 0
    while len(left):
        place = first[left] + number
        key_sizes[place], keys[place] = varints(words, at[left])
        value_sizes[place], values[place] = varints(words, keys[place] + np.maximum(key_sizes[place], 0))
        at[left] = values[place] + np.maximum(value_sizes[place], 0)
        if int(at[left].max()) > len(data):
            raise MalformedAnswer("headers of a message reach behind its end")
        number += 1
        left = left[counts[left] > number]
    content = pl.DataFrame({"key": _text(data, keys, key_sizes), "value": _binary(data, values, value_sizes)})
    return _lists(content.to_struct(), counts)


def _lists(content: pl.Series, counts: Array) -> pl.Series:
    offsets = np.append(np.int64(0), np.cumsum(counts))
    valid = None if counts.all() else pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    inside = content.to_arrow(compat_level=pl.CompatLevel.newest())
    kind = pa.large_list(inside.type)
    whole = pa.Array.from_buffers(kind, len(counts), [valid, pa.py_buffer(offsets)], children=[inside])
    return pl.Series(whole).cast(HEADERS)


def _binary(data: Array, at: Array, sizes: Array) -> pl.Series:
    return binary_views(data, at, np.maximum(sizes, 0), sizes >= 0)


def _text(data: Array, at: Array, sizes: Array) -> pl.Series:
    column = binary_views(data, at, np.maximum(sizes, 0), np.ones(len(sizes), bool))
    try:
        return column.cast(pl.String)
    except pl.exceptions.PolarsError:  # A producer may name a header by any bytes.
        return pl.Series([name.decode(errors="replace") for name in column.to_list()], dtype=pl.String)
