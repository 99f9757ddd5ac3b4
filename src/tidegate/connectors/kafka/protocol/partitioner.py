"""Which partition a message goes to: Java's way, so that equal keys have the same partition in all of Kafka's clients."""

from __future__ import annotations

import random
from enum import Enum
from typing import Any

import numpy as np
import polars as pl

from tidegate.connectors.kafka.protocol.views import contiguous

Array = np.ndarray[Any, Any]

ANY_PARTITION = -1
FEW_KEYS = 64
"""So many keys or fewer, if they are long, are hashed one by one: NumPy has a price for each of its passes."""
MANY_WORDS = 128
STICKY_ROWS = 4_096
"""So many messages without a key go to the same partition: many small batches would cost more than they spread."""
_SEED, _FACTOR, _ALL = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF
_FACTORS = np.uint32(_FACTOR)


class Partitioner(Enum):
    """Under librdkafka's names."""

    MURMUR2_RANDOM = "murmur2_random"
    """As Java does it: by the key; without a key anywhere."""
    MURMUR2 = "murmur2"
    """A message without a key goes where an empty key goes."""
    RANDOM = "random"
    """Keys mean nothing."""


def partitions_of(
    rows: pl.DataFrame,
    count: int,
    led: Array,
    *,
    has_key: bool,
    has_partition: bool,
    by: Partitioner = Partitioner.MURMUR2_RANDOM,
) -> Array:
    """A partition per row; what a row names is taken as it is. ``led``: those that have a leader, for rows that have no key."""
    chosen = _chosen_by_key(rows, count, led, has_key=has_key, by=by)
    if not has_partition:
        return chosen
    named = rows["partition"].fill_null(ANY_PARTITION).to_numpy()
    return np.where(named == ANY_PARTITION, chosen, named)


def _chosen_by_key(rows: pl.DataFrame, count: int, led: Array, *, has_key: bool, by: Partitioner) -> Array:
    if by is Partitioner.RANDOM or (by is Partitioner.MURMUR2_RANDOM and not has_key):
        return _anywhere(rows.height, count, led)
    keys = rows["key"] if has_key else pl.repeat(None, rows.height, dtype=pl.Binary, eager=True)
    chosen = by_key(keys, count)
    if by is Partitioner.MURMUR2_RANDOM and keys.null_count():
        chosen = np.where(keys.is_null().to_numpy(), _anywhere(rows.height, count, led), chosen)
    return chosen


def by_key(keys: pl.Series, count: int) -> Array:
    """Java's choice for each key. A null counts as empty."""
    _, offsets, data = contiguous(keys)
    lengths = np.diff(offsets)
    starts = offsets[:-1] - offsets[0]
    padding = np.zeros(4, np.uint8)
    held = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None and data.size else padding[:0]
    hashes = _murmur2(np.concatenate((held, padding)), starts, lengths)
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int64)


def _murmur2(held: Array, starts: Array, lengths: Array) -> Array:
    """Word by word, of all keys that still have one; the few that are much longer than the others, one by one."""
    words = np.ndarray((len(held) - 3,), "<u4", held.data, 0, (1,))  # one at every byte
    hashes = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    whole = lengths // 4
    going: Array | slice = slice(None)
    for number in range(int(whole.max(initial=0))):
        if number == MANY_WORDS or int(whole[going].min()) <= number:
            going = np.flatnonzero(whole > number)
            if number >= MANY_WORDS and len(going) <= FEW_KEYS:
                for key in going.tolist():
                    begin, end = int(starts[key] + 4 * number), int(starts[key] + 4 * whole[key])
                    hashes[key] = _mixed(int(hashes[key]), held[begin:end])
                break
        word = words[starts[going] + 4 * number] * _FACTORS
        word ^= word >> np.uint32(24)
        hashes[going] = hashes[going] * _FACTORS ^ word * _FACTORS
    left = (lengths % 4).astype(np.uint32)
    last = words[starts + 4 * whole] & ((np.uint32(1) << left * np.uint32(8)) - np.uint32(1))
    hashes = np.where(left > 0, (hashes ^ last) * _FACTORS, hashes)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _FACTORS
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _mixed(so_far: int, words: Array) -> int:
    """One key's hash, with these words, which are whole ones."""
    mixed = words.view("<u4") * _FACTORS
    mixed ^= mixed >> np.uint32(24)
    mixed *= _FACTORS
    for word in mixed.tolist():
        so_far = (so_far * _FACTOR & _ALL) ^ word
    return so_far


def _anywhere(rows: int, count: int, led: Array) -> Array:
    choices = led if len(led) else np.arange(count)
    turn = random.randrange(len(choices)) + np.arange(rows) // STICKY_ROWS
    return choices[turn % len(choices)]
