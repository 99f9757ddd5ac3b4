"""What an integral expression can be at most: overflow checks that can never fire are not made.

Window assignment is the reason: ``ts - (ts - start) % slide`` would otherwise pay a check per step and per row.
"""

from __future__ import annotations

from typing import NamedTuple

from tidegate.model import types as t
from tidegate.model.types import DataType
from tidegate.operators.expressions.registry import canonical
from tidegate.plan.expressions import Call, Case, Cast, Expression, Literal

TIMESTAMP_MAX_US = 8_200_000_000_000_000_000
"""Polars' calendar ends in the year 262142; no timestamp column holds more (and casts check it)."""


class Bounds(NamedTuple):
    low: int
    high: int

    def within(self, other: Bounds) -> bool:
        return other.low <= self.low and self.high <= other.high

    def clip(self, to: Bounds) -> Bounds:
        low, high = max(self.low, to.low), min(self.high, to.high)
        return Bounds(low, high) if low <= high else to


_BITS: dict[DataType, int] = {
    t.BYTE: 8,
    t.SHORT: 16,
    t.INTEGER: 32,
    t.LONG: 64,
    t.DAY_TIME_INTERVAL: 64,
    t.YEAR_MONTH_INTERVAL: 32,
}


def type_bounds(of: DataType) -> Bounds:
    bits = _BITS[of]
    return Bounds(-(1 << bits - 1), (1 << bits - 1) - 1)


def exact(operation: str, left: Bounds, right: Bounds) -> Bounds:
    """Bounds of ``left operation right`` in unlimited arithmetic."""
    match operation:
        case "add":
            return Bounds(left.low + right.low, left.high + right.high)
        case "subtract":
            return Bounds(left.low - right.high, left.high - right.low)
        case "multiply":
            corners = [a * b for a in left for b in right]
            return Bounds(min(corners), max(corners))
        case _:
            raise ValueError(operation)


def bounds(of: Expression) -> Bounds:
    """Bounds of the values that no guard rejects. Only for integral expressions."""
    whole = type_bounds(of.type)
    match of:
        case Literal(value=int(value)):
            return Bounds(value, value)
        case Cast(child=child) if child.type in t.INTEGRAL:
            return bounds(child).clip(whole)
        case Call(function=name, args=args):
            return _call_bounds(canonical(name), args).clip(whole)
        case Case(branches=branches, otherwise=otherwise):
            values = [bounds(value) for _, value in branches]
            if otherwise is not None:
                values.append(bounds(otherwise))
            return Bounds(min(low for low, _ in values), max(high for _, high in values))
        case _:
            return whole


def _call_bounds(name: str, args: tuple[Expression, ...]) -> Bounds:
    unknown = Bounds(-(1 << 63), (1 << 63) - 1)
    if name == "precisetimestampconversion" and args[0].type == t.TIMESTAMP:
        return Bounds(-TIMESTAMP_MAX_US, TIMESTAMP_MAX_US)
    if not all(arg.type in _BITS for arg in args):
        return unknown
    match name, args:
        case (("add" | "subtract" | "multiply"), (left, right)):
            return exact(name, bounds(left), bounds(right))
        case (("remainder" | "pmod"), (left, Literal(value=int(divisor)))) if divisor != 0:
            reach = abs(divisor) - 1
            low = 0 if name == "pmod" and divisor > 0 else max(-reach, min(bounds(left).low, 0))
            return Bounds(low, reach)
        case _:
            return unknown
