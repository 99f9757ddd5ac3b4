"""The judge itself: it must see every kind of difference, and nothing else."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.differential.compare import EXACT, Rules, difference

NAN = float("nan")


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ([(1, "a"), (1, "a")], [(1, "a"), (1, "a")]),
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")]),
        ([(1, NAN)], [(1, float("nan"))]),
        ([(1, -0.0)], [(1, 0.0)]),
        ([(1, {"a": 1, "b": 2})], [(1, {"b": 2, "a": 1})]),
        ([(1, b"x")], [(1, bytearray(b"x"))]),
    ],
)
def test_equal_results_have_no_difference(expected: list[tuple], actual: list[tuple]) -> None:
    assert difference(["id", "v"], expected, actual) == ""


def test_a_row_too_many_and_a_row_too_few_are_named() -> None:
    report = difference(["id", "v"], [(1, "a"), (1, "a")], [(1, "a"), (7, "x")])
    assert "missing (1):\n  id=1, v='a'" in report
    assert "extra (1):\n  id=7, v='x'" in report


def test_a_changed_row_shows_only_what_changed() -> None:
    report = difference(["id", "v", "w"], [(1, "a", 5)], [(1, "b", 5)], Rules(keys=("id",)))
    assert "[id=1] v: expected 'a', got 'b'" in report


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ((Decimal("1.0"),), (Decimal("1.00"),)),
        ((None,), (0,)),
        ((1.0,), (1.0000000001,)),
        (([1, 2],), ([2, 1],)),
        (("a",), ("a ",)),
    ],
)
def test_what_spark_tells_apart_is_told_apart(expected: tuple, actual: tuple) -> None:
    assert difference(["v"], [expected], [actual])


def test_rules_loosen_exactly_the_columns_they_name() -> None:
    assert difference(["k", "v"], [(1, 1.0)], [(1, 1.0 + 1e-12)], Rules(approximate=("v",))) == ""
    assert difference(["k", "v"], [(1, 1.0)], [(1, 1.1)], Rules(approximate=("v",)))
    assert difference(["k", "v"], [(1, [1, 2])], [(1, [2, 1])], Rules(unordered=("v",))) == ""
    assert difference(["k", "v"], [(1, [1, 2])], [(1, [2, 1])], EXACT)
