"""Logical operators of the optimised plan → relations of ours, one bottom-up walk."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.catalyst.aggregates import aggregate
from tidegate.catalyst.checks import LABELS, refused_operator
from tidegate.catalyst.clock import stamped
from tidegate.catalyst.context import Context, aligned, attributes, output_of, project
from tidegate.catalyst.deduplication import deduplicate, distinct
from tidegate.catalyst.generators import generate
from tidegate.catalyst.java import Java, class_name, interval_parts, items
from tidegate.catalyst.joins import join
from tidegate.catalyst.naming import Relation, Scope, fields_of
from tidegate.catalyst.ordering import below_limit, limit, sort
from tidegate.catalyst.placement import PLACEMENT, above_watermark, below_watermark, placement
from tidegate.catalyst.python_functions import map_batches, python_eval
from tidegate.catalyst.sources import file_scan, table_scan
from tidegate.catalyst.stateful import apply_with_state, transform_with_state
from tidegate.catalyst.tree import read, read_like
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Field
from tidegate.plan.expressions import Column, Expression, Literal, Named
from tidegate.plan.meaning import plain
from tidegate.plan.relational import AssignWatermark, Expand, Filter, Plan, UdfKind, Union
from tidegate.plan.watermarks import assigner_below, settle

_DAY_US = 86_400_000_000
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
            return distinct(context, aggregate(context, plan, _child(context, plan)))
        case "Deduplicate" | "DeduplicateWithinWatermark":
            return deduplicate(context, plan, relation(context, plan.child()))
        case "Sort":
            return sort(context, plan, relation(context, plan.child()))
        case "GlobalLimit":
            return limit(context, plan, relation(context, below_limit(plan)))
        case "LocalLimit":  # Pushed down by the optimiser from one above; it saves rows and changes nothing.
            return relation(context, plan.child())
        case "Generate":
            return generate(context, plan, relation(context, plan.child()))
        case "Union":
            return _union(context, plan)
        case "Join":
            return join(context, plan, relation)
        case "BatchEvalPython" | "ArrowEvalPython":
            return python_eval(context, plan, relation(context, plan.child()))
        case "MapInPandas" | "MapInArrow" | "PythonMapInArrow" as name:
            kind = UdfKind.PANDAS if name == "MapInPandas" else UdfKind.ARROW
            child = plan.child()
            return map_batches(context, plan, relation(context, child), attributes(child), kind)
        case "TransformWithStateInPySpark":
            return transform_with_state(context, plan, relation(context, plan.left()))
        case "FlatMapGroupsInPandasWithState":
            return apply_with_state(context, plan, relation(context, plan.child()))
        case "UpdateEventTimeWatermarkColumn":  # Of transformWithState: the watermark passes it as it is.
            return relation(context, plan.child())
        case name if name in PLACEMENT:
            return placement(context, plan, relation(context, plan.children().head()))
        case name if name in _WRAPPERS:
            return relation(context, plan.children().head())
        case "LocalRelation":
            raise InvalidQuery(
                "the query can never give a row: Spark's optimiser reduced it to an empty relation",
                hint="look for a condition that is always false, or a join with an empty static DataFrame",
            )
        case name:
            raise refused_operator(name)


def _child(context: Context, plan: Java) -> Relation:
    """What ``plan`` reads, with the time of day if it asks for it."""
    child = relation(context, plan.child())
    return stamped(context.spark, context.names, plan, child) if context.clock else child


def _project(context: Context, plan: Java) -> Relation:
    child = _child(context, plan)
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
    for number, column in child.scope.hidden.items():
        named.setdefault(column.name, Named(column.name, column))
        scope[number] = column
    return Relation(project(child.plan, named.values(), scope.values(), nullable), Scope(scope))


def _filter(context: Context, plan: Java) -> Relation:
    child = _child(context, plan)
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
    before = assigner_below(child.plan)
    if before is not None:
        shown = (f"withWatermark({plain(name)!r}, …)" for name in (column.name, before.column))
        raise InvalidQuery(
            f"{' stands behind '.join(shown)}: rows have one event time, which can not be defined again",
            hint="keep one of the two; Structured Streaming fails with the same query when it runs",
        )
    delay = plan.delay()
    months, days, microseconds = interval_parts(delay)
    if months:
        raise InvalidQuery(
            f"withWatermark(…, {str(delay.toString())!r}): a month has no fixed length",
            hint="write the delay in days, hours, minutes or seconds",
        )
    below, moved = below_watermark(child.plan)
    node = AssignWatermark(
        id=context.names.operator("watermark"),
        column=column.name,
        delay_us=days * _DAY_US + microseconds,
        schema=child.plan.schema,
        inputs=(below,),
    )
    return Relation(above_watermark(settle(node), moved), child.scope)


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
    inputs: list[Plan] = []
    for branch in items(plan.children()):
        if not branch.isStreaming():
            raise InvalidQuery(
                "a union of a stream with static data is not supported",
                hint="write the static rows to the sink in a batch job of their own",
            )
        child = relation(context, branch)
        wanted = [child.scope[node.expr_id] for node in attributes(branch)]
        inputs.append(aligned(context, child, wanted)[0] if wanted else child.plan)
    shown = output_of(plan)
    if not shown:
        return Relation(_united_rows(context, inputs), Scope({}))
    columns = [context.names.column(one.name, one.type) for one in shown]
    nullable = {column.name: one.nullable for column, one in zip(columns, shown, strict=True)}
    scope = {node.expr_id: column for node, column in zip(attributes(plan), columns, strict=True)}
    return Relation(Union(schema=fields_of(columns, nullable), inputs=tuple(inputs)), Scope(scope))


def _united_rows(context: Context, inputs: Sequence[Plan]) -> Union:
    """A union that is only counted: rows without any column would be none, so each has a constant."""
    row = context.names.column("row", t.BOOLEAN)
    constant = Named(row.name, Literal(True, t.BOOLEAN))
    return Union(
        schema=(Field(row.name, t.BOOLEAN, nullable=False),),
        inputs=tuple(project(one, (constant,), (row,), {row.name: False}) for one in inputs),
    )
