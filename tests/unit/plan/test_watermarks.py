"""Where in a plan event time is assigned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.property import pipelines as p

from tidegate.catalyst.together import together
from tidegate.model import types as t
from tidegate.model.ids import OperatorId
from tidegate.plan.expressions import Call, Column, Literal, Named
from tidegate.plan.graph import JobGraph
from tidegate.plan.keyed import Deduplicate
from tidegate.plan.relational import AssignWatermark, Filter, Plan, Project, Repartition, Scan, Sink, Union
from tidegate.plan.sharing import distinct
from tidegate.plan.stages import build_graph
from tidegate.plan.streams import far_assigners
from tidegate.plan.watermarks import assigner_below, push_watermarks_down, settle, settle_unasked
from tidegate.testing.stand_ins import scripted_source


def scan(suffix: str = "#1", place: str = "/a") -> Scan:
    return replace(p.scan(0, suffix), columns=("ts", "w", "k", "v"), spec=scripted_source(place=place))


def timed(plan: Plan, suffix: str = "#1", name: str = "watermark-0") -> AssignWatermark:
    return replace(p.watermark(plan, f"ts{suffix}"), id=OperatorId(name))


def over(plan: Plan, limit: int = 5, suffix: str = "#1") -> Filter:
    condition = Call("greaterthan", (Column(f"v{suffix}", t.LONG), Literal(limit, t.LONG)), t.BOOLEAN)
    return Filter(condition=condition, schema=plan.schema, inputs=(plan,))


def chosen(plan: Plan) -> Project:
    """All columns, under their names."""
    columns = tuple(Named(one.name, Column(one.name, one.type)) for one in plan.schema)
    return Project(columns=columns, schema=plan.schema, inputs=(plan,))


def counted(plan: Plan, suffix: str = "#1") -> Plan:
    return p.count_and_sum(plan, (f"w{suffix}", f"k{suffix}"), f"v{suffix}", number=0, window=f"w{suffix}")


def union(suffix: str, *inputs: Plan) -> Union:
    return Union(schema=p.schema(suffix), inputs=inputs)


def cut(*plans: Sink) -> JobGraph:
    return build_graph(*plans, parallelism=2, max_parallelism=8)


def names(graph: JobGraph) -> list[list[str]]:
    return [[type(node).__name__ for node in stage.nodes] for stage in graph.stages]


def read(plan: Plan, name: str) -> Sink:
    """As ``catalyst`` hands a query on."""
    sink = push_watermarks_down(settle_unasked(replace(p.sink(plan), query=name)))
    assert isinstance(sink, Sink)
    return sink


@pytest.mark.parametrize("between", [lambda plan: plan, chosen], ids=["", "projection"])
def test_a_row_that_is_filtered_away_tells_no_time(between) -> None:
    """T85: Spark's optimiser has moved the filter below ``withWatermark``; one bogus future row would make all others late."""
    (component,) = together([read(counted(settle(timed(between(over(scan()))))), "q")])
    (chain,) = [nodes for nodes in names(cut(*component.plans)) if "Scan" in nodes]
    assert chain.index("Filter") < chain.index("AssignWatermark")


def test_filters_of_the_branches_of_a_union_stay_below_the_assigners() -> None:
    both = union("#3", over(scan("#1", "/a"), 5, "#1"), chosen(over(scan("#2", "/b"), 5, "#2")))
    (component,) = together([read(counted(timed(both, "#3"), "#3"), "q")])
    chains = [nodes for nodes in names(cut(*component.plans)) if "Scan" in nodes]
    assert [nodes[:3] for nodes in chains] == [["Scan", "Filter", "AssignWatermark"]] * 2


def test_queries_that_filter_differently_below_their_event_time_read_the_source_apart() -> None:
    low, high = (read(counted(timed(over(scan(s), limit, s), s), s), s) for s, limit in (("#1", 5), ("#2", 6)))
    again = read(counted(timed(over(scan("#3"), 5, "#3"), "#3"), "#3"), "#3")
    assert [component.positions for component in together([low, high, again])] == [(0, 2), (1,)]


def test_a_query_that_asks_for_no_event_time_shares_the_source_whatever_it_filters() -> None:
    """Nobody hears the time of rows that are filtered away there."""
    asks = read(counted(timed(scan("#1"), "#1"), "#1"), "asks")
    silent = read(timed(over(chosen(scan("#2")), 5, "#2"), "#2"), "silent")
    plain = read(over(scan("#3"), 7, "#3"), "plain")
    (component,) = together([asks, silent, plain])
    assert len(cut(*component.plans).scans()) == 1
    assert names(cut(*component.plans))[0] == ["Scan", "AssignWatermark"]


def test_a_query_without_event_time_reads_filtered_rows_behind_the_assigner() -> None:
    asks = read(counted(timed(over(scan("#1"), 5, "#1"), "#1"), "#1"), "asks")
    plain = read(over(scan("#2"), 5, "#2"), "plain")
    (component,) = together([plain, asks])
    assert names(cut(*component.plans))[0] == ["Scan", "Filter", "AssignWatermark"]


def test_an_assigner_whose_time_is_asked_for_stays_above_its_filter() -> None:
    node = settle_unasked(p.sink(counted(timed(over(scan())))))
    (assigner,) = [one for one in distinct((node,)) if isinstance(one, AssignWatermark)]
    assert isinstance(assigner.inputs[0], Filter)
    unasked = settle_unasked(p.sink(timed(over(scan()))))
    (assigner,) = [one for one in distinct((unasked,)) if isinstance(one, AssignWatermark)]
    assert isinstance(assigner.inputs[0], Scan)


def test_projections_between_an_assigner_and_a_union_do_not_keep_it_above() -> None:
    inner = union("#3", p.scan(0, "#1"), p.scan(1, "#2"))
    outer = union("#5", chosen(inner), p.scan(2, "#4"))
    graph = cut(p.sink(counted(timed(chosen(outer), "#5"), "#5")))
    below = [stage.nodes for stage in graph.stages if isinstance(stage.nodes[0], Scan)]
    assert [[type(node).__name__ for node in nodes] for nodes in below] == [["Scan", "AssignWatermark"]] * 3
    assigners = [node for nodes in below for node in nodes if isinstance(node, AssignWatermark)]
    assert sorted(node.id for node in assigners) == ["watermark-0.0.0", "watermark-0.0.1", "watermark-0.1"]
    assert {node.stream for node in assigners} == {"watermark-0"}
    assert far_assigners(graph) == ()


def test_a_projection_that_computes_the_time_keeps_the_assigner_above() -> None:
    later = Call("plus", (Column("ts#1", t.TIMESTAMP), Literal(1, t.LONG)), t.TIMESTAMP)
    columns = (Named("ts#1", later), Named("v#1", Column("v#1", t.LONG)))
    made = Project(columns=columns, schema=tuple(p.schema("#1")[i] for i in (0, 3)), inputs=(scan(),))
    assert settle(timed(made)).inputs[0] is made


def test_an_assigner_behind_an_exchange_is_far_from_the_splits() -> None:
    one, two = scan("#1", "/a"), replace(scan("#2", "/b"), id=OperatorId("source-1"))
    united = over(union("#3", one, two), 5, "#3")
    (far,) = far_assigners(cut(p.sink(timed(united, "#3"))))
    assert far.node.id == "watermark-0" and far.sources == ("source-0", "source-1")
    first = Deduplicate(id=OperatorId("d"), keys=("k#1",), event_time=None, schema=one.schema, inputs=(one,))
    assert [far.node.id for far in far_assigners(cut(p.sink(timed(first))))] == ["watermark-0"]
    assert far_assigners(cut(p.sink(counted(timed(over(one)))))) == ()


def test_the_event_time_of_rows_is_that_of_the_assigner_below_them() -> None:
    below = timed(scan())
    spread = Repartition(keys=("k#1",), schema=below.schema, inputs=(over(below),))
    assert assigner_below(union("#3", scan("#2"), spread)) is below
    assert assigner_below(over(scan())) is None
    assert assigner_below(over(counted(below))) is None, "an aggregation makes new rows"
