"""Bytes somewhere in memory as a column: any sizes, any places, nulls; never a byte of what lies between unreachable pages."""

from __future__ import annotations

import ctypes
import mmap
from random import Random

import numpy as np
import polars as pl
import pytest

from tidegate.connectors.kafka.fetched import binary_columns, runs


def binary_column(at: np.ndarray, sizes: np.ndarray) -> pl.Series:
    (column,) = binary_columns((at, sizes))
    return column


class Memory:
    """Values written into maps of memory of their own, with gaps between them."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)
        self._kept: list[np.ndarray] = []

    def write(self, values: list[bytes | None], gap_max: int = 30) -> tuple[np.ndarray, np.ndarray]:
        """Addresses and sizes."""
        gaps = [self._random.randrange(gap_max + 1) for _ in values]
        room = np.frombuffer(mmap.mmap(-1, sum(gaps) + sum(len(one or b"") for one in values) + 1), np.uint8)
        self._kept.append(room)
        places, at = [], 0
        for value, gap in zip(values, gaps, strict=True):
            at += gap
            places.append(0 if value is None else room.ctypes.data + at)
            if value:
                room[at : at + len(value)] = np.frombuffer(value, np.uint8)
                at += len(value)
        return np.array(places, np.int64), np.array([len(one or b"") for one in values], np.int64)


def _values(random: Random, count: int, size_max: int, *, nulls: bool) -> list[bytes | None]:
    return [
        None
        if nulls and random.random() < 0.2
        else random.randbytes(random.choice((0, 1, 3, 4, 5, 11, 12, 13, size_max)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("gap_max", [0, 30, 20_000])
@pytest.mark.parametrize("nulls", [False, True])
def test_a_column_holds_what_was_there_whatever_the_sizes_and_gaps(gap_max: int, nulls: bool, seed: int) -> None:
    random = Random(seed)
    for round_number in range(20):
        values = _values(random, random.randrange(1, 200), random.randrange(14, 6_000), nulls=nulls)
        memory = Memory(round_number)
        at, sizes = memory.write(values, gap_max)
        column = binary_column(at, sizes)
        assert column.dtype == pl.Binary
        assert column.to_list() == values


def test_columns_that_lie_between_each_other_are_copied_together(seed: int) -> None:
    random = Random(seed)
    rows = [tuple(_values(random, 2, 40, nulls=True)) for _ in range(300)]
    memory = Memory()
    at, sizes = memory.write([value for row in rows for value in row])
    keys, values = binary_columns((at[::2], sizes[::2]), (at[1::2], sizes[1::2]))
    assert list(zip(keys.to_list(), values.to_list(), strict=True)) == rows


def test_values_of_several_fetches_lie_anywhere() -> None:
    """In other maps, before and after each other: what is between them belongs to nobody."""
    memory, random = Memory(), Random(3)
    parts = [_values(random, 50, 100, nulls=False) for _ in range(6)]
    written = [memory.write(one) for one in parts]
    order = [3, 0, 5, 1, 4, 2]
    at = np.concatenate([written[one][0] for one in order])
    sizes = np.concatenate([written[one][1] for one in order])
    assert binary_column(at, sizes).to_list() == [value for one in order for value in parts[one]]


def test_a_page_that_cannot_be_read_is_not_touched() -> None:
    """A value ends at the end of its page, the next one is two pages on; an empty one stands where nothing can be read."""
    view = np.frombuffer(mmap.mmap(-1, 4 * mmap.PAGESIZE), np.uint8)
    start, page = view.ctypes.data, mmap.PAGESIZE
    at = np.array([start + page - 20, start + page, start + 2 * page], np.int64)
    sizes = np.array([20, 0, 8], np.int64)
    _protect(start + page, page, 0)
    try:
        assert binary_column(at, sizes).to_list() == [bytes(20), b"", bytes(8)]
    finally:
        _protect(start + page, page, mmap.PROT_READ | mmap.PROT_WRITE)


def test_nothing_but_nulls_and_nothing_but_empty_values() -> None:
    assert binary_column(np.zeros(3, np.int64), np.zeros(3, np.int64)).to_list() == [None] * 3
    memory = Memory()
    at, sizes = memory.write([b"", b""])
    assert binary_column(at, sizes).to_list() == [b"", b""]


def test_runs_end_where_any_column_changes() -> None:
    assert runs(np.array([0, 0, 1, 1, 1]), np.array([5, 5, 5, 5, 6])) == [(0, 2), (2, 4), (4, 5)]
    assert runs(np.array([7])) == [(0, 1)]


def _protect(address: int, size: int, how: int) -> None:

    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), how) == 0
