"""Where event time is assigned: as near to the sources as the query allows."""

from __future__ import annotations

from dataclasses import replace

from tidegate.model.ids import OperatorId
from tidegate.plan.relational import AssignWatermark, Plan, Scan, Union


def push_watermarks_down(node: Plan) -> Plan:
    """``union(a, b).withWatermark(…)`` → the assigner runs below the union, where rows still know the split they came from.

    Only there can the watermark be a minimum over splits, so that files read out of time order make nothing late. Done once or
    twice, the result is the same.
    """
    if isinstance(node, Scan):
        return node
    inputs = tuple(push_watermarks_down(child) for child in node.inputs)
    if isinstance(node, AssignWatermark) and len(inputs) == 1 and isinstance(inputs[0], Union):
        union = inputs[0]
        index = next(i for i, column in enumerate(union.schema) if column.name == node.column)
        branches = tuple(
            push_watermarks_down(
                AssignWatermark(
                    id=OperatorId(f"{node.id}.{number}"),
                    column=branch.schema[index].name,
                    delay_us=node.delay_us,
                    schema=branch.schema,
                    inputs=(branch,),
                )
            )
            for number, branch in enumerate(union.inputs)
        )
        return replace(union, inputs=branches)
    return replace(node, inputs=inputs)
