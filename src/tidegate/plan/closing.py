"""Whether results wait for event time to go on: for them it does as soon as the input rests, as in Structured Streaming."""

from __future__ import annotations

from tidegate.model.output_mode import OutputMode
from tidegate.plan.graph import JobGraph
from tidegate.plan.keyed import (
    Deduplicate,
    JoinSide,
    SessionAggregate,
    StatefulKind,
    StatefulProcess,
    StreamJoin,
    TimeMode,
)
from tidegate.plan.relational import Aggregate, Keyed, Plan


def only_judges(graph: JobGraph) -> bool:
    """Event time does nothing in this query but tell which rows are late. Spark runs no batch without rows for such a query, so it judges
    the rows of one batch by the batch before the last, even when long time has passed in between."""
    keyed = [node for stage in graph.stages for node in stage.nodes if isinstance(node, Keyed)]
    return bool(keyed) and not any(_waits(node) for node in keyed)


def _waits(node: Plan) -> bool:
    match node:
        case Aggregate(mode=mode) | SessionAggregate(mode=mode):
            return mode is not OutputMode.COMPLETE
        case Deduplicate():
            return True
        case StreamJoin(left=left, right=right):
            return _forgets(left) or _forgets(right)
        case StatefulProcess(kind=StatefulKind.APPLY_PANDAS, time_mode=mode):
            return mode is not TimeMode.NONE
        case StatefulProcess():
            return True
        case _:
            return False


def _forgets(side: JoinSide) -> bool:
    """Spark frees the rows of a side that has a watermark of its own, or whose key is event time. Here a range over the other side's is
    enough, but nobody waits for that."""
    if side.expires is None:
        return False
    return side.event_time is not None or side.expires.column in side.keys
