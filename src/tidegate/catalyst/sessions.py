"""``session_window()``: Catalyst leaves it in the grouping as an attribute with a note, and computes its interval below."""

from __future__ import annotations

from tidegate.catalyst.java import Java, class_name
from tidegate.plan.expressions import Column
from tidegate.plan.keyed import SessionAggregate
from tidegate.plan.relational import Aggregate

_NOTE = "spark.sessionWindow"
_WATERMARK = "spark.watermarkDelayMs"


def with_sessions(node: Aggregate, grouping: list[Java], keys: list[Column]) -> Aggregate | SessionAggregate:
    """The aggregation as it is, or by sessions where one of its keys is one. ``keys``: the columns of ``grouping``, in order."""
    for expression, key in zip(grouping, keys, strict=True):
        if class_name(expression) == "AttributeReference" and expression.metadata().contains(_NOTE):
            return SessionAggregate(
                id=node.id,
                keys=tuple(name for name in node.keys if name != key.name),
                session=key.name,
                calls=node.calls,
                event_time=bool(expression.metadata().contains(_WATERMARK)),
                mode=node.mode,
                schema=node.schema,
                input_schema=node.input_schema,
                inputs=node.inputs,
            )
    return node
