"""Which column of a source is the event time: sources that know something about it before they are read can say so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegate.plan.expressions import Column
from tidegate.plan.graph import JobGraph, Stage
from tidegate.plan.relational import (
    AssignWatermark,
    Filter,
    Generate,
    Plan,
    Project,
    PythonEval,
    Scan,
    StampTime,
    StaticJoin,
)


def with_event_times(graph: JobGraph) -> JobGraph:
    """Every scan knows the event time that is assigned in its own chain."""
    return replace(graph, stages=tuple(map(_told, graph.stages)))


def event_time_of(scan: Scan, above: Iterable[Plan]) -> str | None:
    """``Scan.event_time``, from the nodes of its chain. Rows may get lost on the way to the assigner; their times stay what they are."""
    stored = {field.name: column for field, column in zip(scan.schema, scan.columns, strict=True)}
    for node in above:
        match node:
            case AssignWatermark(column=column):
                return stored.get(column, "")
            case Project(columns=columns):
                stored = {
                    one.name: stored[one.expression.name]
                    for one in columns
                    if isinstance(one.expression, Column) and one.expression.name in stored
                }
            case Filter() | StampTime() | PythonEval() | Generate() | StaticJoin():
                pass  # They hand the columns of the stream on under their names.
            case _:
                stored = {}
    return None


def _told(stage: Stage) -> Stage:
    match stage.nodes:
        case (Scan() as scan, *above):
            return replace(stage, nodes=(replace(scan, event_time=event_time_of(scan, above)), *above))
        case _:
            return stage
