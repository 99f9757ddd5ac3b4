"""Hash → rows: everything that is there is found, nothing else, in bounded portions, and a range narrows a hot hash."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidegate.state.row_index import PAIRS_MAX, RowIndex

Hashes = NDArray[np.uint64]


def hashes(values: list[int]) -> Hashes:
    return np.array(values, np.uint64)


class Table:
    """Rows that may die, and an index over them."""

    def __init__(self) -> None:
        self.alive = np.zeros(0, np.bool_)
        self.index = RowIndex(lambda rows: self.alive[rows])

    def add(self, of: list[int], times_us: list[int]) -> None:
        first = len(self.alive)
        self.alive = np.concatenate([self.alive, np.ones(len(of), np.bool_)])
        self.index.add(hashes(of), np.array(times_us, np.int64), np.arange(first, len(self.alive)))

    def found(self, of: list[int], low: list[int] | None = None, high: list[int] | None = None) -> set[tuple[int, int]]:
        bounds = [None if one is None else np.array(one, np.int64) for one in (low, high)]
        pairs = [pair for portion in self.index.lookup(hashes(of), *bounds) for pair in zip(*portion, strict=True)]
        assert len(pairs) == len(set(pairs))
        return {(int(position), int(row)) for position, row in pairs}


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), max_size=8), st.lists(st.integers(0, 4), max_size=5)
)
def test_all_rows_of_a_hash_are_found_however_they_came(batches: list[list[int]], wanted: list[int]) -> None:
    table = Table()
    for batch in batches:
        table.add(batch, [0] * len(batch))
    every = [one for batch in batches for one in batch]
    assert table.found(wanted) == {
        (i, row) for i, one in enumerate(wanted) for row, other in enumerate(every) if one == other
    }


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40)), max_size=60), st.integers(0, 40), st.integers(0, 10))
def test_a_range_leaves_out_no_row_inside_it(entries: list[tuple[int, int]], low: int, width: int) -> None:
    table = Table()
    for start in range(0, len(entries), 7):
        part = entries[start : start + 7]
        table.add([one for one, _ in part], [at for _, at in part])
    inside = {(0, row) for row, (one, at) in enumerate(entries) if one == 1 and low <= at <= low + width}
    assert table.found([1], [low], [low + width]) >= inside


def test_a_hot_hash_costs_what_its_range_holds() -> None:
    table = Table()
    table.add([7] * 10_000, list(range(10_000)))
    assert len(table.found([7], [500], [504])) == 5


def test_many_partners_come_in_bounded_portions() -> None:
    table = Table()
    table.add([7] * 1_000, [0] * 1_000)
    portions = [len(rows) for _, rows in table.index.lookup(hashes([7] * 100), None, None)]
    assert sum(portions) == 100_000
    assert max(portions) <= PAIRS_MAX


def test_a_row_removed_between_two_portions_is_not_in_the_second() -> None:
    table = Table()
    table.add([7] * 40_000, [0] * 40_000)
    portions = table.index.lookup(hashes([7] * 2), None, None)
    _, first = next(portions)
    table.alive[first] = False
    assert not set(first) & {row for _, rows in portions for row in rows}


def test_rows_keep_their_partners_when_they_move() -> None:
    table = Table()
    table.add([1, 2, 1, 2], [0, 0, 0, 0])
    table.alive = np.ones(2, np.bool_)
    table.index.rebuild(np.array([1, 2]))
    assert table.found([1, 2]) == {(0, 1), (1, 0)}
