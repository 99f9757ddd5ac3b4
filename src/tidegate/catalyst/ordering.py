"""``orderBy`` and ``limit``: of whole results in output mode ``complete``, ``limit`` of a stream in ``append``."""

from __future__ import annotations

from dataclasses import replace

from tidegate.catalyst.checks import LABELS
from tidegate.catalyst.context import Context, project
from tidegate.catalyst.java import Java, class_name, items
from tidegate.catalyst.naming import Relation
from tidegate.catalyst.tree import read
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.plan.expressions import Column, Named
from tidegate.plan.keyed import SessionAggregate
from tidegate.plan.ordering import Limit, Sort, SortKey
from tidegate.plan.relational import Aggregate, Plan


def sort(context: Context, plan: Java, child: Relation) -> Relation:
    order: list[SortKey] = []
    added: dict[str, Named] = {}
    for one in items(plan.order()):
        value = context.expressions.convert(one.child(), child.scope, LABELS["Sort"])
        if _has_no_order(value.type):
            raise InvalidQuery(
                f"ORDER BY a column of type {t.simple_string(value.type)} is not supported",
                hint="order by a field or by an element of it",
            )
        column = value if isinstance(value, Column) else context.names.column("_order", value.type)
        if column is not value:
            added[column.name] = Named(column.name, value)
        first = str(one.nullOrdering().toString()) == "NullsFirst"
        order.append(SortKey(column.name, str(one.direction().toString()) == "Ascending", first))
    below = child.plan
    if added:
        kept = [Column(field.name, field.type) for field in below.schema]
        made = [Column(name, named.expression.type) for name, named in added.items()]
        same = [Named(column.name, column) for column in kept]
        below = project(below, [*same, *added.values()], [*kept, *made])
    return Relation(Sort(order=tuple(order), limit=None, schema=below.schema, inputs=(below,)), child.scope)


def below_limit(plan: Java) -> Java:
    """What a ``GlobalLimit`` limits: the one per partition, which Catalyst puts below it, changes nothing."""
    child = plan.child()
    return child.child() if class_name(child) == "LocalLimit" else child


def limit(context: Context, plan: Java, child: Relation) -> Relation:
    count = int(read(plan.limitExpr()).java.value())
    if context.mode is not OutputMode.COMPLETE:
        node = Limit(id=context.names.operator("limit"), count=count, schema=child.plan.schema, inputs=(child.plan,))
        return Relation(node, child.scope)
    if not _aggregated(child.plan):
        raise InvalidQuery(
            "limit() below an aggregation is not supported in output mode complete",
            hint="limit the result instead, or aggregate in append mode with a window",
        )
    top = child.plan
    if isinstance(top, Sort) and top.limit is None:
        return Relation(replace(top, limit=count), child.scope)
    return Relation(Sort(order=(), limit=count, schema=top.schema, inputs=(top,)), child.scope)


def _aggregated(plan: Plan) -> bool:
    return isinstance(plan, Aggregate | SessionAggregate) or any(_aggregated(child) for child in plan.inputs)


def _has_no_order(of: t.DataType) -> bool:
    match of:
        case t.Struct(fields):
            return any(_has_no_order(field.type) for field in fields)
        case _:
            return isinstance(of, t.Array | t.Map)
