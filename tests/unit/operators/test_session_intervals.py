"""Which intervals are one session."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.session_intervals import END, ROW, SESSION, START, all_apart, bounds, numbered, packed, unpacked

FAR = 1 << 61


def frame(*intervals: tuple[int, int, int]) -> pl.DataFrame:
    return pl.DataFrame(intervals, schema={ROW: pl.Int64, START: pl.Int64, END: pl.Int64}, orient="row")


def sessions(*intervals: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    return bounds(numbered(frame(*intervals))).rows()


def test_overlapping_and_touching_intervals_are_one_and_others_are_not() -> None:
    assert sessions((1, 0, 5), (1, 5, 9), (1, 10, 12)) == [(1, 0, 9), (1, 10, 12)]


def test_a_long_interval_reaches_over_shorter_ones() -> None:
    assert sessions((1, 0, 50), (1, 1, 2), (1, 40, 41), (1, 51, 52)) == [(1, 0, 50), (1, 51, 52)]


def test_what_one_key_reached_says_nothing_about_the_next() -> None:
    assert sessions((1, 0, 50), (2, 10, 12), (2, 20, 22)) == [(1, 0, 50), (2, 10, 12), (2, 20, 22)]


@pytest.mark.parametrize("far", [1_000, FAR])
def test_times_far_apart_are_told_apart(far: int) -> None:
    """Also beyond what one running maximum over all keys can hold."""
    intervals = [(key, start, start + 5) for key in (1, 2, 3) for start in (-far, 0, 3, far)]
    assert sessions(*intervals) == [
        (key, *bound) for key in (1, 2, 3) for bound in ((-far, 5 - far), (0, 8), (far, far + 5))
    ]


def test_no_interval_is_no_session() -> None:
    assert sessions() == []
    assert all_apart(numbered(frame()))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(1, 6)), min_size=1))
def test_packed_sessions_come_back_as_they_were(drawn: list[tuple[int, int, int]]) -> None:
    made = numbered(frame(*((row, start, start + gap) for row, start, gap in drawn)))
    whole = bounds(made).with_columns(pl.int_range(pl.len()).alias("n"))
    values = packed(whole)
    rows = values.drop_in_place(ROW)
    assert unpacked(rows, values, ["n"]).equals(whole)
    assert all_apart(made) == (whole.height == len(drawn))
    assert SESSION not in whole.columns
