"""The first phase: one row per key and batch, nothing kept."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Decimal, Field, Struct
from tidegate.operators.columns import polars_schema
from tidegate.operators.partial_aggregate import PartialAggregateOperator, partial_schema
from tidegate.plan.relational import Aggregate, AggregateCall, PartialAggregate

PAIR = Field("p", Struct((Field("x", t.LONG), Field("y", t.DOUBLE))))
NODE = Aggregate(
    id=OperatorId("a"),
    keys=("p",),
    calls=(
        AggregateCall("n", "count", (), t.LONG),
        AggregateCall("s", "sum", ("m",), Decimal(20, 2), (Decimal(10, 2),)),
        AggregateCall("c", "collect_list", ("m",), t.Array(Decimal(10, 2)), (Decimal(10, 2),)),
    ),
    event_time=None,
    mode=OutputMode.UPDATE,
    schema=(),
    input_schema=(PAIR, Field("m", Decimal(10, 2))),
)


def partial() -> PartialAggregateOperator:
    return PartialAggregateOperator(PartialAggregate(aggregate=NODE, schema=partial_schema(NODE)))


def batch(*rows: tuple) -> Batch:
    return Batch(pl.DataFrame(rows, schema=polars_schema(NODE.input_schema), orient="row"), origin=3)


def test_the_output_has_the_schema_the_planner_was_told() -> None:
    (out,) = partial().on_batch(batch(({"x": 1, "y": -0.0}, None), (None, None)))
    assert isinstance(out, Batch)
    assert out.rows.schema == polars_schema(partial_schema(NODE))
    assert out.origin == 3


def test_equal_keys_of_a_batch_become_one_row() -> None:
    (out,) = partial().on_batch(batch(({"x": 1, "y": -0.0}, None), ({"x": 1, "y": 0.0}, None), (None, None)))
    assert isinstance(out, Batch)
    assert sorted(zip(out.rows["p"].to_list(), out.rows["n.count"].to_list(), strict=True), key=str) == sorted(
        [({"x": 1, "y": 0.0}, 2), (None, 1)], key=str
    )


def test_an_empty_batch_gives_nothing() -> None:
    """T57: not even for an aggregate without keys."""
    assert list(partial().on_batch(batch())) == []
