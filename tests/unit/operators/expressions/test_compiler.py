"""Which rows are in error: guards follow the branches that Spark evaluates."""

from __future__ import annotations

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.operators.expressions import compile_expression, first_unsupported, supported
from tidegate.plan.expressions import Call, Case, Cast, Column, Expression, Literal

A, B = Column("a#1", t.DOUBLE), Column("b#2", t.DOUBLE)
N, M = Column("n#3", t.LONG), Column("m#4", t.LONG)
ROWS = pl.DataFrame(
    {
        "a#1": [1.0, 1.0, None],
        "b#2": [2.0, 0.0, 0.0],
        "n#3": [1, 2**63 - 1, None],
        "m#4": [1, 1, 1],
        "s#5": ["1", "x", None],
    }
)


def divide(left: Expression, right: Expression, *, ansi: bool = True) -> Call:
    return Call("divide", (left, right), t.DOUBLE, ansi)


def positive(of: Expression) -> Call:
    return Call(">", (of, Literal(0.0, t.DOUBLE)), t.BOOLEAN)


NOT_ZERO = Call("not", (Call("=", (B, Literal(0.0, t.DOUBLE)), t.BOOLEAN),), t.BOOLEAN)
IS_ZERO = Call("=", (B, Literal(0.0, t.DOUBLE)), t.BOOLEAN)


def rows_in_error(of: Expression) -> list[int]:
    compiled = compile_expression(of)
    marks = ROWS.select(pl.any_horizontal([guard.condition for guard in compiled.guards])).to_series()
    return [row for row, hit in enumerate(marks) if hit]


def values(of: Expression) -> list[object]:
    return ROWS.select(compile_expression(of).value).to_series().to_list()


def test_division_by_zero_is_an_error_of_its_row_alone() -> None:
    assert rows_in_error(divide(A, B)) == [1]


def test_null_divided_by_zero_is_null() -> None:
    assert 2 not in rows_in_error(divide(A, B))


def test_try_forms_give_null_and_no_guard() -> None:
    of = divide(A, B, ansi=False)
    assert (values(of), compile_expression(of).guards) == ([0.5, None, None], ())


def test_a_branch_not_taken_cannot_fail() -> None:
    assert rows_in_error(Case(((NOT_ZERO, divide(A, B)),), None, t.DOUBLE)) == []


def test_a_branch_taken_can_fail() -> None:
    assert rows_in_error(Case(((IS_ZERO, divide(A, B)),), None, t.DOUBLE)) == [1]


def test_else_counts_only_where_no_condition_was_true() -> None:
    assert rows_in_error(Case(((IS_ZERO, A),), divide(A, B), t.DOUBLE)) == []


def test_a_later_condition_is_not_evaluated_once_a_branch_is_taken() -> None:
    assert rows_in_error(Case(((IS_ZERO, A), (positive(divide(A, B)), B)), None, t.DOUBLE)) == []


def test_and_stops_at_false() -> None:
    assert rows_in_error(Call("and", (NOT_ZERO, positive(divide(A, B))), t.BOOLEAN)) == []
    assert rows_in_error(Call("and", (IS_ZERO, positive(divide(A, B))), t.BOOLEAN)) == [1]


def test_and_goes_on_after_null() -> None:
    unknown = Literal(None, t.BOOLEAN)
    assert rows_in_error(Call("and", (unknown, positive(divide(A, B))), t.BOOLEAN)) == [1]


def test_or_stops_at_true() -> None:
    assert rows_in_error(Call("or", (IS_ZERO, positive(divide(A, B))), t.BOOLEAN)) == []


def test_coalesce_stops_at_the_first_value() -> None:
    assert rows_in_error(Call("coalesce", (A, divide(A, B)), t.DOUBLE)) == []
    assert rows_in_error(Call("coalesce", (Literal(None, t.DOUBLE), divide(A, B)), t.DOUBLE)) == [1]


def test_arguments_after_a_null_are_not_evaluated() -> None:
    null = Literal(None, t.DOUBLE)
    assert rows_in_error(Call("add", (null, divide(A, B)), t.DOUBLE)) == []
    assert rows_in_error(Call("add", (divide(A, B), null), t.DOUBLE)) == [1]


def test_overflow_of_longs_is_found() -> None:
    assert rows_in_error(Call("add", (N, M), t.LONG)) == [1]
    assert rows_in_error(Call("add", (N, Literal(1, t.LONG)), t.LONG)) == [1]


def test_a_cast_that_cannot_read_its_text_names_the_class() -> None:
    of = Cast(Column("s#5", t.STRING), t.INTEGER)
    assert [guard.error for guard in compile_expression(of).guards] == ["CAST_INVALID_INPUT"]
    assert rows_in_error(of) == [1]
    assert values(Cast(Column("s#5", t.STRING), t.INTEGER, ansi=False)) == [1, None, None]


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (Call("frobnicate", (A,), t.DOUBLE), "the function frobnicate is not supported"),
        (Call("rlike", (Column("s#5", t.STRING), Literal("(?=x)", t.STRING)), t.BOOLEAN), "look-around"),
        (Call("rlike", (Column("s#5", t.STRING), Column("s#5", t.STRING)), t.BOOLEAN), "constant"),
        (Call("date_format", (Column("d", t.DATE), Literal("GGGG", t.STRING)), t.STRING), "'GGGG'"),
        (Call("hour", (Column("t", t.TIMESTAMP),), t.INTEGER, zone="Mars/Olympus"), "time zone"),
        (Cast(Column("d", t.DATE), t.LONG), "cast from date to bigint"),
        (Call("upper", (N,), t.STRING), "upper is not supported for bigint"),
    ],
)
def test_what_we_cannot_do_is_refused_with_a_reason(of: Expression, reason: str) -> None:
    assert reason in (supported(of) or "")
    with pytest.raises(InvalidQuery, match="→"):
        compile_expression(of)


def test_the_unsupported_part_of_a_tree_is_found() -> None:
    inside = Call("frobnicate", (A,), t.DOUBLE)
    found = first_unsupported(Call("add", (A, inside), t.DOUBLE))
    assert found is not None
    assert found[0] is inside


def test_aliases_mean_the_same_function() -> None:
    assert values(Call("+", (A, B), t.DOUBLE)) == values(Call("ADD", (A, B), t.DOUBLE)) == [3.0, 1.0, None]
