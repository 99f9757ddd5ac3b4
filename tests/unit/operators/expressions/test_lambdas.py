"""Lambdas: captured columns, nesting, and errors that belong to the row whose array holds the element."""

from __future__ import annotations

import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Array
from tidegate.operators.expressions import compile_expression
from tidegate.plan.expressions import Call, Column, Expression, Lambda, Literal, columns_of

XS, K = Column("xs#1", Array(t.INTEGER)), Column("k#2", t.INTEGER)
X = Column("x@0.0", t.INTEGER)
HIGH = 2**31 - 1
ROWS = pl.DataFrame(
    {"xs#1": [[1, None], [], None, [HIGH, 2]], "k#2": [10, 1, 1, 1]},
    schema={"xs#1": pl.List(pl.Int32), "k#2": pl.Int32},
)
PLUS_K = Lambda((X,), Call("add", (X, K), t.INTEGER))


def values(of: Expression) -> list[object]:
    return ROWS.select(compile_expression(of).value).to_series().to_list()


def rows_in_error(of: Expression) -> list[int]:
    marks = [guard.condition.fill_null(False).alias(str(n)) for n, guard in enumerate(compile_expression(of).guards)]
    return ROWS.select(pl.any_horizontal(marks)).to_series().arg_true().to_list()


def test_a_lambda_sees_the_columns_around_it() -> None:
    assert values(Call("transform", (XS, PLUS_K), Array(t.INTEGER)))[:3] == [[11, None], [], None]


def test_an_element_in_error_is_an_error_of_its_row_alone() -> None:
    assert rows_in_error(Call("transform", (XS, PLUS_K), Array(t.INTEGER))) == [3]


def test_parameters_are_no_columns_of_the_input() -> None:
    assert columns_of(Call("transform", (XS, PLUS_K), Array(t.INTEGER))) == {"xs#1", "k#2"}


def test_exists_does_not_reach_errors_behind_the_element_that_decides() -> None:
    overflow = Call("add", (X, Literal(1, t.INTEGER)), t.INTEGER)
    first = Call(
        "or", (Call(">", (X, Literal(5, t.INTEGER)), t.BOOLEAN), Call(">", (overflow, K), t.BOOLEAN)), t.BOOLEAN
    )
    assert rows_in_error(Call("exists", (XS, Lambda((X,), first)), t.BOOLEAN)) == []


def test_a_fold_takes_the_elements_in_their_order() -> None:
    state, item = Column("a@0.0", t.INTEGER), Column("x@0.1", t.INTEGER)
    merge = Lambda(
        (state, item), Call("subtract", (Call("multiply", (state, Literal(2, t.INTEGER)), t.INTEGER), item), t.INTEGER)
    )
    finish = Lambda((state,), state)
    start = Literal(1, t.INTEGER)
    rows = pl.DataFrame({"xs#1": [[1, 2, 3], [], None]}, schema={"xs#1": pl.List(pl.Int32)})
    folded = compile_expression(Call("aggregate", (XS, start, merge, finish), t.INTEGER))
    assert rows.select(folded.value).to_series().to_list() == [-3, 1, None]
