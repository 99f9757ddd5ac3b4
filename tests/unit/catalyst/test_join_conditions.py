"""What the condition of a join says about keys, and about how far apart in time two rows may be."""

from __future__ import annotations

import datetime

import pytest

from tidegate.catalyst.join_conditions import EquiKey, conjunction, split, time_ranges
from tidegate.model import types as t
from tidegate.model.types import Field
from tidegate.plan.expressions import Call, Cast, Column, Expression, Literal
from tidegate.plan.keyed import TimeRange

LEFT = (Field("k", t.LONG), Field("a", t.TIMESTAMP), Field("x", t.INTEGER))
RIGHT = (Field("l", t.LONG), Field("b", t.TIMESTAMP), Field("y", t.INTEGER))
K, L, A, B = Column("k", t.LONG), Column("l", t.LONG), Column("a", t.TIMESTAMP), Column("b", t.TIMESTAMP)
SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US


def compare(function: str, one: Expression, other: Expression) -> Call:
    return Call(function, (one, other), t.BOOLEAN)


def plus(column: Expression, seconds: float) -> Call:
    interval = Literal(datetime.timedelta(seconds=seconds), t.DAY_TIME_INTERVAL)
    return Call("timestampaddinterval", (column, interval), t.TIMESTAMP)


def seconds(column: Column) -> Cast:
    return Cast(column, t.LONG)


def only(condition: Expression | None) -> TimeRange:
    (found,) = time_ranges(condition, LEFT, RIGHT)
    return found


def test_equalities_between_the_sides_are_keys_whichever_way_round() -> None:
    sum_of_both = compare("equalto", Call("add", (K, L), t.LONG), Literal(3, t.LONG))
    keys, rest = split(
        conjunction([compare("equalto", L, K), compare("equalnullsafe", K, L), sum_of_both]), LEFT, RIGHT
    )
    assert keys == [EquiKey(K, L, null_safe=False), EquiKey(K, L, null_safe=True)]
    assert rest == [sum_of_both]


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        (compare("greaterthanorequal", B, A), 0, None),
        (compare("greaterthan", B, A), 1, None),
        (compare("lessthanorequal", B, plus(A, 5)), None, 5 * SECOND_US),
        (compare("lessthan", B, plus(A, 5)), None, 5 * SECOND_US - 1),
        (compare("greaterthan", plus(A, 5), B), None, 5 * SECOND_US - 1),
        (compare("lessthanorequal", A, plus(B, -5)), 5 * SECOND_US, None),
        (compare("lessthanorequal", plus(A, 1), plus(B, -1)), 2 * SECOND_US, None),
        (compare("equalto", A, plus(B, 7)), -7 * SECOND_US, -7 * SECOND_US),
        (compare("lessthan", Call("subtracttimestamps", (B, A), t.DAY_TIME_INTERVAL), Literal(datetime.timedelta(seconds=2), t.DAY_TIME_INTERVAL)), None, 2 * SECOND_US - 1),
    ],
)  # fmt: skip
def test_a_comparison_of_times_is_a_bound(condition: Call, low: int | None, high: int | None) -> None:
    assert only(condition) == TimeRange("a", "b", low, high)


def test_bounds_on_both_sides_become_one_range_the_tightest_of_each() -> None:
    condition = conjunction(
        [
            compare("greaterthanorequal", B, A),
            compare("lessthanorequal", B, plus(A, 5)),
            compare("lessthan", B, plus(A, 9)),
        ]
    )
    assert only(condition) == TimeRange("a", "b", 0, 5 * SECOND_US)


def test_whole_seconds_are_right_to_within_two_of_them() -> None:
    """Both times are cut to seconds: a row up to a second beyond the bound may still match."""
    apart = Call("subtract", (seconds(B), seconds(A)), t.LONG)
    condition = conjunction(
        [compare("greaterthanorequal", apart, Literal(0, t.LONG)), compare("lessthan", apart, Literal(3, t.LONG))]
    )
    found = only(condition)
    assert found.low_us is not None
    assert found.low_us <= -SECOND_US + 1
    assert found.high_us is not None
    assert found.high_us >= 3 * SECOND_US - 1


def test_days_are_as_long_as_the_clock_makes_them() -> None:
    found = only(compare("lessthanorequal", B, plus(A, 86_400)))
    assert found.high_us == 26 * HOUR_US


@pytest.mark.parametrize(
    "condition",
    [
        None,
        compare("lessthan", Column("x", t.INTEGER), Column("y", t.INTEGER)),
        compare("lessthan", A, plus(A, 5)),
        compare("lessthan", A, Literal(0, t.TIMESTAMP)),
        Call("or", (compare("lessthan", A, B), compare("equalto", K, L)), t.BOOLEAN),
        Call("not", (compare("lessthan", A, B),), t.BOOLEAN),
    ],
)
def test_anything_else_bounds_nothing(condition: Expression | None) -> None:
    assert time_ranges(condition, LEFT, RIGHT) == []
