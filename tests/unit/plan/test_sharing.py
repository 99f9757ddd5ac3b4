"""What counts as the same work, and what a shared node does to the rest of the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.property import pipelines as p

from tidegate.catalyst.together import prune_all, together
from tidegate.model import types as t
from tidegate.plan.expressions import Call, Column, Literal, Named
from tidegate.plan.graph import JobGraph, Partitioning
from tidegate.plan.identity import identify_all, pin_all
from tidegate.plan.relational import AssignWatermark, Filter, Plan, Project, Scan, Sink, Union
from tidegate.plan.sharing import connected, distinct, form, share, shared_nodes
from tidegate.plan.stages import build_graph
from tidegate.plan.watermarks import settle
from tidegate.testing.stand_ins import scripted_source


def scan(suffix: str, **options: str) -> Scan:
    return replace(p.scan(0, suffix), columns=("ts", "w", "k", "v"), spec=scripted_source(place=str(options)))


def watermark(plan: Plan, suffix: str, delay_us: int = 5_000_000) -> AssignWatermark:
    return replace(p.watermark(plan, f"ts{suffix}"), delay_us=delay_us)


def counted(plan: Plan, suffix: str, number: int) -> Plan:
    return p.count_and_sum(plan, (f"w{suffix}", f"k{suffix}"), f"v{suffix}", number=number, window=f"w{suffix}")


def over(plan: Plan, suffix: str, limit: int) -> Filter:
    condition = Call("greaterthan", (Column(f"v{suffix}", t.LONG), Literal(limit, t.LONG)), t.BOOLEAN)
    return Filter(condition=condition, schema=plan.schema, inputs=(plan,))


def query(plan: Plan, name: str) -> Sink:
    return replace(p.sink(plan), query=name)


def cut(*plans: Sink) -> JobGraph:
    return build_graph(*plans, parallelism=2, max_parallelism=8)


def nodes(graph: JobGraph) -> list[list[str]]:
    return [[type(node).__name__ for node in stage.nodes] for stage in graph.stages]


def test_names_of_columns_and_operators_do_not_tell_subtrees_apart() -> None:
    assert form(over(scan("#1"), "#1", 5)) == form(over(replace(scan("#2"), id=p.OperatorId("other")), "#2", 5))
    assert form(over(scan("#1"), "#1", 5)) != form(over(scan("#2"), "#2", 6))
    assert form(scan("#1", path="/a")) != form(scan("#2", path="/b"))
    swapped = replace(scan("#2"), schema=tuple(reversed(scan("#2").schema)))
    assert form(scan("#1")) != form(swapped)


def test_a_literal_that_looks_like_a_column_is_a_literal() -> None:
    def same_as(text: str) -> Filter:
        below = scan("#1")
        condition = Call("equalto", (Literal(text, t.STRING), Literal("x", t.STRING)), t.BOOLEAN)
        return Filter(condition=condition, schema=below.schema, inputs=(below,))

    assert form(same_as("v#1")) != form(same_as("k#1"))


def test_queries_that_do_different_things_share_the_source_and_nothing_else() -> None:
    first, second = share([query(over(scan("#1"), "#1", 5), "a"), query(over(scan("#2"), "#2", 6), "b")])
    (common,) = shared_nodes((first, second))
    assert isinstance(common, Scan)
    (rename,) = [node for node in distinct((second,)) if isinstance(node, Project)]
    assert next((one.name, one.expression) for one in rename.columns) == ("ts#2", Column("ts#1", t.TIMESTAMP))


def test_equal_operators_above_an_equal_source_run_once() -> None:
    plans = share([query(counted(watermark(scan(s), s), s, 0), s) for s in ("#1", "#2")])
    (common,) = shared_nodes(plans)
    assert common is plans[0].inputs[0]
    assert nodes(cut(*identify_all(plans)))[-2:] == [["Sink"], ["Project", "Sink"]]


def test_event_time_is_assigned_where_the_splits_are_known() -> None:
    """A shared scan ends its stage; behind it nobody could tell the splits apart, so the assigner stays before the cut."""
    plans = share([query(over(scan("#1"), "#1", 5), "a"), query(counted(watermark(scan("#2"), "#2"), "#2", 0), "b")])
    graph = cut(*identify_all(plans))
    assert nodes(graph)[0] == ["Scan", "AssignWatermark"]
    assert len(graph.scans()) == 1


def test_queries_with_different_delays_read_the_source_twice() -> None:
    plans = share([query(counted(watermark(scan(s), s, delay), s, 0), s) for s, delay in (("#1", 1), ("#2", 2))])
    assert shared_nodes(plans) == ()
    assert connected(plans) == ((0,), (1,))


def test_two_halves_of_a_union_read_the_source_once() -> None:
    (plan,) = share([query(Union(schema=p.schema("#3"), inputs=(scan("#1"), scan("#2"))), "both")])
    graph = cut(*identify_all((plan,)))
    assert nodes(graph) == [["Scan"], ["Union", "Sink"]]
    assert [(edge.source, edge.target, edge.port) for edge in graph.edges] == [(0, 1, 0), (0, 1, 1)]


def test_pipelines_are_the_queries_that_have_something_in_common() -> None:
    def both(name: str) -> Sink:
        halves = (scan("#3", path="/a"), scan("#4", path="/b"))
        return query(Union(schema=p.schema("#5"), inputs=halves), name)

    alone = [query(scan("#1", path="/a"), "a"), query(scan("#2", path="/b"), "b"), query(scan("#6", path="/c"), "c")]
    assert connected(share(alone)) == ((0,), (1,), (2,))
    assert connected(share([*alone, both("d")])) == ((0, 1, 3), (2,))


def test_a_shared_stage_feeds_each_consumer_and_each_combines_rows_itself() -> None:
    suffixes = ("#1", "#2")
    plans = [query(counted(over(watermark(scan(s), s), s, limit), s, limit), s) for limit, s in enumerate(suffixes)]
    graph = cut(*identify_all(share(plans)))
    assert nodes(graph)[0] == ["Scan", "AssignWatermark"]
    assert [edge.partitioning for edge in graph.outputs_of(graph.stages[0].id)] == [Partitioning.FORWARD] * 2
    partial = [stage for stage in nodes(graph) if "PartialAggregate" in stage]
    assert partial == [["Filter", "PartialAggregate"], ["Project", "Filter", "PartialAggregate"]]


def test_a_shared_source_reads_what_any_query_reads_and_each_query_gets_its_own() -> None:
    def only(column: str, suffix: str) -> Project:
        name = f"{column}{suffix}"
        field = next(one for one in p.schema(suffix) if one.name == name)
        return Project(columns=(Named(name, Column(name, field.type)),), schema=(field,), inputs=(scan(suffix),))

    first, second = prune_all(share([query(only("k", "#1"), "a"), query(only("v", "#2"), "b")]))
    (common,) = shared_nodes((first, second))
    assert isinstance(common, Scan) and common.columns == ("k", "v")
    assert [[one.name for one in plan.inputs[0].schema] for plan in (first, second)] == [["k#1"], ["v#2"]]


def test_ids_do_not_depend_on_the_order_in_which_queries_are_added() -> None:
    """T48"""
    plans = [
        query(counted(over(watermark(scan(s), s), s, limit), s, limit), name)
        for limit, (s, name) in enumerate((("#1", "low"), ("#2", "high")))
    ]

    def ids(order: list[Sink]) -> dict[str, list[str]]:
        (component,) = together(order)
        return {
            plan.query: [node.id for node in distinct((plan,)) if not isinstance(node, Filter | Project)]
            for plan in component.plans
        }

    assert ids(plans) == ids(plans[::-1])
    assert len({one for found in ids(plans).values() for one in found}) == 6, "source and watermark are the same"


def test_a_shared_operator_is_pinned_once_for_all() -> None:
    plans = identify_all(share([query(scan("#1"), "a"), query(over(scan("#2"), "#2", 5), "b")]))
    pinned = pin_all(plans, {"source": "events"})
    assert [scan.id for scan in cut(*pinned).scans()] == ["events"]
    assert "sink-scripted_a" in cut(*pinned).stateful_ids()


@pytest.mark.parametrize(("through_filters", "top"), [(True, Filter), (False, AssignWatermark)])
def test_an_assigner_settles_below_what_the_optimiser_moved_there(through_filters: bool, top: type) -> None:
    below = scan("#1")
    columns = tuple(Named(one.name, Column(one.name, one.type)) for one in below.schema)
    chosen = Project(columns=columns, schema=below.schema, inputs=(below,))
    settled = settle(watermark(over(chosen, "#1", 5), "#1"), through_filters=through_filters)
    assert isinstance(settled, top)
    lowest = next(node for node in distinct((settled,)) if isinstance(node, AssignWatermark))
    assert isinstance(lowest.inputs[0], Scan if through_filters else Filter)
