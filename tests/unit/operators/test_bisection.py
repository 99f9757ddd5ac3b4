"""Calling a function with parts of a batch until the rows it raises for are known."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.bisection import Accepted, Refused, first_refused, sifted


def refusing(bad: set[int], calls: list[range]) -> Callable[[range], list[int]]:
    def call(rows: range) -> list[int]:
        calls.append(rows)
        found = sorted(bad.intersection(rows))
        if found:
            raise ValueError(f"row {found[0]}")
        return list(rows)

    return call


@given(height=st.integers(1, 300), bad=st.sets(st.integers(0, 299), max_size=8))
def test_exactly_the_bad_rows_are_refused_and_all_others_are_taken_in_order(height: int, bad: set[int]) -> None:
    calls: list[range] = []
    outcomes = list(sifted(range(height), refusing(bad, calls)))
    wrong = sorted(bad.intersection(range(height)))
    assert [one.index for one in outcomes if isinstance(one, Refused)] == wrong
    assert [str(one.error) for one in outcomes if isinstance(one, Refused)] == [f"row {index}" for index in wrong]
    taken = [index for one in outcomes if isinstance(one, Accepted) for index in one.result]
    assert taken == [index for index in range(height) if index not in bad]
    assert len(calls) <= 1 + 2 * len(wrong) * height.bit_length()


@given(height=st.integers(1, 5_000), bad=st.sets(st.integers(0, 4_999), min_size=1, max_size=8))
def test_the_first_bad_row_is_found_in_few_calls(height: int, bad: set[int]) -> None:
    wrong = bad.intersection(range(height)) or {height - 1}
    calls: list[range] = []
    first = first_refused(range(height), refusing(wrong, calls), ValueError("all"))
    assert first is not None and first.index == min(wrong)
    assert len(calls) <= 2 * height.bit_length()
    assert str(first.error) == (f"row {min(wrong)}" if height > 1 else "all")


def test_a_function_that_fails_only_for_the_whole_blames_no_row_and_takes_the_halves() -> None:
    def call(rows: range) -> int:
        if len(rows) == 10:
            raise ValueError("ten at once")
        return len(rows)

    assert first_refused(range(10), call, ValueError("ten at once")) is None
    assert [one.result for one in sifted(range(10), call) if isinstance(one, Accepted)] == [5, 5]
