"""Rewritten expressions mean the same."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model import types as t
from tidegate.operators.expressions import compile_expression
from tidegate.operators.expressions.rewrites import rewrite
from tidegate.plan.expressions import Call, Case, Column, Literal

X = Column("x", t.LONG)


def window_offset(k: int) -> Case:
    rest = Call("remainder", (X, Literal(k, t.LONG)), t.LONG)
    negative = Call("lessthan", (rest, Literal(0, t.LONG)), t.BOOLEAN)
    return Case(((negative, Call("add", (rest, Literal(k, t.LONG)), t.LONG)),), rest, t.LONG)


def test_the_offset_in_a_window_is_one_modulo() -> None:
    assert rewrite(window_offset(10)) == Call("pmod", (X, Literal(10, t.LONG)), t.LONG)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**40))
def test_the_offset_is_that_of_the_window(x: int, k: int) -> None:
    value = compile_expression(window_offset(k)).value
    assert pl.DataFrame({"x": [x]}).select(value).item() == x % k


def test_a_negative_slide_is_left_as_it_is() -> None:
    assert rewrite(window_offset(-10)) == window_offset(-10)


def test_other_cases_are_left_as_they_are() -> None:
    other = Case(((Call("lessthan", (X, Literal(0, t.LONG)), t.BOOLEAN), X),), X, t.LONG)
    assert rewrite(other) is other


def test_adding_zero_to_a_double_is_kept() -> None:
    """-0.0 + 0.0 is 0.0."""
    double = Call("add", (Column("d", t.DOUBLE), Literal(0, t.DOUBLE)), t.DOUBLE)
    assert rewrite(double) is double
