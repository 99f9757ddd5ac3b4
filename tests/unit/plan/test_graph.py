"""The physical shape as values: what the state of an operator means, in words that survive changes around it."""

from __future__ import annotations

from dataclasses import replace

from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.model.shape import changes
from tidegate.model.types import LONG, Field
from tidegate.plan.graph import JobGraph, is_input_state
from tidegate.plan.relational import Aggregate, AggregateCall, Scan, Sink
from tidegate.plan.stages import build_graph
from tidegate.testing.stand_ins import scripted_sink, scripted_source


def totals(number: int, function: str = "sum") -> JobGraph:
    """``sum(v) group by k``; ``number`` is what the plan's columns happen to be numbered."""
    schema = (Field(f"k#{number}", LONG), Field(f"v#{number + 1}", LONG))
    scan = Scan(id=OperatorId("source-0"), spec=scripted_source(format="parquet"), schema=schema, columns=("k", "v"))
    result = (schema[0], Field("total", LONG))
    aggregate = Aggregate(
        id=OperatorId("aggregate-0"),
        keys=(schema[0].name,),
        calls=(AggregateCall("total", function, (schema[1].name,), LONG, input_types=(LONG,)),),
        event_time=None,
        mode=OutputMode.UPDATE,
        schema=result,
        input_schema=schema,
        inputs=(scan,),
    )
    columns = ((schema[0].name, "k"), ("total", "total"))
    sink = Sink(
        id=OperatorId("sink-0"), spec=scripted_sink(result, format="noop"), columns=columns, inputs=(aggregate,)
    )
    return build_graph(sink, parallelism=2, max_parallelism=8)


def shapes(graph: JobGraph) -> dict[str, tuple[tuple[str, str], ...]]:
    return {one.operator: one.parts for one in graph.state_shapes() if not is_input_state(one.operator)}


def test_a_shape_does_not_depend_on_how_columns_are_numbered() -> None:
    """T48: an operator inserted elsewhere renumbers the plan and moves no state."""
    assert shapes(totals(3)) == shapes(totals(17))


def test_the_shape_of_inputs_does_depend_on_it_because_rows_under_way_carry_those_names() -> None:
    assert totals(3).state_shapes() != totals(17).state_shapes()


def test_a_shape_names_keys_and_functions_with_their_types() -> None:
    assert shapes(totals(3))["aggregate-0"] == (("key 1", "k bigint"), ("aggregate 1", "sum(v bigint)"))


def test_every_stateful_operator_has_a_shape() -> None:
    graph = totals(3)
    assert tuple(one.operator for one in graph.state_shapes()) == graph.stateful_ids()


def test_another_function_is_another_shape_and_the_change_is_named() -> None:
    was, now = totals(3).state_shapes()[0], totals(3, "max").state_shapes()[0]
    assert changes(was, was) == ()
    assert changes(was, now) == ("aggregate 1: sum(v bigint) → max(v bigint)",)


def test_parallelism_is_no_part_of_a_shape() -> None:
    graph = totals(3)
    assert replace(graph, parallelism=5).state_shapes() == graph.state_shapes()
