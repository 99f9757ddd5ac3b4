"""Plan expressions to Polars, with Spark's meaning. Entry points: ``compile_expression`` and ``supported``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import polars as pl

from tidegate.model import types as t
from tidegate.model.errors import Bug, InvalidQuery
from tidegate.model.types import DataType, Struct
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import casts, conditional, families
from tidegate.operators.expressions.compiled import Compiled, Guard, enforce
from tidegate.operators.expressions.lambdas import body_of
from tidegate.operators.expressions.registry import ALIASES, FUNCTIONS, Branching, HigherOrder, Strict, canonical
from tidegate.operators.expressions.rewrites import rewrite
from tidegate.plan.expressions import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    FieldOf,
    Lambda,
    Literal,
    MakeStruct,
    Scalar,
    walk,
)

FAMILIES = families.ALL
"""Importing a family registers its functions."""


def supported(of: Expression) -> str | None:
    """Why this node itself cannot be computed (unknown function, argument types, non-constant pattern), or None."""
    try:
        polars_type(of.type)
    except InvalidQuery as refusal:
        return refusal.message
    match of:
        case Call(function=name):
            entry = FUNCTIONS.get(canonical(name))
            return f"the function {name} is not supported" if entry is None else entry.supports(of)
        case Cast():
            return casts.reason_against(of)
        case _:
            return None


def first_unsupported(of: Expression) -> tuple[Expression, str] | None:
    """The outermost node of the tree that cannot be computed, with the reason."""
    for node in walk(of):
        if (reason := supported(node)) is not None:
            return node, reason
    return None


def function_names() -> frozenset[str]:
    """All names ``Call.function`` may have."""
    return frozenset(FUNCTIONS) | frozenset(ALIASES)


def compile_expression(of: Expression) -> Compiled:
    """The value as a Polars expression of exactly ``polars_type(of.type)``, and the guards for its errors.

    InvalidQuery for what ``supported`` refuses.
    """
    if (reason := supported(of)) is not None:
        raise InvalidQuery(
            f"{reason}: {describe(of)}", hint="compute it in a Python or pandas UDF, or rewrite the expression"
        )
    match rewrite(of):
        case Column(name):
            return Compiled(pl.col(name))
        case Literal(value, kind):
            return Compiled(literal(value, kind))
        case Call() as call:
            return _call(call)
        case Cast(child=child) as cast:
            inner = compile_expression(child)
            return enforce(casts.build(cast, inner.value), ansi=cast.ansi, sql=describe(cast), inherited=inner.guards)
        case Case(branches, otherwise, kind):
            pairs = [(compile_expression(when), compile_expression(then)) for when, then in branches]
            last = None if otherwise is None else compile_expression(otherwise)
            return conditional.choose(pairs, last, polars_type(kind))
        case FieldOf(child, name):
            inner = compile_expression(child)
            return Compiled(inner.value.struct.field(name), inner.guards)
        case MakeStruct(fields, kind):
            return _struct(fields, kind)
        case Lambda():
            raise Bug(f"a lambda stands outside of a higher-order function: {describe(of)}")


def _call(call: Call) -> Compiled:
    args = [compile_expression(arg) for arg in call.args if not isinstance(arg, Lambda)]
    match FUNCTIONS[canonical(call.function)]:
        case HigherOrder(build=build):
            bodies = [body_of(arg, compile_expression(arg.body)) for arg in call.args if isinstance(arg, Lambda)]
            return build(call, args, bodies)
        case Branching(build=build):
            return build(call, args)
        case Strict() as entry:
            built = entry.build(call, *(arg.value for arg in args))
            return enforce(built, ansi=call.ansi, sql=describe(call), inherited=_inherited(entry, args))


def _inherited(entry: Strict, args: Sequence[Compiled]) -> tuple[Guard, ...]:
    """Guards of the arguments: Spark stops at the first null argument, so errors behind it do not happen."""
    if not entry.null_skips:
        return tuple(guard for arg in args for guard in arg.guards)
    guards: list[Guard] = []
    before: list[pl.Expr] = []
    for arg in reversed(args) if entry.right_first else args:
        reached = reduce(lambda a, b: a & b, before) if before and arg.guards else None
        guards += arg.guards if reached is None else arg.guards_if(reached)
        before.append(arg.value.is_not_null())
    return tuple(guards)


def _struct(fields: tuple[tuple[str, Expression], ...], kind: DataType) -> Compiled:
    assert isinstance(kind, Struct)
    parts = [compile_expression(expression) for _, expression in fields]
    value = pl.struct([part.value.alias(name) for (name, _), part in zip(fields, parts, strict=True)])
    return Compiled(value, tuple(guard for part in parts for guard in part.guards))


def literal(value: Scalar, kind: DataType) -> pl.Expr:
    """A constant column. Timestamps and intervals may come as Python values or as microseconds, dates also as days."""
    dtype = polars_type(kind)
    if value is None:
        return pl.lit(None, dtype=dtype)
    if isinstance(value, int) and kind in (t.TIMESTAMP, t.TIMESTAMP_NTZ, t.DAY_TIME_INTERVAL):
        return pl.lit(value, dtype=pl.Int64).cast(dtype)
    if isinstance(value, int) and kind == t.DATE:
        return pl.lit(value, dtype=pl.Int32).cast(dtype)
    if isinstance(value, tuple):
        return pl.lit(list(value), dtype=dtype)
    return pl.lit(value, dtype=dtype)


def describe(of: Expression) -> str:
    """The expression for people: Spark's SQL text where the node carries it."""
    match of:
        case Call(sql=sql) | Cast(sql=sql) if sql:
            return sql
        case Column(name):
            return name.partition("#")[0]
        case Literal(value):
            return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
        case Call(function=name, args=args):
            return f"{name}({', '.join(map(describe, args))})"
        case Cast(child=child, type=kind):
            return f"CAST({describe(child)} AS {t.simple_string(kind).upper()})"
        case Case(branches, otherwise):
            text = "".join(f" WHEN {describe(when)} THEN {describe(then)}" for when, then in branches)
            return f"CASE{text}{'' if otherwise is None else f' ELSE {describe(otherwise)}'} END"
        case FieldOf(child, name):
            return f"{describe(child)}.{name}"
        case MakeStruct(fields):
            return f"struct({', '.join(f'{describe(part)} AS {name}' for name, part in fields)})"
        case Lambda(parameters, body):
            return f"({', '.join(map(describe, parameters))}) -> {describe(body)}"
