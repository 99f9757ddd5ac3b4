"""An exception inside an operator, told so that a person can act: what happened first, then where."""

from __future__ import annotations

from tidegate.model.errors import Bug, DataError, TidegateError, Unavailable, UserCodeFailed
from tidegate.operators.user_functions import user_traceback
from tidegate.plan.keyed import StatefulProcess
from tidegate.plan.relational import MapBatches, Plan, PythonEval, Scan, Sink


def located(error: Exception, node: Plan, operator: str, position: str) -> TidegateError:
    """The error as the shell reports it, with ``operator`` and ``position`` filled in."""
    told = error if isinstance(error, TidegateError) else _translated(error, node)
    if isinstance(told, UserCodeFailed | DataError | Bug) and operator not in told.message:
        where = f"in operator {operator}" + (f", input at {position}" if position else "")
        named = type(told)(f"{told.message}\n{where}", hint=told.hint)
        named.operator, named.position = told.operator, told.position
        told = named
    told.operator = told.operator or operator
    told.position = told.position or position
    return told


def _translated(error: Exception, node: Plan) -> TidegateError:
    if isinstance(node, PythonEval | MapBatches | StatefulProcess) or (
        isinstance(node, Scan | Sink) and node.spec.runs_user_code
    ):
        return UserCodeFailed(user_traceback(error), hint="mend the function, or make it return null for such rows")
    if isinstance(node, Scan | Sink) and isinstance(error, OSError):
        return Unavailable(
            f"{type(error).__name__}: {error}",
            hint=f"check that every executor can reach what {node.id} {'reads' if isinstance(node, Scan) else 'writes'}",
        )
    return Bug(
        f"{user_traceback(error)}\n{type(node).__name__} failed on rows it should have handled",
        hint="report this with the query's explain() text",
    )
