"""Expiry by blocks of rows: every row is reported when its time has come, once, wherever it moved to."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegate.state.zones import NEVER_US, ExpiryZones


@given(st.lists(st.lists(st.integers(0, 50) | st.just(NEVER_US), max_size=5), max_size=6), st.lists(st.integers(0, 60)))
def test_each_row_is_reported_once_when_its_time_has_come(batches: list[list[int]], bounds: list[int]) -> None:
    zones, times, reported = ExpiryZones(), [], set[int]()
    for number, batch in enumerate(batches):
        zones.add(np.arange(len(times), len(times) + len(batch)), np.array(batch, np.int64))
        times += batch
        for until in sorted(bounds)[number : number + 1]:
            found = zones.expired(until).tolist()
            assert not reported & set(found)
            reported |= set(found)
            assert {row for row, at in enumerate(times) if at <= until} <= reported


def test_many_blocks_are_looked_at_where_something_is_due() -> None:
    zones = ExpiryZones()
    times = np.arange(20_000)
    for start in range(0, 20_000, 700):
        rows = np.arange(start, min(start + 700, 20_000))
        zones.add(rows, times[rows])
    assert zones.expired(9_999).tolist() == list(range(10_000))
    assert zones.expired(9_999).tolist() == []
    assert zones.expired(10_001).tolist() == [10_000, 10_001]


def test_rows_keep_their_times_when_they_move() -> None:
    zones = ExpiryZones()
    zones.add(np.arange(4), np.array([5, 6, 7, 8]))
    zones.rebuild(np.array([1, 3]))
    assert zones.expired(6).tolist() == [0]
    assert zones.expired(8).tolist() == [1]
