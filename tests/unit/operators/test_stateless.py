"""Filter, project, expand: batches in, batches out, watermarks unchanged."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.model.types import Field
from tidegate.operators.expand import ExpandOperator
from tidegate.operators.filter import FilterOperator
from tidegate.operators.project import ProjectOperator
from tidegate.plan.expressions import Call, Column, Literal, Named
from tidegate.plan.relational import Expand, Filter, Project

A = Column("a#1", t.LONG)
SCHEMA = (Field("a#1", t.LONG),)
BATCH = Batch(pl.DataFrame({"a#1": [1, 2, 3]}), origin=5)


def rows(outputs: object) -> list[list[tuple[object, ...]]]:
    return [output.rows.rows() for output in outputs]  # type: ignore[attr-defined]


def test_a_filter_keeps_the_origin_of_its_rows() -> None:
    operator = FilterOperator(Filter(condition=Call(">", (A, Literal(1, t.LONG)), t.BOOLEAN), schema=SCHEMA))
    (output,) = operator.on_batch(BATCH)
    assert isinstance(output, Batch)
    assert (output.rows["a#1"].to_list(), output.origin) == ([2, 3], 5)


def test_a_filter_sends_no_empty_batches() -> None:
    operator = FilterOperator(Filter(condition=Call(">", (A, Literal(9, t.LONG)), t.BOOLEAN), schema=SCHEMA))
    assert list(operator.on_batch(BATCH)) == []


def test_a_projection_computes_its_columns() -> None:
    twice = Call("multiply", (A, Literal(2, t.LONG)), t.LONG)
    operator = ProjectOperator(Project(columns=(Named("b#2", twice),), schema=(Field("b#2", t.LONG),)))
    assert rows(operator.on_batch(BATCH)) == [[(2,), (4,), (6,)]]


def test_expand_sends_one_batch_per_projection() -> None:
    node = Expand(
        projections=((A, Literal(0, t.INTEGER)), (A, Literal(1, t.INTEGER))), schema=(*SCHEMA, Field("g#2", t.INTEGER))
    )
    assert rows(ExpandOperator(node).on_batch(BATCH)) == [[(1, 0), (2, 0), (3, 0)], [(1, 1), (2, 1), (3, 1)]]


def test_watermarks_pass_unchanged() -> None:
    assert ProjectOperator(Project(columns=(Named("a#1", A),), schema=SCHEMA)).output_watermark(42) == 42
