"""The hash index: right rows, whatever the hashes."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.state.index import MISSING, KeyIndex


class Keys:
    """Integer keys with a hash of choice, as a table would hold them."""

    def __init__(self, hash_of) -> None:
        self.index, self.stored, self.hash_of = KeyIndex(), np.zeros(0, np.int64), hash_of

    def add(self, keys: np.ndarray) -> np.ndarray:
        found, added = self.index.find_or_add(
            self.hash_of(keys), lambda i, rows: self.stored[rows] == keys[i], lambda i, j: keys[i] == keys[j]
        )
        self.stored = np.concatenate([self.stored, keys[added]])
        return found

    def find(self, keys: np.ndarray) -> np.ndarray:
        return self.index.find(self.hash_of(keys), lambda i, rows: self.stored[rows] == keys[i])


def spread(keys: np.ndarray) -> np.ndarray:
    return keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def constant(keys: np.ndarray) -> np.ndarray:
    """Every 64-bit hash collides with every other."""
    return np.full(len(keys), 42, np.uint64)


def few(keys: np.ndarray) -> np.ndarray:
    return spread(keys % 5)


@pytest.mark.parametrize("hash_of", [spread, constant, few])
def test_each_key_keeps_its_own_row(hash_of) -> None:
    keys = Keys(hash_of)
    rng = np.random.default_rng(1)
    rows: dict[int, int] = {}
    for _ in range(30):
        batch = rng.integers(0, 300, 50)
        for key, row in zip(batch.tolist(), keys.add(batch).tolist(), strict=True):
            assert rows.setdefault(key, row) == row
    assert sorted(rows.values()) == list(range(len(rows)))
    asked = np.arange(400)
    assert keys.find(asked).tolist() == [rows.get(key, MISSING) for key in asked.tolist()]


@pytest.mark.parametrize("hash_of", [spread, constant])
def test_equal_keys_of_one_batch_share_a_row(hash_of) -> None:
    found = Keys(hash_of).add(np.array([7, 8, 7, 7, 9, 8]))
    assert found[0] == found[2] == found[3] and found[1] == found[5]
    assert len(set(found.tolist())) == 3


def test_growing_forgets_nothing() -> None:
    keys = Keys(spread)
    first = keys.add(np.arange(1000))
    keys.add(np.arange(1000, 200_000))
    assert (keys.find(np.arange(1000)) == first).all()


def test_rebuilding_renumbers_the_rows_that_stay() -> None:
    keys = Keys(spread)
    keys.add(np.arange(10_000))
    keep = np.flatnonzero(keys.stored % 2 == 1)
    keys.index.rebuild(keep)
    keys.stored = keys.stored[keep]
    assert (keys.find(np.arange(0, 10_000, 2)) == MISSING).all()
    assert (keys.stored[keys.find(np.arange(1, 10_000, 2))] == np.arange(1, 10_000, 2)).all()
