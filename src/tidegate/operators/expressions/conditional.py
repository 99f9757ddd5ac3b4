"""Choices: an argument's errors count only for the rows that evaluate it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.model import types as t
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions.compiled import Built, Compiled, Guard
from tidegate.operators.expressions.registry import arity, branching, function, plain, takes
from tidegate.plan.expressions import Call, Literal

_MANY = 10_000


def choose(branches: Sequence[tuple[Compiled, Compiled]], otherwise: Compiled | None, dtype: pl.DataType) -> Compiled:
    """CASE WHEN: the first condition that is true decides; a null condition does not."""
    guards: list[Guard] = []
    undecided = pl.lit(True)  # rows that no earlier branch has taken
    for condition, value in branches:
        taken = condition.value.fill_null(False)
        guards += condition.guards_if(undecided) + value.guards_if(undecided & taken)
        undecided = undecided & ~taken
    last = Compiled(pl.lit(None, dtype=dtype)) if otherwise is None else otherwise
    guards += last.guards_if(undecided)
    chosen = last.value
    for condition, value in reversed(branches):
        chosen = pl.when(condition.value).then(value.value).otherwise(chosen)
    return Compiled(chosen, tuple(guards))


@branching("if", supports=arity(3))
def if_(call: Call, args: Sequence[Compiled]) -> Compiled:
    return choose([(args[0], args[1])], args[2], polars_type(call.type))


@branching("casewhen", "when", "case", supports=arity(2, _MANY))
def case_when(call: Call, args: Sequence[Compiled]) -> Compiled:
    """Conditions and values in turn, then the ELSE value if their number is odd."""
    pairs = list(zip(args[0::2], args[1::2], strict=False))
    return choose(pairs, args[-1] if len(args) % 2 else None, polars_type(call.type))


@branching("coalesce", "nvl", "ifnull", supports=arity(1, _MANY))
def coalesce(_call: Call, args: Sequence[Compiled]) -> Compiled:
    guards: list[Guard] = list(args[0].guards)
    missing = args[0].value.is_null()
    for arg in args[1:]:
        guards += arg.guards_if(missing)
        missing = missing & arg.value.is_null()
    return Compiled(pl.coalesce(arg.value for arg in args), tuple(guards))


@branching("raise_error", "raiseerror", supports=arity(2))
def raise_error(call: Call, args: Sequence[Compiled]) -> Compiled:
    """Every row that evaluates it is in error; the class is the first argument, when it is a constant."""
    named = call.args[0]
    error = str(named.value) if isinstance(named, Literal) else "USER_RAISED_EXCEPTION"
    inherited = tuple(guard for arg in args for guard in arg.guards)
    return Compiled(pl.lit(None, dtype=polars_type(call.type)), (*inherited, Guard(pl.lit(True), error, call.sql)))


@branching("tryeval", "try_eval", supports=arity(1))
def try_eval(call: Call, args: Sequence[Compiled]) -> Compiled:
    """Null where the argument is in error."""
    (arg,) = args
    if not arg.guards:
        return arg
    failed = pl.any_horizontal([guard.condition for guard in arg.guards]).fill_null(False)
    return Compiled(pl.when(~failed).then(arg.value).otherwise(pl.lit(None, dtype=polars_type(call.type))))


@branching("nvl2", supports=arity(3))
def nvl2(call: Call, args: Sequence[Compiled]) -> Compiled:
    present = Compiled(args[0].value.is_not_null(), args[0].guards)
    return choose([(present, args[1])], args[2], polars_type(call.type))


@plain("nullif", supports=arity(2), null_skips=False)
def null_if(left: pl.Expr, right: pl.Expr) -> Built:
    return pl.when(left == right).then(None).otherwise(left)


@branching("nanvl", supports=arity(2, also=takes(*t.FRACTIONAL)))
def nanvl(call: Call, args: Sequence[Compiled]) -> Compiled:
    unusable = Compiled(args[0].value.is_nan(), args[0].guards)
    return choose([(unusable, args[1])], Compiled(args[0].value), polars_type(call.type))


def _ordered(call: Call) -> str | None:
    if any(isinstance(arg.type, t.Map | t.Struct | t.Array) for arg in call.args):
        return f"{call.function} over arrays, maps and structs is not supported"
    return None


@function("greatest", supports=arity(2, _MANY, also=_ordered), null_skips=False)
def greatest(call: Call, *values: pl.Expr) -> Built:
    """Skips nulls; NaN is greater than any number, where Polars would skip it."""
    best = pl.max_horizontal(values)
    if call.type not in t.FRACTIONAL:
        return best
    nan = pl.lit(float("nan"), dtype=polars_type(call.type))
    return pl.when(pl.any_horizontal(value.is_nan() for value in values)).then(nan).otherwise(best)


@plain("least", supports=arity(2, _MANY, also=_ordered), null_skips=False)
def least(*values: pl.Expr) -> Built:
    """Skips nulls, and NaN unless there is nothing else: Polars agrees."""
    return pl.min_horizontal(values)


@function("normalizenanandzero", supports=takes(*t.FRACTIONAL))
def normalize_nan_and_zero(call: Call, child: pl.Expr) -> Built:
    """One zero and one NaN, so that keys that are equal are also the same bytes."""
    nan = pl.lit(float("nan"), dtype=polars_type(call.type))
    return (
        pl.when(child == 0)
        .then(pl.lit(0.0, dtype=polars_type(call.type)))
        .when(child.is_nan())
        .then(nan)
        .otherwise(child)
    )
