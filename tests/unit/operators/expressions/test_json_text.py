"""JSON as Spark reads and writes it."""

from __future__ import annotations

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.types import Array, Field, Struct
from tidegate.operators.expressions import compile_expression
from tidegate.operators.expressions.json_text import Malformed, dump, java_double, parse
from tidegate.plan.expressions import Call, Column

ROW = Struct((Field("a", t.INTEGER), Field("b", t.STRING), Field("c", Array(t.LONG))))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (1e-5, "1.0E-5"),
        (1e22, "1.0E22"),
        (-0.001, "-0.001"),
        (0.0, "0.0"),
    ],
)
def test_doubles_are_printed_as_java_prints_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_what_follows_the_first_value_is_not_read() -> None:
    assert dump(parse('{"a": [1, 2.50, "é"]} rest')) == '{"a":[1,2.5,"é"]}'


def test_a_text_that_is_no_json_is_malformed() -> None:
    with pytest.raises(Malformed):
        parse('{"a": 1')


def test_one_broken_text_among_many_spoils_no_other() -> None:
    texts = [f'{{"a": {n}, "b": "x", "c": [{n}, null]}}' for n in range(50)]
    texts[17], texts[30], texts[31] = '{"a": 1', '{"a": 1.5, "b": 2}', ""
    read = Call("from_json", (Column("j", t.STRING),), ROW)
    rows = pl.DataFrame({"j": texts}).select(v=compile_expression(read).value)["v"].to_list()
    assert rows[16] == {"a": 16, "b": "x", "c": [16, None]}
    assert rows[17] == {"a": None, "b": None, "c": None}
    assert rows[30] == {"a": None, "b": "2", "c": None}
    assert rows[31] is None
    assert [row["a"] for row in rows[32:]] == list(range(32, 50))
