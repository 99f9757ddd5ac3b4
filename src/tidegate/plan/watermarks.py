"""Where event time is assigned: as near to the sources as the query allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from tidegate.model.ids import OperatorId
from tidegate.plan.expressions import Column
from tidegate.plan.keyed import SessionAggregate, StatefulProcess
from tidegate.plan.relational import (
    Aggregate,
    AssignWatermark,
    Filter,
    Keyed,
    Plan,
    Project,
    Scan,
    Sink,
    Union,
)


def push_watermarks_down(node: Plan) -> Plan:
    """``union(a, b).withWatermark(…)`` → the assigner runs below the union, where rows still know the split they came from.

    Only there can the watermark be a minimum over splits, so that files read out of time order make nothing late. Done once or
    twice, the result is the same. A node with several consumers stays one.
    """
    return _pushed(node, {})[1]


def push_watermarks_down_all(sinks: Sequence[Sink]) -> tuple[Sink, ...]:
    """The same for plans that have nodes in common; they still have."""
    done: _Done = {}
    return tuple(sink for one in sinks if isinstance(sink := _pushed(one, done)[1], Sink))


def settle(node: AssignWatermark, *, through_filters: bool = False) -> Plan:
    """The assigner below projections that hand its column on, where queries that read different columns still agree on it.

    ``through_filters``: also below filters. Then rows that are filtered away tell the time, so only where nobody asks for it.
    """
    child = node.inputs[0]
    match child:
        case Project(columns=columns, inputs=(below,)) if any(
            one.name == node.column and isinstance(one.expression, Column) and one.expression.name == node.column
            for one in columns
        ):
            pass
        case Filter(inputs=(below,)) if through_filters:
            pass
        case _:
            return node
    moved = settle(replace(node, schema=below.schema, inputs=(below,)), through_filters=through_filters)
    return replace(child, inputs=(moved,))


def settle_unasked(node: Plan, *, asked: bool = False) -> Plan:
    """Assigners whose time no operator asks for, below filters: there queries that filter differently share their source.

    ``asked``: somebody above asks for the time. The plan is a tree.
    """
    if isinstance(node, Scan):
        return node
    below = tuple(settle_unasked(child, asked=asked or isinstance(node, Keyed)) for child in node.inputs)
    node = replace(node, inputs=below)
    return settle(node, through_filters=True) if isinstance(node, AssignWatermark) and not asked else node


def assigner_below(plan: Plan) -> AssignWatermark | None:
    """Which ``withWatermark`` gave the rows of ``plan`` their event time. Behind an aggregation or user state they have none: those
    make new rows."""
    match plan:
        case AssignWatermark():
            return plan
        case Scan() | Aggregate() | SessionAggregate() | StatefulProcess():
            return None
        case _:
            return next((found for child in plan.inputs if (found := assigner_below(child)) is not None), None)


_Done: TypeAlias = dict[int, tuple[Plan, Plan]]
"""By the identity of a node: the node itself, so that it stays the only one with that identity, and what became of it."""


def _pushed(node: Plan, done: _Done) -> tuple[Plan, Plan]:
    if isinstance(node, Scan):
        return node, node
    if id(node) not in done:
        result = _below_union(replace(node, inputs=tuple(_pushed(child, done)[1] for child in node.inputs)), done)
        done[id(node)] = node, result
        done[id(result)] = result, result
    return done[id(node)]


def _below_union(node: Plan, done: _Done) -> Plan:
    if not isinstance(node, AssignWatermark) or len(node.inputs) != 1:
        return node
    match node.inputs[0]:
        case Union() as union:
            pass
        case Project():
            settled = settle(node)
            return node if settled is node else _pushed(settled, done)[1]
        case _:
            return node
    index = next(i for i, column in enumerate(union.schema) if column.name == node.column)
    branches = tuple(
        AssignWatermark(
            id=OperatorId(f"{node.id}.{number}"),
            column=branch.schema[index].name,
            delay_us=node.delay_us,
            stream=node.stream or node.id,
            schema=branch.schema,
            inputs=(branch,),
        )
        for number, branch in enumerate(union.inputs)
    )
    return replace(union, inputs=tuple(_pushed(branch, done)[1] for branch in branches))
