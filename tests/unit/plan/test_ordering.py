"""Operators that need all rows in one place."""

from __future__ import annotations

from dataclasses import replace

from tests.property import pipelines as p

from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.model.shape import StateShape
from tidegate.plan.graph import JobGraph, Partitioning
from tidegate.plan.identity import identify
from tidegate.plan.ordering import Limit, Sort, SortKey
from tidegate.plan.relational import Plan, Sink
from tidegate.plan.stages import build_graph


def cut(plan: Sink) -> JobGraph:
    return build_graph(plan, parallelism=2, max_parallelism=8)


def names(graph: JobGraph) -> list[list[str]]:
    return [[type(node).__name__ for node in stage.nodes] for stage in graph.stages]


def counts(mode: OutputMode) -> Plan:
    return replace(p.count_and_sum(p.scan(0, "#1"), ("k#1",), "v#1", number=0, window=None), mode=mode)


def limited(count: int) -> Sink:
    scan = p.scan(0, "#1")
    return p.sink(Limit(id=OperatorId("limit-0"), count=count, schema=scan.schema, inputs=(scan,)))


def test_a_result_is_sorted_in_one_subtask_behind_an_edge_keyed_by_nothing() -> None:
    below = counts(OutputMode.COMPLETE)
    top = Sort(order=(SortKey("k#1"),), limit=3, schema=below.schema, inputs=(below,))
    graph = cut(p.sink(top, mode=OutputMode.COMPLETE))
    assert names(graph) == [["Scan", "PartialAggregate"], ["Aggregate"], ["Sort", "Sink"]]
    assert (graph.edges[-1].partitioning, graph.edges[-1].keys) == (Partitioning.KEYED, ())


def test_a_limit_is_counted_in_one_subtask_and_bounded_before_it() -> None:
    graph = cut(limited(7))
    assert names(graph) == [["Scan", "PartialLimit"], ["Limit", "Sink"]]
    assert (graph.edges[-1].partitioning, graph.edges[-1].keys) == (Partitioning.KEYED, ())


def test_another_limit_is_another_operator_whose_state_does_not_fit() -> None:
    """A limit of 7 that has let 7 rows pass says nothing about a limit of 9."""
    one, other = (cut(identify(limited(count))).state_shapes() for count in (7, 9))

    def of_limit(shapes: tuple[StateShape, ...]) -> list[StateShape]:
        return [shape for shape in shapes if shape.operator.startswith("limit-") and "." not in shape.operator]

    assert [shape.operator for shape in of_limit(one)] == ["limit-7"]
    assert of_limit(one) != of_limit(other)


def test_only_complete_mode_has_whole_results() -> None:
    for mode in OutputMode:
        graph = cut(p.sink(counts(mode), mode=mode))
        assert graph.has_whole_results == (mode is OutputMode.COMPLETE)
