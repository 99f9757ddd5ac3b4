"""``dropDuplicates``, ``dropDuplicatesWithinWatermark``, and DISTINCT, which the optimiser writes as a grouping without aggregates."""

from __future__ import annotations

from dataclasses import replace

from tidegate.catalyst.context import Context, attributes, project
from tidegate.catalyst.java import Java, class_name, items
from tidegate.catalyst.naming import Relation
from tidegate.catalyst.tree import Node, read
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.plan.expressions import Column, Named
from tidegate.plan.keyed import Deduplicate
from tidegate.plan.relational import Aggregate, EventTimeKey, Plan, Project

_WATERMARK = "spark.watermarkDelayMs"
_US_PER_MS = 1_000


def deduplicate(context: Context, plan: Java, child: Relation) -> Relation:
    """``Deduplicate`` and ``DeduplicateWithinWatermark``: the scope stays, rows pass as they are."""
    keys = [child.scope[read(key).expr_id] for key in items(plan.keys())]
    timed = [node for node in attributes(plan.child()) if node.java.metadata().contains(_WATERMARK)]
    event_time = _event_time(timed, child)
    within = class_name(plan) == "DeduplicateWithinWatermark"
    delay_us = int(timed[0].java.metadata().getLong(_WATERMARK)) * _US_PER_MS if within else 0
    node = Deduplicate(
        id=context.names.operator("deduplicate"),
        keys=tuple(dict.fromkeys(key.name for key in keys)),
        event_time=event_time,
        within_watermark=within,
        delay_us=delay_us,
        schema=child.plan.schema,
        inputs=(child.plan,),
    )
    return Relation(node, child.scope)


def distinct(context: Context, relation: Relation) -> Relation:
    """The relation of an ``Aggregate``, as a deduplication of its keys where nothing is aggregated.

    A key leaves once, when it is first seen. Only in append mode, and where the watermark closes groups, it is left to the aggregation: whoever
    groups by a window there waits for its end.
    """
    match relation.plan:
        case Aggregate(calls=()) as node if _is_distinct(node):
            return replace(relation, plan=_distinct(context, node))
        case Project(inputs=(Aggregate(calls=()) as node,)) as above if _is_distinct(node):
            return replace(relation, plan=replace(above, inputs=(_distinct(context, node),)))
        case _:
            return relation


def _is_distinct(node: Aggregate) -> bool:
    closes = node.mode is OutputMode.APPEND and node.event_time is not None
    return bool(node.keys) and node.mode is not OutputMode.COMPLETE and not closes


def _distinct(context: Context, node: Aggregate) -> Plan:
    keys = tuple(Column(field.name, field.type) for field in node.schema)
    below = node.inputs[0]
    if below.schema != node.schema:
        below = project(below, [Named(key.name, key) for key in keys], keys)
    return Deduplicate(
        id=context.names.operator("deduplicate"),
        keys=node.keys,
        event_time=node.event_time,
        schema=below.schema,
        inputs=(below,),
    )


def _event_time(timed: list[Node], child: Relation) -> EventTimeKey | None:
    columns = {child.scope[node.expr_id].name: child.scope[node.expr_id] for node in timed}
    match list(columns.values()):
        case []:
            return None
        case [column]:
            return EventTimeKey(column.name, "end" if isinstance(column.type, t.Struct) else None)
        case several:
            raise InvalidQuery(
                f"dropDuplicates() over {len(several)} columns with a watermark: it is not clear which of them says when a key is forgotten",
                hint="select() only one of the event-time columns before dropDuplicates()",
            )
