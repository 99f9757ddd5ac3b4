"""Logical operators of the optimised plan → relations of ours, one bottom-up walk."""

from __future__ import annotations

from tidegate.catalyst.aggregates import aggregate
from tidegate.catalyst.checks import LABELS, refused_operator
from tidegate.catalyst.context import Context, aligned, attributes, output_of, project
from tidegate.catalyst.java import Java, class_name, interval_parts, items
from tidegate.catalyst.joins import join_sides, static_join
from tidegate.catalyst.naming import Relation, Scope, fields_of
from tidegate.catalyst.python_functions import map_batches, python_eval
from tidegate.catalyst.sources import file_scan, table_scan
from tidegate.catalyst.tree import read, read_like
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.plan.expressions import Column, Expression, Named
from tidegate.plan.relational import AssignWatermark, Expand, Filter, UdfKind, Union

_DAY_US = 86_400_000_000
_PLACEMENT = ("Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint")
_WRAPPERS = ("SubqueryAlias", "View", "ReturnAnswer")


def relation(context: Context, plan: Java) -> Relation:
    """Converts a streaming operator and everything below it."""
    match class_name(plan):
        case "StreamingRelation":
            return file_scan(context, plan)
        case "StreamingRelationV2":
            return table_scan(context, plan)
        case "Project":
            return _project(context, plan)
        case "Filter":
            return _filter(context, plan)
        case "EventTimeWatermark":
            return _watermark(context, plan)
        case "Expand":
            return _expand(context, plan)
        case "Aggregate":
            return aggregate(context, plan, relation(context, plan.child()))
        case "Union":
            return _union(context, plan)
        case "Join":
            stream, static, kind = join_sides(plan)
            return static_join(context, plan, relation(context, stream), static, kind)
        case "BatchEvalPython" | "ArrowEvalPython":
            return python_eval(context, plan, relation(context, plan.child()))
        case "MapInPandas" | "MapInArrow" | "PythonMapInArrow" as name:
            kind = UdfKind.PANDAS if name == "MapInPandas" else UdfKind.ARROW
            child = plan.child()
            return map_batches(context, plan, relation(context, child), attributes(child), kind)
        case name if name in _PLACEMENT:
            context.warn(
                "repartition(), coalesce() and hints have no effect: rows are placed by key, over the slots of the query"
            )
            return relation(context, plan.children().head())
        case name if name in _WRAPPERS:
            return relation(context, plan.children().head())
        case "LocalRelation":
            raise InvalidQuery(
                "the query can never give a row: Spark's optimiser reduced it to an empty relation",
                hint="look for a condition that is always false, or a join with an empty static DataFrame",
            )
        case name:
            raise refused_operator(name)


def _project(context: Context, plan: Java) -> Relation:
    child = relation(context, plan.child())
    named: dict[str, Named] = {}
    scope: dict[int, Column] = {}
    nullable: dict[str, bool] = {}
    for expression, shown in zip(items(plan.projectList()), output_of(plan), strict=True):
        node = read(expression)
        value = context.expressions.from_node(node, child.scope, LABELS["Project"])
        if node.kind == "AttributeReference" and isinstance(value, Column):
            column = value
        else:
            column = context.names.column(shown.name, shown.type)
            nullable[column.name] = shown.nullable
        named[column.name] = Named(column.name, value)
        scope[node.expr_id] = column
    if not named:  # A count needs rows, not columns; rows without any column could not be counted.
        return child
    return Relation(project(child.plan, named.values(), scope.values(), nullable), Scope(scope))


def _filter(context: Context, plan: Java) -> Relation:
    child = relation(context, plan.child())
    condition = context.expressions.convert(plan.condition(), child.scope, LABELS["Filter"])
    return Relation(Filter(condition=condition, schema=child.plan.schema, inputs=(child.plan,)), child.scope)


def _watermark(context: Context, plan: Java) -> Relation:
    child = relation(context, plan.child())
    column = child.scope[read(plan.eventTime()).expr_id]
    if column.type not in (t.TIMESTAMP, t.TIMESTAMP_NTZ):
        raise InvalidQuery(
            f"withWatermark on {t.simple_string(column.type)} is not supported",
            hint="name a column of type timestamp, before the window is made",
        )
    delay = plan.delay()
    months, days, microseconds = interval_parts(delay)
    if months:
        raise InvalidQuery(
            f"withWatermark(…, {str(delay.toString())!r}): a month has no fixed length",
            hint="write the delay in days, hours, minutes or seconds",
        )
    node = AssignWatermark(
        id=context.names.operator("watermark"),
        column=column.name,
        delay_us=days * _DAY_US + microseconds,
        schema=child.plan.schema,
        inputs=(child.plan,),
    )
    return Relation(node, child.scope)


def _expand(context: Context, plan: Java) -> Relation:
    child = relation(context, plan.child())
    first, *others = [items(branch) for branch in items(plan.projections())]
    templates = [read(expression) for expression in first]
    branches = [templates, *([read_like(*pair) for pair in zip(templates, branch, strict=True)] for branch in others)]
    projections: list[tuple[Expression, ...]] = [
        tuple(context.expressions.from_node(node, child.scope, LABELS["Expand"]) for node in branch)
        for branch in branches
    ]
    shown = output_of(plan)
    columns = {
        node.expr_id: context.names.column(one.name, one.type)
        for node, one in zip(attributes(plan), shown, strict=True)
    }
    nullable = {column.name: one.nullable for column, one in zip(columns.values(), shown, strict=True)}
    node = Expand(projections=tuple(projections), schema=fields_of(columns.values(), nullable), inputs=(child.plan,))
    return Relation(node, Scope(columns))


def _union(context: Context, plan: Java) -> Relation:
    inputs = []
    for branch in items(plan.children()):
        if not branch.isStreaming():
            raise InvalidQuery(
                "a union of a stream with static data is not supported",
                hint="write the static rows to the sink in a batch job of their own",
            )
        child = relation(context, branch)
        inputs.append(aligned(context, child, [child.scope[node.expr_id] for node in attributes(branch)])[0])
    shown = output_of(plan)
    columns = [context.names.column(one.name, one.type) for one in shown]
    nullable = {column.name: one.nullable for column, one in zip(columns, shown, strict=True)}
    scope = {node.expr_id: column for node, column in zip(attributes(plan), columns, strict=True)}
    return Relation(Union(schema=fields_of(columns, nullable), inputs=tuple(inputs)), Scope(scope))
