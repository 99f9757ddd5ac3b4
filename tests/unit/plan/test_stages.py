"""Where a plan is cut, and where it is not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.property import pipelines as p

from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId
from tidegate.plan.graph import JobGraph, Partitioning
from tidegate.plan.keyed import Deduplicate
from tidegate.plan.relational import EventTimeKey, Filter, Plan, Repartition, Sink, Union
from tidegate.plan.stages import build_graph
from tidegate.testing.stand_ins import scripted_sink


def cut(plan: Sink) -> JobGraph:
    return build_graph(plan, parallelism=2, max_parallelism=8)


def names(graph: JobGraph) -> list[list[str]]:
    return [[type(node).__name__ for node in stage.nodes] for stage in graph.stages]


def test_a_query_without_exchange_is_one_stage() -> None:
    graph = cut(p.passing(Random(1)).plan)
    assert names(graph) == [["Scan", "Filter", "Sink"]]
    assert graph.edges == ()


def test_an_aggregate_is_merged_behind_a_keyed_edge_and_begun_before_it() -> None:
    graph = cut(p.windowed(Random(1)).plan)
    assert names(graph) == [["Scan", "AssignWatermark", "PartialAggregate"], ["Aggregate", "Sink"]]
    (edge,) = graph.edges
    assert (edge.source, edge.target, edge.partitioning, edge.keys) == (0, 1, Partitioning.KEYED, ("w#1", "k#1"))
    assert [column.name for column in edge.schema] == ["w#1", "k#1"]


def test_user_code_behind_an_aggregate_stands_in_a_stage_of_its_own() -> None:
    """What a closed window releases lies in a channel, where a barrier can overtake it, until the code has seen it."""
    plan = p.windowed(Random(1)).plan
    graph = cut(replace(plan, spec=replace(scripted_sink(plan.schema), calls_user=True)))
    assert len(graph.stages) == len(cut(plan).stages) + 1
    assert names(graph)[-1] == ["Sink"]
    assert graph.edges[-1].partitioning is Partitioning.FORWARD
    assert len(cut(replace(p.windowed(Random(1)).plan)).edges) == 1, "other sinks stay in the chain"


def test_a_global_aggregate_is_keyed_on_nothing() -> None:
    plan = p.sink(p.count_and_sum(p.scan(0, "#1"), (), "v#1", number=0, window=None))
    (edge,) = cut(plan).edges
    assert edge.partitioning is Partitioning.KEYED
    assert edge.keys == ()


def test_a_union_has_one_forward_port_per_branch_and_the_watermark_moves_below_it() -> None:
    graph = cut(p.union_of_two(Random(1)).plan)
    assert names(graph) == [
        ["Scan", "AssignWatermark"],
        ["Scan", "AssignWatermark"],
        ["Union", "PartialAggregate"],
        ["Aggregate", "Sink"],
    ]
    assert [(e.source, e.target, e.port, e.partitioning) for e in graph.edges[:2]] == [
        (0, 2, 0, Partitioning.FORWARD),
        (1, 2, 1, Partitioning.FORWARD),
    ]
    assigners = [stage.nodes[1] for stage in graph.stages[:2]]
    assert [(a.id, a.column) for a in assigners] == [("watermark-0.0", "ts#1"), ("watermark-0.1", "ts#2")]  # type: ignore[union-attr]


def test_edges_lead_to_higher_stages_and_nodes_of_stages_have_no_inputs() -> None:
    for kind in p.PIPELINES:
        graph = cut(kind(Random(3)).plan)
        assert all(edge.source < edge.target for edge in graph.edges)
        assert all(node.inputs == () for stage in graph.stages for node in stage.nodes)


def test_inserting_a_stateless_operator_moves_no_id() -> None:
    """T48"""
    scan = p.scan(0, "#1")
    keep = p.passing(Random(1)).plan.inputs[0]
    assert isinstance(keep, Filter)

    def counted(below: Plan) -> Sink:
        return p.sink(p.count_and_sum(p.watermark(below, "ts#1"), ("w#1",), "v#1", number=0, window="w#1"))

    assert cut(counted(scan)).stateful_ids() == cut(counted(keep)).stateful_ids()


def test_two_operators_with_one_id_are_refused() -> None:
    both = Union(schema=p.schema("#3"), inputs=(p.scan(0, "#1"), p.scan(0, "#2")))
    with pytest.raises(InvalidQuery, match="source-0"):
        cut(p.sink(both))


def test_a_node_without_its_input_is_refused() -> None:
    keep = Filter(condition=p.passing(Random(1)).plan.inputs[0].condition, schema=p.schema("#1"))  # type: ignore[union-attr]
    with pytest.raises(InvalidQuery, match="Filter has 0 inputs"):
        cut(p.sink(keep))


def test_a_deduplication_begins_before_its_keyed_edge_unless_only_some_rows_of_a_key_may_be_late() -> None:
    scan = p.scan(0, "#1")
    by_key = Deduplicate(id=OperatorId("d"), keys=("k#1",), event_time=None, schema=scan.schema, inputs=(scan,))
    graph = cut(p.sink(by_key))
    assert names(graph) == [["Scan", "PartialDeduplicate"], ["Deduplicate", "Sink"]]
    assert (graph.edges[0].partitioning, graph.edges[0].keys) == (Partitioning.KEYED, ("k#1",))
    within = replace(by_key, event_time=EventTimeKey("ts#1", None), within_watermark=True, delay_us=1)
    assert names(cut(p.sink(within))) == [["Scan"], ["Deduplicate", "Sink"]]
    timed = replace(by_key, keys=("k#1", "ts#1"), event_time=EventTimeKey("ts#1", None))
    assert names(cut(p.sink(timed))) == [["Scan", "PartialDeduplicate"], ["Deduplicate", "Sink"]]


@pytest.mark.parametrize(
    ("keys", "single", "how"),
    [(("k#1",), False, Partitioning.KEYED), ((), False, Partitioning.REBALANCE), ((), True, Partitioning.KEYED)],
)
def test_a_repartition_is_an_edge(keys: tuple[str, ...], single: bool, how: Partitioning) -> None:
    scan = p.scan(0, "#1")
    graph = cut(p.sink(Repartition(keys=keys, single=single, schema=scan.schema, inputs=(scan,))))
    assert names(graph) == [["Scan"], ["Repartition", "Sink"]]
    (edge,) = graph.edges
    assert (edge.partitioning, edge.keys) == (how, keys)
