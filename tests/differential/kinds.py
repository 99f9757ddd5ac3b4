"""What a query consists of, coarsely: kinds of operators, sources and sinks, modes. To see that a selection leaves none out."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from tests.differential.harness import Query

from tidegate.plan.keyed import Deduplicate, StatefulProcess
from tidegate.plan.relational import Aggregate, Plan, PythonEval, Scan, Sink


def kinds_of(query: Query, plan: Plan) -> frozenset[str]:
    """Names for people: ``StreamJoin left``, ``Aggregate update``, ``sink parquet``."""
    sink = f"sink {query.format}, partitioned" if query.partition_by else f"sink {query.format}"
    return frozenset((sink, f"{query.mode} mode", *(kind for node in _nodes(plan) for kind in _kinds(node))))


def _kinds(node: Plan) -> Iterator[str]:
    name = type(node).__name__
    match node:
        case Scan(format=format):
            yield f"{name} {format}"
        case Sink():
            pass
        case PythonEval(udfs=udfs):
            yield from (f"{name} {udf.kind.value}" for udf in udfs)
        case Aggregate(mode=mode, event_time=event_time):
            yield f"{name} {mode.value}, {'by event time' if event_time is not None else 'without time'}"
        case Deduplicate(event_time=event_time, within_watermark=within):
            time = "within watermark" if within else "without time" if event_time is None else "by event time"
            yield f"{name} {time}"
        case StatefulProcess(kind=kind, time_mode=time_mode):
            yield f"{name} {kind.value}, {time_mode.value}"
        case _:
            kind = getattr(node, "kind", None)
            yield f"{name} {kind.value}" if isinstance(kind, Enum) else name


def _nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for child in plan.inputs:
        yield from _nodes(child)
