"""Whose time comes through which edge."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.property import pipelines as p

from tidegate.catalyst.together import together
from tidegate.model.ids import OperatorId
from tidegate.plan.graph import JobGraph
from tidegate.plan.identity import identify_all, pin_all
from tidegate.plan.relational import AssignWatermark, Plan, Repartition, Scan, Sink, Union
from tidegate.plan.sharing import distinct, shared_nodes
from tidegate.plan.stages import build_graph
from tidegate.plan.streams import far_sources, sources_meet, streams_of
from tidegate.plan.watermarks import push_watermarks_down
from tidegate.testing.stand_ins import scripted_source


def scan(suffix: str, place: str) -> Scan:
    return replace(p.scan(0, suffix), columns=("ts", "w", "k", "v"), spec=scripted_source(place=place))


def timed(plan: Plan, suffix: str, name: str) -> AssignWatermark:
    return replace(p.watermark(plan, f"ts{suffix}"), id=OperatorId(name))


def union(suffix: str, *inputs: Plan) -> Union:
    return Union(schema=p.schema(suffix), inputs=inputs)


def query(plan: Plan, name: str = "q") -> Sink:
    sink = push_watermarks_down(replace(p.sink(plan), query=name))
    assert isinstance(sink, Sink)
    return sink


def cut(*plans: Sink) -> JobGraph:
    return build_graph(*plans, parallelism=2, max_parallelism=8)


def into(graph: JobGraph, kind: type[Plan]) -> list[set[str]]:
    """Streams of the inputs of the first stage that has such an operator, port by port."""
    stage = next(stage for stage in graph.stages if any(isinstance(node, kind) for node in stage.nodes))
    return [set(streams_of(graph)[edge.number]) for edge in graph.inputs_of(stage.id)]


def below_a_union(number: int = 1) -> Plan:
    a, b, c = f"#{number}1", f"#{number}2", f"#{number}3"
    return timed(union(c, scan(a, "/a"), scan(b, "/b")), c, f"w{number}")


def above_each(number: int = 1, second: str = "/b") -> Union:
    a, b, c = f"#{number}4", f"#{number}5", f"#{number}6"
    return union(c, timed(scan(a, "/a"), a, f"x{number}"), timed(scan(b, second), b, f"y{number}"))


def test_branches_of_one_with_watermark_are_one_stream() -> None:
    graph = cut(p.union_of_two(Random(1)).plan)
    assert into(graph, Union) == [{"watermark-0"}, {"watermark-0"}]


def test_they_are_still_one_when_operators_have_got_their_names() -> None:
    (component,) = together([query(below_a_union())])
    graph = cut(*component.plans)
    ids = [node.id for stage in graph.stages for node in stage.nodes if isinstance(node, AssignWatermark)]
    assert ids == ["watermark-ts_scripted_a", "watermark-ts_scripted_b"]
    assert into(graph, Union) == [{"watermark-ts_scripted_a"}] * 2
    pinned = cut(*pin_all(component.plans, {"watermark-ts_scripted_a": "zeit"}))
    assert into(pinned, Union) == [{"watermark-ts_scripted_b"}] * 2


def test_each_with_watermark_as_the_user_wrote_it_is_a_stream_of_its_own() -> None:
    (component,) = together([query(above_each())])
    graph = cut(*component.plans)
    assert into(graph, Union) == [{"watermark-ts_scripted_a"}, {"watermark-ts_scripted_b"}]


def test_an_edge_has_all_streams_above_it_and_an_edge_without_any_has_none() -> None:
    other = scan("#7", "/c")
    exchanged = Repartition(keys=("k#8",), schema=p.schema("#8"), inputs=(union("#8", above_each(), other),))
    (component,) = together([query(exchanged)])
    graph = cut(*component.plans)
    one, two = "watermark-ts_scripted_a", "watermark-ts_scripted_b"
    assert into(graph, Repartition) == [{one, two}]
    by_source = {
        node.spec.place: set(streams_of(graph)[edge.number])
        for edge in graph.edges
        if isinstance(node := graph.stage(edge.source).nodes[0], Scan)
    }
    assert by_source == {"/a": {one}, "/b": {two}, "/c": set()}


def test_an_assigner_behind_an_exchange_begins_a_stream() -> None:
    below = Repartition(keys=("k#1",), schema=p.schema("#1"), inputs=(scan("#1", "/a"),))
    counted = p.count_and_sum(_stays(below, "#1"), ("w#1",), "v#1", number=0, window="w#1")
    graph = cut(*identify_all((p.sink(counted),)))
    streams = {frozenset(one) for one in streams_of(graph).values()}
    assert len(streams) == 2 and frozenset() in streams


def _stays(below: Plan, suffix: str) -> Plan:
    """With something in between that no assigner goes through."""
    keyed = p.count_and_sum(below, (f"ts{suffix}", f"w{suffix}", f"k{suffix}"), f"v{suffix}", number=7, window=None)
    return timed(keyed, suffix, "late")


def test_sources_meet_where_several_are_read_and_somebody_asks_for_time() -> None:
    assert sources_meet(cut(p.union_of_two(Random(1)).plan))
    assert not sources_meet(cut(p.windowed(Random(1)).plan))
    (component,) = together([query(union("#3", scan("#1", "/a"), scan("#2", "/b")))])
    assert not sources_meet(cut(*component.plans))


def test_sources_are_far_whose_time_is_told_behind_an_exchange() -> None:
    (component,) = together([query(_stays(scan("#1", "/a"), "#1"))])
    assert far_sources(cut(*component.plans)) == {"source-scripted_a"}
    assert far_sources(cut(p.windowed(Random(1)).plan)) == frozenset()


def test_queries_with_the_same_stream_share_it() -> None:
    (component,) = together([query(below_a_union(1), "one"), query(below_a_union(2), "two")])
    assert len([node for node in distinct(component.plans) if isinstance(node, Scan)]) == 2
    assert any(isinstance(node, Union) for node in shared_nodes(component.plans))


def test_a_branch_is_not_shared_with_a_stream_of_its_own() -> None:
    """In one query a quiet source must not hold the other one, in the other query it must."""
    assert len(together([query(below_a_union(1), "one"), query(above_each(2), "two")])) == 2
    assert len(together([query(above_each(1), "one"), query(above_each(2), "two")])) == 1


def test_streams_that_have_only_one_branch_in_common_are_read_apart() -> None:
    third = timed(union("#33", scan("#31", "/a"), scan("#32", "/c")), "#33", "w3")
    assert len(together([query(below_a_union(1), "one"), query(third, "three")])) == 2


def test_a_union_with_itself_is_one_stream() -> None:
    twice = timed(union("#3", scan("#1", "/a"), scan("#2", "/a")), "#3", "w")
    (component,) = together([query(twice)])
    assert len([node for node in distinct(component.plans) if isinstance(node, AssignWatermark)]) == 1
    assert into(cut(*component.plans), Union) == [{"watermark-ts_scripted_a"}] * 2
