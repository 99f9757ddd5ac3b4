"""Generators: a row becomes as many rows as its array or map has entries."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Array, DataType, Field, Map, Struct
from tidegate.operators import generate as module
from tidegate.operators.columns import polars_schema
from tidegate.operators.generate import GenerateOperator
from tidegate.plan.expressions import Column
from tidegate.plan.relational import Generate

ID = Field("id", t.LONG)
PAIR = Struct((Field("x", t.INTEGER), Field("y", t.STRING)))


def generator(function: str, of: DataType, *generated: Field, outer: bool = False, keep: bool = True) -> Generate:
    kept = (ID,) if keep else ()
    return Generate(
        function=function, args=(Column("items", of),), outer=outer, generated=generated, schema=(*kept, *generated)
    )


def run(node: Generate, *rows: tuple) -> list[tuple]:
    of = node.args[0].type
    frame = pl.DataFrame(rows, schema=polars_schema((ID, Field("items", of))), orient="row")
    made = []
    for out in GenerateOperator(node).on_batch(Batch(frame, origin=5)):
        assert out.rows.schema == polars_schema(node.schema)
        assert out.origin == 5
        made += out.rows.rows()
    return made


NUMBERS = Array(t.LONG)
CASES = [(1, [10, None]), (2, []), (3, None), (4, [40])]


def test_explode_gives_a_row_per_entry_and_none_for_empty_and_null() -> None:
    assert run(generator("explode", NUMBERS, Field("n", t.LONG)), *CASES) == [(1, 10), (1, None), (4, 40)]


def test_outer_gives_a_row_of_nulls_for_empty_and_null() -> None:
    node = generator("explode", NUMBERS, Field("n", t.LONG), outer=True)
    assert run(node, *CASES) == [(1, 10), (1, None), (2, None), (3, None), (4, 40)]


def test_positions_begin_at_zero_and_are_null_where_there_is_no_entry() -> None:
    fields = (Field("pos", t.INTEGER), Field("n", t.LONG))
    assert run(generator("posexplode", NUMBERS, *fields), *CASES) == [(1, 0, 10), (1, 1, None), (4, 0, 40)]
    assert run(generator("posexplode", NUMBERS, *fields, outer=True), (2, []), (3, None)) == [
        (2, None, None),
        (3, None, None),
    ]


def test_a_map_gives_keys_and_values() -> None:
    of = Map(t.STRING, t.LONG)
    fields = (Field("key", t.STRING), Field("value", t.LONG))
    rows = [(1, [{"key": "a", "value": 1}, {"key": "b", "value": None}]), (2, None)]
    assert run(generator("explode", of, *fields), *rows) == [(1, "a", 1), (1, "b", None)]
    assert run(generator("posexplode", of, Field("pos", t.INTEGER), *fields), *rows) == [
        (1, 0, "a", 1),
        (1, 1, "b", None),
    ]


def test_inline_gives_the_fields_of_structs_and_nulls_for_a_null_struct() -> None:
    fields = (Field("a", t.INTEGER), Field("b", t.STRING))
    rows = [(1, [{"x": 1, "y": "u"}, None]), (2, None)]
    assert run(generator("inline", Array(PAIR), *fields), *rows) == [(1, 1, "u"), (1, None, None)]
    assert run(generator("inline", Array(PAIR), *fields, outer=True), (2, None)) == [(2, None, None)]


def test_exploded_structs_stay_structs() -> None:
    assert run(generator("explode", Array(PAIR), Field("p", PAIR)), (1, [{"x": 1, "y": None}])) == [
        (1, {"x": 1, "y": None})
    ]


def test_no_column_of_the_input_need_be_kept() -> None:
    assert run(generator("explode", NUMBERS, Field("n", t.LONG), keep=False), *CASES) == [(10,), (None,), (40,)]


@given(st.lists(st.none() | st.lists(st.integers(0, 9), max_size=8), max_size=30), st.integers(1, 6), st.booleans())
def test_pieces_together_are_the_whole(values: list[list[int] | None], size: int, outer: bool) -> None:
    """However finely the output is cut, no piece is much larger than asked for, and nothing is lost."""
    node = generator("posexplode", NUMBERS, Field("pos", t.INTEGER), Field("n", t.LONG), outer=outer)
    expected = [(i, at, n) for i, items in enumerate(values) for at, n in enumerate(items or [])]
    if outer:
        expected = sorted(
            [*expected, *((i, None, None) for i, items in enumerate(values) if not items)],
            key=lambda r: (r[0], r[1] or 0),
        )
    before = module.PIECE_ROWS
    module.PIECE_ROWS = size
    try:
        assert run(node, *enumerate(values)) == expected
    finally:
        module.PIECE_ROWS = before


def test_a_huge_array_leaves_in_bounded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_ROWS", 10)
    node = generator("explode", NUMBERS, Field("n", t.LONG))
    frame = pl.DataFrame([(1, list(range(95)))], schema=polars_schema((ID, Field("items", NUMBERS))), orient="row")
    heights = [out.rows.height for out in GenerateOperator(node).on_batch(Batch(frame))]
    assert sum(heights) == 95 and max(heights) <= 20


def test_an_unknown_generator_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="variant_explode"):
        GenerateOperator(generator("variant_explode", NUMBERS, Field("n", t.LONG)))
