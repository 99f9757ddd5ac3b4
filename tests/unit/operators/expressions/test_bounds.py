"""Overflow checks that can never fire are not made."""

from __future__ import annotations

import pytest

from tidegate.model import types as t
from tidegate.operators.expressions import compile_expression
from tidegate.operators.expressions.bounds import Bounds, bounds
from tidegate.plan.expressions import Call, Case, Cast, Column, Expression, Literal

TS = Column("ts", t.TIMESTAMP)
L = Column("l", t.LONG)
I = Column("i", t.INTEGER)  # noqa: E741


def long(value: int) -> Literal:
    return Literal(value, t.LONG)


def call(name: str, *args: Expression) -> Call:
    return Call(name, args, t.LONG)


def test_window_assignment_needs_no_overflow_check() -> None:
    """``ts - (ts - start) % slide`` and its end, the arithmetic of every time window."""
    micros = call("precisetimestampconversion", TS)
    rest = call("remainder", call("subtract", micros, long(0)), long(10_000_000))
    negative = Call("lessthan", (rest, long(0)), t.BOOLEAN)
    start = call("subtract", micros, Case(((negative, call("add", rest, long(10_000_000))),), rest, t.LONG))
    assert compile_expression(call("add", start, long(10_000_000))).guards == ()


def test_widened_operands_need_none_either() -> None:
    assert compile_expression(call("multiply", Cast(I, t.LONG), Cast(I, t.LONG))).guards == ()


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
def test_full_range_operands_do(name: str) -> None:
    assert len(compile_expression(call(name, L, L)).guards) == 1


def test_a_remainder_is_smaller_than_its_divisor() -> None:
    assert bounds(call("remainder", L, long(-10))) == Bounds(-9, 9)
    assert bounds(call("pmod", L, long(10))) == Bounds(0, 9)


def test_a_checked_result_stays_in_its_type() -> None:
    assert bounds(call("add", L, L)) == Bounds(-(2**63), 2**63 - 1)
