"""Projections and predicates over whole batches."""

from __future__ import annotations

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.errors import DataError
from tidegate.model.types import Field
from tidegate.operators.expressions import Predicate, Projection
from tidegate.plan.expressions import Call, Column, Expression, Literal, MakeStruct, Named

ROWS = pl.DataFrame({"a#1": [7, 8, 9], "b#2": [1, 0, None]})
A, B = Column("a#1", t.LONG), Column("b#2", t.LONG)
MOD = Call("remainder", (A, B), t.LONG, sql="(a % b)")


def project(expression: Expression, rows: pl.DataFrame = ROWS) -> pl.DataFrame:
    return Projection([Named("v#9", expression)], (Field("v#9", expression.type),)).apply(rows)


def test_constants_fill_the_batch() -> None:
    assert project(Literal("x", t.STRING))["v#9"].to_list() == ["x"] * 3


def test_constants_fill_a_batch_without_columns() -> None:
    assert project(Literal(1, t.INTEGER), pl.DataFrame(height=4)).height == 4


def test_no_columns_keep_the_height() -> None:
    assert Projection([], ()).apply(ROWS).height == 3


def test_picked_columns_share_their_buffers() -> None:
    assert project(A).to_dict(as_series=False) == {"v#9": [7, 8, 9]}


def test_a_row_in_error_is_shown_with_class_text_and_values() -> None:
    with pytest.raises(DataError) as raised:
        project(MOD)
    assert "[REMAINDER_BY_ZERO] (a % b) for the row with a = 8, b = 0" in str(raised.value)
    assert "try_mod" in raised.value.hint


def test_an_error_in_a_constant_projection_is_found_too() -> None:
    with pytest.raises(DataError, match="DIVIDE_BY_ZERO"):
        project(Call("divide", (Literal(1.0, t.DOUBLE), Literal(0.0, t.DOUBLE)), t.DOUBLE))


def test_an_empty_batch_has_no_errors_and_the_right_types() -> None:
    assert project(MOD, ROWS.clear()).schema == {"v#9": pl.Int64}
    assert project(Call("divide", (Literal(1.0, t.DOUBLE), Literal(0.0, t.DOUBLE)), t.DOUBLE), ROWS.clear()).height == 0


def test_a_filter_drops_false_and_null() -> None:
    assert Predicate(Call(">", (B, Literal(0, t.LONG)), t.BOOLEAN)).apply(ROWS)["a#1"].to_list() == [7]


def test_a_filter_raises_for_rows_it_evaluates() -> None:
    with pytest.raises(DataError, match="REMAINDER_BY_ZERO"):
        Predicate(Call("=", (MOD, Literal(0, t.LONG)), t.BOOLEAN)).apply(ROWS)


@pytest.mark.parametrize(("value", "kept"), [(True, 3), (False, 0), (None, 0)])
def test_a_constant_filter_keeps_all_or_nothing(value: bool | None, kept: int) -> None:
    assert Predicate(Literal(value, t.BOOLEAN)).apply(ROWS).height == kept
    assert Predicate(Literal(value, t.BOOLEAN)).apply(pl.DataFrame(height=3)).height == kept


def test_structs_have_the_planned_fields() -> None:
    kind = t.Struct((Field("x", t.LONG), Field("y", t.STRING)))
    rows = project(MakeStruct((("x", A), ("y", Literal("k", t.STRING))), kind))
    assert rows["v#9"].to_list() == [{"x": 7, "y": "k"}, {"x": 8, "y": "k"}, {"x": 9, "y": "k"}]
