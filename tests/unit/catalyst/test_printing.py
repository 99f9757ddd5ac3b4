"""Expressions in messages read like the query."""

from __future__ import annotations

import datetime

import pytest

from tidegate.catalyst.printing import sql_text
from tidegate.model import types as t
from tidegate.plan.expressions import Call, Case, Cast, Column, FieldOf, Literal

PRICE = Column("price#3", t.LONG)
TEN = Literal(10, t.LONG)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Call("add", (PRICE, TEN), t.LONG), "(price + 10)"),
        (Call("in", (PRICE, TEN, Literal(None, t.LONG)), t.BOOLEAN), "(price IN (10, NULL))"),
        (Call("isnotnull", (PRICE,), t.BOOLEAN), "(price IS NOT NULL)"),
        (Call("upper", (Literal("a'b", t.STRING),), t.STRING), "upper('a\\'b')"),
        (Cast(PRICE, t.Decimal(5, 2)), "CAST(price AS DECIMAL(5,2))"),
        (
            Case(((Call("not", (PRICE,), t.BOOLEAN), TEN),), PRICE, t.LONG),
            "CASE WHEN (NOT price) THEN 10 ELSE price END",
        ),
        (FieldOf(PRICE, "end", t.LONG), "price.end"),
        (Literal(datetime.timedelta(seconds=3), t.DAY_TIME_INTERVAL), "INTERVAL '0:00:03'"),
    ],
)
def test_an_expression_reads_like_sql(expression, text):
    assert sql_text(expression) == text


def test_a_column_whose_name_has_a_hash_keeps_it():
    assert sql_text(Column("a#b#7", t.LONG)) == "a#b"


def test_long_text_is_cut():
    deep = PRICE
    for _ in range(100):
        deep = Call("add", (deep, TEN), t.LONG)
    assert len(sql_text(deep)) <= 300
