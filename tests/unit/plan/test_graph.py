"""The physical shape as values: what the state of an operator means, in words that survive changes around it."""

from __future__ import annotations

from dataclasses import replace

from tidegate.model.ids import OperatorId
from tidegate.model.types import LONG, Field
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Aggregate, AggregateCall, OutputMode, Scan, Sink
from tidegate.plan.stages import build_graph


def totals(number: int, function: str = "sum") -> JobGraph:
    """``sum(v) group by k``; ``number`` is what the plan's columns happen to be numbered."""
    schema = (Field(f"k#{number}", LONG), Field(f"v#{number + 1}", LONG))
    scan = Scan(id=OperatorId("source-0"), format="parquet", options={}, schema=schema, columns=("k", "v"))
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
    sink = Sink(id=OperatorId("sink-0"), format="noop", options={}, columns=columns, schema=result, inputs=(aggregate,))
    return build_graph(sink, parallelism=2, max_parallelism=8)


def test_a_shape_does_not_depend_on_how_columns_are_numbered() -> None:
    """T48: an operator inserted elsewhere renumbers the plan and moves no state."""
    assert totals(3).state_shapes() == totals(17).state_shapes()


def test_a_shape_names_keys_and_functions_with_their_types() -> None:
    assert dict(totals(3).state_shapes())[OperatorId("aggregate-0")] == "groups by (k bigint): sum(v bigint)"


def test_another_function_is_another_shape() -> None:
    assert totals(3).state_shapes() != totals(3, "max").state_shapes()


def test_parallelism_is_no_part_of_a_shape() -> None:
    graph = totals(3)
    assert replace(graph, parallelism=5).state_shapes() == graph.state_shapes()
