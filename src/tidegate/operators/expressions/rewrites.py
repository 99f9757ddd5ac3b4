"""Shorter expressions with the same meaning, for shapes that Spark's analyser writes out again and again."""

from __future__ import annotations

from tidegate.model import types as t
from tidegate.operators.expressions.registry import canonical
from tidegate.plan.expressions import Call, Case, Expression, Literal


def rewrite(of: Expression) -> Expression:
    """The node itself, shortened; its children are left to their own turn."""
    match of:
        case Case(branches=((Call() as condition, Call() as then),), otherwise=Call() as rest):
            return _positive_remainder(condition, then, rest) or of
        case Call(function=name, args=(left, Literal(value=0))) if canonical(name) in ("add", "subtract"):
            # Only where adding nothing is certainly nothing: -0.0 and decimals' scales are left alone.
            return left if of.type in t.INTEGRAL and left.type == of.type else of
        case _:
            return of


def _positive_remainder(condition: Call, then: Call, rest: Call) -> Expression | None:
    """``CASE WHEN x % k < 0 THEN x % k + k ELSE x % k END`` is ``pmod(x, k)``: how every time window finds its start."""
    match rest, condition, then:
        case (
            Call(function=remainder, args=(x, Literal(value=int(k)))),
            Call(function=less, args=(compared, Literal(value=0))),
            Call(function=plus, args=(increased, Literal(value=int(added)))),
        ) if (
            (canonical(remainder), canonical(less), canonical(plus)) == ("remainder", "lessthan", "add")
            and compared == increased == rest
            and added == k > 0
            and rest.type in t.INTEGRAL
        ):
            return Call("pmod", (x, rest.args[1]), rest.type, rest.ansi, rest.zone, rest.sql)
        case _:
            return None
