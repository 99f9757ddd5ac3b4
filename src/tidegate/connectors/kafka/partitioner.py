"""Which partition a message goes to: Java's way, so that the same key has the same partition, whoever writes it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import polars as pl

from tidegate.connectors.kafka.columns import contiguous
from tidegate.connectors.kafka.librdkafka import ANY_PARTITION, partition_by_murmur2

Array = np.ndarray[Any, Any]

LONG_BYTES = 512
"""Longer keys are hashed one by one: then a call each costs less than the many passes over all of them."""
STICKY_ROWS = 4_096
"""So many messages without a key go to the same partition: many small batches would cost more than they spread."""
_SEED, _FACTOR = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)


def partitions_of(rows: pl.DataFrame, count: int, led: Array, *, has_key: bool, has_partition: bool) -> Array:
    """A partition per row; what a row names is taken as it is. ``led``: those that have a leader, for rows that have no key."""
    if not has_key:
        chosen = _anywhere(rows.height, count, led)
    else:
        chosen = by_key(keys := rows["key"], count)
        if keys.null_count():
            chosen = np.where(keys.is_null().to_numpy(), _anywhere(rows.height, count, led), chosen)
    if not has_partition:
        return chosen
    named = rows["partition"].fill_null(ANY_PARTITION).to_numpy()
    return np.where(named == ANY_PARTITION, chosen, named)


def by_key(keys: pl.Series, count: int) -> Array:
    """Java's choice for each key; that for a null says nothing."""
    array, offsets, data = contiguous(keys)
    lengths = np.diff(offsets)
    starts = offsets[:-1] - offsets[0]
    padding = np.zeros(4, np.uint8)
    held = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None and data.size else padding[:0]
    held = np.concatenate((held, padding))
    if int(lengths.max(initial=0)) <= LONG_BYTES:
        return _chosen(_murmur2(held, starts, lengths), count)
    chosen = np.empty(len(array), np.int64)
    short = np.flatnonzero(lengths <= LONG_BYTES)
    chosen[short] = _chosen(_murmur2(held, starts[short], lengths[short]), count)
    for row in np.flatnonzero(lengths > LONG_BYTES):
        chosen[row] = partition_by_murmur2(held.ctypes.data + int(starts[row]), int(lengths[row]), count)
    return chosen


def _chosen(hashes: Array, count: int) -> Array:
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int64)


def _murmur2(held: Array, starts: Array, lengths: Array) -> Array:
    """Word by word, of all keys that still have one."""
    words = np.ndarray((len(held) - 3,), "<u4", held.data, 0, (1,))  # one at every byte
    hashes = _SEED ^ lengths.astype(np.uint32)
    whole = lengths // 4
    going: Array | slice = slice(None)
    for number in range(int(whole.max(initial=0))):
        if int(whole[going].min()) <= number:
            going = np.flatnonzero(whole > number)
        word = words[starts[going] + 4 * number] * _FACTOR
        word ^= word >> np.uint32(24)
        hashes[going] = hashes[going] * _FACTOR ^ word * _FACTOR
    left = (lengths % 4).astype(np.uint32)
    last = words[starts + 4 * whole] & ((np.uint32(1) << left * np.uint32(8)) - np.uint32(1))
    hashes = np.where(left > 0, (hashes ^ last) * _FACTOR, hashes)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _FACTOR
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _anywhere(rows: int, count: int, led: Array) -> Array:
    choices = led if len(led) else np.arange(count)
    turn = random.randrange(len(choices)) + np.arange(rows) // STICKY_ROWS
    return choices[turn % len(choices)]
