"""Comparisons and three-valued logic. Polars orders NaN above everything and equal to itself, as Spark does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Map
from tidegate.operators.expressions.compiled import Built, Compiled
from tidegate.operators.expressions.registry import arity, branching, function, plain, takes
from tidegate.plan.expressions import Call, Literal


def _comparable(call: Call) -> str | None:
    if len(call.args) != 2:
        return f"{call.function} takes two arguments"
    if any(isinstance(arg.type, Map) for arg in call.args):
        return "maps cannot be compared"
    return None


def _ordered(call: Call) -> str | None:
    nested = any(isinstance(arg.type, t.Struct | t.Array) for arg in call.args)
    return "arrays and structs have no order here" if nested else _comparable(call)


def _constant(one: pl.Expr) -> bool:
    """Polars gives one row, not as many as there are, for a constant compared with a column that it knows to be constant too; with the
    column on the left it does not."""
    return not one.meta.root_names()


@plain("equalto", "=", "==", supports=_comparable)
def equal(left: pl.Expr, right: pl.Expr) -> Built:
    return right == left if _constant(left) else left == right


@plain("notequal", "!=", "<>", supports=_comparable)
def not_equal(left: pl.Expr, right: pl.Expr) -> Built:
    return right != left if _constant(left) else left != right


@plain("equalnullsafe", "<=>", "equal_null", supports=_comparable, null_skips=False)
def equal_null_safe(left: pl.Expr, right: pl.Expr) -> Built:
    return right.eq_missing(left) if _constant(left) else left.eq_missing(right)


@plain("lessthan", "<", supports=_ordered)
def less(left: pl.Expr, right: pl.Expr) -> Built:
    return right > left if _constant(left) else left < right


@plain("lessthanorequal", "<=", supports=_ordered)
def less_or_equal(left: pl.Expr, right: pl.Expr) -> Built:
    return right >= left if _constant(left) else left <= right


@plain("greaterthan", ">", supports=_ordered)
def greater(left: pl.Expr, right: pl.Expr) -> Built:
    return right < left if _constant(left) else left > right


@plain("greaterthanorequal", ">=", supports=_ordered)
def greater_or_equal(left: pl.Expr, right: pl.Expr) -> Built:
    return right <= left if _constant(left) else left >= right


@plain("isnull", null_skips=False)
def is_null(child: pl.Expr) -> Built:
    return child.is_null()


@plain("isnotnull", null_skips=False)
def is_not_null(child: pl.Expr) -> Built:
    return child.is_not_null()


@plain("isnan", supports=takes(*t.FRACTIONAL), null_skips=False)
def is_nan(child: pl.Expr) -> Built:
    """False for null, not null."""
    return child.is_nan().fill_null(False)


@function("atleastnnonnulls", null_skips=False, supports=arity(2, 10_000))
def at_least_n_non_nulls(call: Call, least: pl.Expr, *values: pl.Expr) -> Built:
    """``dropna``: NaN counts as null."""
    present = [
        value.is_not_null() & value.is_not_nan().fill_null(False) if arg.type in t.FRACTIONAL else value.is_not_null()
        for arg, value in zip(call.args[1:], values, strict=True)
    ]
    return pl.sum_horizontal(one.cast(pl.Int32) for one in present) >= least


def _in_supported(call: Call) -> str | None:
    if any(isinstance(arg.type, Map | t.Struct | t.Array) for arg in call.args):
        return "IN over arrays, maps and structs is not supported"
    return None


@function("in", "inset", supports=_in_supported)
def is_in(call: Call, value: pl.Expr, *candidates: pl.Expr) -> Built:
    """Null when nothing matches and a candidate is null."""
    if not candidates:
        return pl.lit(False)
    literals = [arg for arg in call.args[1:] if isinstance(arg, Literal)]
    simple = (*t.INTEGRAL, t.STRING, t.DATE)
    if len(literals) == len(candidates) and len(candidates) > 3 and call.args[0].type in simple:
        known = [literal.value for literal in literals if literal.value is not None]
        found = value.is_in(known) if known else pl.lit(None, dtype=pl.Boolean)
        return found if len(known) == len(literals) else pl.when(found).then(True).otherwise(None)
    return reduce(lambda a, b: a | b, (value == candidate for candidate in candidates))


@plain("not", "!", supports=takes(t.BOOLEAN))
def negation(child: pl.Expr) -> Built:
    return ~child


@branching("and", supports=arity(2, 10_000, also=takes(t.BOOLEAN, t.NULL)))
def conjunction(_call: Call, args: Sequence[Compiled]) -> Compiled:
    """The right side is not evaluated where the left is false; it is where the left is null."""
    value, guards = args[0].value, args[0].guards
    for arg in args[1:]:
        guards = (*guards, *arg.guards_if(value.fill_null(True)))
        value = value & arg.value
    return Compiled(value, guards)


@branching("or", supports=arity(2, 10_000, also=takes(t.BOOLEAN, t.NULL)))
def disjunction(_call: Call, args: Sequence[Compiled]) -> Compiled:
    """The right side is not evaluated where the left is true."""
    value, guards = args[0].value, args[0].guards
    for arg in args[1:]:
        guards = (*guards, *arg.guards_if(~value.fill_null(False)))
        value = value | arg.value
    return Compiled(value, guards)
