"""How many rows an operator gets at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tidegate.runtime.pace import ALONE_MAX, ROWS_AT_START, TARGET_MS, Pace

CEILING = 32_768


def calls(
    pace: Pace, cost_ms: Callable[[int], float], number: int, waiting: Iterable[int] | None = None
) -> list[float]:
    """How long each of so many calls takes, when all that is allowed is there, or no more than ``waiting``."""
    counts = iter(waiting) if waiting is not None else None
    took: list[float] = []
    for _ in range(number):
        rows = pace.rows_max if counts is None else min(pace.rows_max, next(counts))
        took.append(cost_ms(rows))
        pace.observed(rows, took[-1])
    return took


def test_a_fast_operator_soon_gets_as_many_rows_as_there_are() -> None:
    pace = Pace(CEILING, measured=True)
    assert pace.rows_max == ROWS_AT_START
    calls(pace, lambda rows: 0.2 + rows * 0.0001, 12)
    assert pace.rows_max == CEILING


@pytest.mark.parametrize("row_ms", [0.5, 5.0, 30.0, 400.0])
def test_slow_rows_come_in_calls_of_about_the_target_down_to_a_single_row(row_ms: float) -> None:
    """The loop of the slot is back soon, whatever a row costs."""
    took = calls(Pace(CEILING, measured=True), lambda rows: rows * row_ms, 20)
    assert took[0] == ROWS_AT_START * row_ms, "nobody can know"
    assert all(one_ms <= max(TARGET_MS, row_ms) for one_ms in took[1:])


def test_an_operator_that_becomes_slow_is_given_few_rows_even_if_only_a_few_ever_came() -> None:
    """The burst that follows is not one call."""
    pace = Pace(CEILING, measured=True)
    calls(pace, lambda rows: rows * 0.0001, 15)
    calls(pace, lambda rows: rows * 5.0, 6, waiting=[3, 2, 4, 3, 1, 3])
    assert pace.rows_max * 5.0 <= 2 * TARGET_MS


def test_what_a_call_costs_however_few_rows_it_gets_does_not_make_it_smaller_and_smaller() -> None:
    pace = Pace(CEILING, measured=True)
    took = calls(pace, lambda rows: 100 + rows * 0.01, 60)
    assert max(took[-30:]) <= 2 * 100 + 2 * TARGET_MS
    assert min(pace.rows_max, 10_000) >= 2_000, "most of the time would be spent on calling"


def test_a_call_that_costs_much_in_itself_does_not_stay_at_one_row_once_a_busy_machine_has_brought_it_there() -> None:
    pace = Pace(CEILING, measured=True)
    calls(pace, lambda rows: rows * 400.0, 20)
    assert pace.rows_max == 1, "as if every row were slow"
    calls(pace, lambda rows: 100 + rows * 0.01, 2 * ALONE_MAX)
    assert pace.rows_max >= 2_000


def test_after_one_hiccup_the_pace_is_back_within_a_few_calls() -> None:
    pace = Pace(CEILING, measured=True)
    calls(pace, lambda rows: rows * 0.0001, 15)
    pace.observed(CEILING, 3_000.0)
    assert pace.rows_max < CEILING
    calls(pace, lambda rows: rows * 0.0001, 16)
    assert pace.rows_max == CEILING


def test_without_a_clock_nothing_is_measured_and_nothing_changes() -> None:
    assert Pace(CEILING, measured=False).rows_max == CEILING
