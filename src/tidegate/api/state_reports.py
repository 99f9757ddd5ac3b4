"""What progress says of operators with state: rows, bytes, and how many rows came too late for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.ids import OperatorId
from tidegate.model.messages import OperatorMetrics
from tidegate.plan.explain import label
from tidegate.plan.graph import JobGraph
from tidegate.plan.keyed import Deduplicate, SessionAggregate, StatefulKind, StatefulProcess, StreamJoin
from tidegate.plan.ordering import Limit
from tidegate.plan.relational import Aggregate, Keyed, Plan
from tidegate.spark.status import JobSnapshot

StateOperator: TypeAlias = Keyed | Limit
"""Those that Spark has a name for as well."""
Metrics: TypeAlias = Mapping[str, OperatorMetrics]


@dataclass(frozen=True, slots=True)
class LateRows:
    """Of one operator. Its state counts them, so after a failure the number goes back to what the checkpoint says."""

    restored: int
    """Counted before this start of the query."""
    counted: int
    """Now, all of them."""
    most: int
    """The most there were at any time: what was reported once is not reported again when it is counted again."""


Late: TypeAlias = Mapping[OperatorId, LateRows]


def metrics_name(graph: JobGraph, node: Plan) -> str:
    """Under which the counters of ``node`` come from the slots: one of its stage, and of no other."""
    stage = next(stage for stage in graph.stages if any(one is node for one in stage.nodes))
    return f"{stage.id} {label(node)}"


def state_operators(graph: JobGraph) -> Iterator[StateOperator]:
    for stage in graph.stages:
        for node in stage.nodes:
            if isinstance(node, StateOperator):
                yield node


def late_rows(graph: JobGraph, now: JobSnapshot, before: Late) -> dict[OperatorId, LateRows]:
    """While slots are missing nothing is concluded: the one that goes on counting may be among them."""
    if len(now.slots) < graph.parallelism:
        return dict(before)
    operators = now.operators()
    counts: dict[OperatorId, LateRows] = {}
    for node in state_operators(graph):
        if (metrics := operators.get(metrics_name(graph, node))) is None:
            continue
        known = before.get(node.id) or LateRows(metrics.late_rows_restored, 0, metrics.late_rows_restored)
        counts[node.id] = LateRows(known.restored, metrics.late_rows, max(known.most, metrics.late_rows))
    return {**before, **counts}


def state_reports(graph: JobGraph, operators: Metrics, before: Late, after: Late) -> list[dict[str, Any]]:
    return [
        _report(node, operators.get(metrics_name(graph, node)), before.get(node.id), after.get(node.id))
        for node in state_operators(graph)
    ]


def slowest_us(graph: JobGraph, now: JobSnapshot) -> int | None:
    """The slowest watermark that operators with state have; without such operators, of all there are. None: there is none."""
    keyed = [metrics_name(graph, node) for node in state_operators(graph) if isinstance(node, Keyed)]
    return _slowest(now, keyed) if keyed else _slowest(now, list(now.operators()))


def _slowest(now: JobSnapshot, names: Sequence[str]) -> int | None:
    marks: list[int] = []
    for name in names:
        of_slots = [one.watermark_us for slot in now.slots.values() for one in slot.metrics if one.operator == name]
        # A subtask that has none yet is the slowest, unless no subtask of the operator ever gets one.
        if any(mark is not None for mark in of_slots):
            marks += [WATERMARK_MIN_US if mark is None else mark for mark in of_slots]
    return min(marks, default=None)


def _report(
    node: StateOperator, metrics: OperatorMetrics | None, before: LateRows | None, after: LateRows | None
) -> dict[str, Any]:
    fresh = 0
    if after is not None:
        fresh = after.most - (after.restored if before is None else before.most)
    return {
        "id": node.id,
        "operatorName": _name(node),
        "numRowsTotal": metrics.state_rows if metrics else 0,
        "numRowsUpdated": 0,
        "allUpdatesTimeMs": int(metrics.busy_ms) if metrics else 0,
        "numRowsRemoved": 0,
        "allRemovalsTimeMs": 0,
        "commitTimeMs": 0,
        "memoryUsedBytes": metrics.state_bytes if metrics else 0,
        "numRowsDroppedByWatermark": fresh,
        "numShufflePartitions": 0,
        "numStateStoreInstances": 0,
        "customMetrics": {
            "rowsDroppedByWatermarkSinceStart": max(0, after.counted - after.restored) if after else 0,
            "rowsDroppedByWatermarkTotal": after.counted if after else 0,
        },
    }


def _name(node: StateOperator) -> str:
    """Spark's."""
    match node:
        case Aggregate():
            return "stateStoreSave"
        case SessionAggregate():
            return "sessionWindowStateStoreSaveExec"
        case Deduplicate(within_watermark=within):
            return "dedupeWithinWatermark" if within else "dedupe"
        case StreamJoin():
            return "symmetricHashJoin"
        case StatefulProcess(kind=StatefulKind.APPLY_PANDAS):
            return "applyInPandasWithState"
        case StatefulProcess(kind=StatefulKind.TRANSFORM_PANDAS):
            return "transformWithStateInPandasExec"
        case StatefulProcess():
            return "transformWithStateInPySparkExec"
        case Limit():
            return "globalLimit"
