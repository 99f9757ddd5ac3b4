"""The condition of a join, taken apart: equal keys, the rest, and what it says about how far apart in time two rows may be."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.catalyst.printing import sql_text
from tidegate.model import types as t
from tidegate.model.types import Schema
from tidegate.plan.expressions import Call, Cast, Column, Expression, Literal, columns_of
from tidegate.plan.keyed import TimeRange

_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
_CLOCK_CHANGE_US = 2 * 3_600 * _SECOND_US
"""A calendar day may be so much longer or shorter than 24 hours."""
_TIMES = (t.TIMESTAMP, t.TIMESTAMP_NTZ)
_WHOLE = (t.BYTE, t.SHORT, t.INTEGER, t.LONG)
_FRACTIONS = (t.FLOAT, t.DOUBLE)
_OPPOSITE = {
    "lessthan": "greaterthan",
    "lessthanorequal": "greaterthanorequal",
    "greaterthan": "lessthan",
    "greaterthanorequal": "lessthanorequal",
    "equalto": "equalto",
}


@dataclass(frozen=True, slots=True)
class EquiKey:
    """``left = right``, each over the columns of one side only."""

    left: Expression
    right: Expression
    null_safe: bool


def split(condition: Expression | None, left: Schema, right: Schema) -> tuple[list[EquiKey], list[Expression]]:
    """Equal keys, and what else must hold."""
    names = ({one.name for one in left}, {one.name for one in right})
    keys: list[EquiKey] = []
    rest: list[Expression] = []
    for part in conjuncts(condition):
        key = _equi_key(part, *names)
        if key is None:
            rest.append(part)
        else:
            keys.append(key)
    return keys, rest


def conjuncts(condition: Expression | None) -> list[Expression]:
    match condition:
        case None:
            return []
        case Call("and", (left, right)):
            return conjuncts(left) + conjuncts(right)
        case _:
            return [condition]


def conjunction(parts: Sequence[Expression]) -> Expression | None:
    if not parts:
        return None
    first, *rest = parts
    for part in rest:
        both = Call("and", (first, part), t.BOOLEAN)
        first = Call("and", (first, part), t.BOOLEAN, sql=sql_text(both))
    return first


def _equi_key(part: Expression, left: set[str], right: set[str]) -> EquiKey | None:
    match part:
        case Call("equalto" | "equalnullsafe" as function, (one, other)):
            for mine, theirs in ((one, other), (other, one)):
                used = columns_of(mine), columns_of(theirs)
                if all(used) and used[0] <= left and used[1] <= right:
                    return EquiKey(mine, theirs, function == "equalnullsafe")
    return None


def time_ranges(condition: Expression | None, left: Schema, right: Schema) -> list[TimeRange]:
    """For every pair of timestamp columns, one of each side, that the condition bounds: by how much they may differ at most."""
    sides = ({one.name for one in left if one.type in _TIMES}, {one.name for one in right if one.type in _TIMES})
    found: dict[tuple[str, str], TimeRange] = {}
    for bound in _bounds(conjuncts(condition), *sides):
        pair = (bound.left, bound.right)
        known = found.get(pair, TimeRange(*pair))
        low = [us for us in (known.low_us, bound.low_us) if us is not None]
        high = [us for us in (known.high_us, bound.high_us) if us is not None]
        found[pair] = TimeRange(*pair, max(low, default=None), min(high, default=None))
    return list(found.values())


def _bounds(parts: list[Expression], left: set[str], right: set[str]) -> Iterator[TimeRange]:
    for part in parts:
        match part:
            case Call(function, (one, other)) if function in _OPPOSITE:
                pass
            case _:
                continue
        difference = _difference(one, other)
        if difference is None:
            continue
        match sorted(difference.columns.items(), key=lambda item: item[0] in right):
            case [(mine, 1), (theirs, -1)] if mine in left and theirs in right:
                # left − right + constant ∘ 0, so right − left is on the other side of the constant.
                yield _bound(mine, theirs, _OPPOSITE[function], difference)
            case [(mine, -1), (theirs, 1)] if mine in left and theirs in right:
                yield _bound(mine, theirs, function, difference.negated)
            case _:
                pass


def _bound(left: str, right: str, comparison: str, of: _Linear) -> TimeRange:
    """``right − left ∘ constant``, as wide as the slack makes it."""
    low = of.constant_us - of.slack_us + (comparison == "greaterthan" and not of.slack_us)
    high = of.constant_us + of.slack_us - (comparison == "lessthan" and not of.slack_us)
    match comparison:
        case "lessthan" | "lessthanorequal":
            return TimeRange(left, right, None, high)
        case "greaterthan" | "greaterthanorequal":
            return TimeRange(left, right, low, None)
        case _:
            return TimeRange(left, right, low, high)


@dataclass(frozen=True, slots=True)
class _Linear:
    """A sum of timestamps and a constant, in microseconds, right to within ``slack_us``."""

    columns: dict[str, int]
    constant_us: int = 0
    slack_us: int = 0

    @property
    def negated(self) -> _Linear:
        return _Linear({name: -count for name, count in self.columns.items()}, -self.constant_us, self.slack_us)

    def plus(self, other: _Linear) -> _Linear:
        names = {*self.columns, *other.columns}
        columns = {name: self.columns.get(name, 0) + other.columns.get(name, 0) for name in names}
        return _Linear(
            {name: count for name, count in columns.items() if count},
            self.constant_us + other.constant_us,
            self.slack_us + other.slack_us,
        )


def _difference(one: Expression, other: Expression) -> _Linear | None:
    mine, theirs = _linear(one), _linear(other)
    return None if mine is None or theirs is None else mine.plus(theirs.negated)


def _linear(of: Expression) -> _Linear | None:
    """Timestamps and intervals in microseconds; numbers are seconds, as casts of timestamps make them."""
    match of:
        case Column(name, kind) if kind in _TIMES:
            return _Linear({name: 1})
        case Literal(datetime.timedelta() as value, _):
            constant = value // datetime.timedelta(microseconds=1)
            return _Linear({}, constant, _CLOCK_CHANGE_US if abs(constant) >= _DAY_US else 0)
        case Literal(bool() | None, _):
            return None
        case Literal(int() | float() | decimal.Decimal() as value, kind) if kind not in _TIMES and abs(value) < 2**40:
            return _Linear({}, round(value * _SECOND_US), 0 if isinstance(value, int) else 1)
        case Cast(child=child, type=kind) if kind in _WHOLE and child.type in _TIMES:
            inner = _linear(child)
            return None if inner is None else _Linear(inner.columns, inner.constant_us, inner.slack_us + _SECOND_US)
        case Cast(child=child, type=kind) if (
            kind in _FRACTIONS or isinstance(kind, t.Decimal)
        ) and child.type in _TIMES:
            inner = _linear(child)
            return None if inner is None else _Linear(inner.columns, inner.constant_us, inner.slack_us + 1_000)
        case Cast(child=child, type=kind) if kind in _TIMES and child.type in _TIMES and kind == child.type:
            return _linear(child)
        case Cast(child=child, type=kind) if kind in (*_WHOLE, *_FRACTIONS) or isinstance(kind, t.Decimal):
            return _linear(child) if child.type in (*_WHOLE, *_FRACTIONS) or isinstance(child.type, t.Decimal) else None
        case Call("timestampaddinterval" | "add", (left, right)):
            return _sum(_linear(left), _linear(right))
        case Call("subtract" | "subtracttimestamps", (left, right)):
            taken = _linear(right)
            return _sum(_linear(left), None if taken is None else taken.negated)
        case Call("negative" | "unaryminus", (child,)):
            inner = _linear(child)
            return None if inner is None else inner.negated
        case _:
            return None


def _sum(left: _Linear | None, right: _Linear | None) -> _Linear | None:
    return None if left is None or right is None else left.plus(right)
