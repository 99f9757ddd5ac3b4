"""Lists laid flat and put together again."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model import types as t
from tidegate.operators.expressions import characters, lists, murmur

LISTS = st.lists(st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=4), max_size=8)


@given(LISTS)
def test_what_is_laid_flat_comes_together_again(values: list[list[int | None] | None]) -> None:
    column = pl.Series(values, dtype=pl.List(pl.Int64))
    flat = lists.flat(column)
    again = lists.gathered(flat.values, flat.lengths, flat.missing)
    assert again.to_list() == values


@given(LISTS)
def test_every_element_knows_its_row_and_its_place(values: list[list[int | None] | None]) -> None:
    flat = lists.flat(pl.Series(values, dtype=pl.List(pl.Int64)))
    places = zip(flat.rows.tolist(), flat.positions.tolist(), flat.values.to_list(), strict=True)
    assert all(values[row][place] == value for row, place, value in places)  # type: ignore[index]


@given(LISTS, st.integers(0, 5))
def test_stretched_lists_have_the_wanted_length(values: list[list[int | None] | None], length: int) -> None:
    flat = lists.flat(pl.Series(values, dtype=pl.List(pl.Int64)))
    stretched = lists.stretched(flat, np.full(len(values), length)).to_list()
    wanted = [((one or []) + [None] * length)[:length] for one in values]
    assert stretched == [item for one in wanted for item in one]


@given(st.lists(st.text(max_size=6), max_size=6))
def test_texts_survive_the_matrix_of_their_characters(values: list[str]) -> None:
    column = pl.Series(values, dtype=pl.String)
    assert characters.texts(characters.matrix(column)).to_list() == values


def test_murmur_of_known_values_stays_as_spark_has_it() -> None:
    columns = [pl.Series([1, None], dtype=pl.Int32), pl.Series(["a", "é"])]
    assert murmur.hash_columns(columns, [t.INTEGER, t.STRING], 42).dtype == pl.Int32
    assert murmur.hash_columns([pl.Series(["Spark"])], [t.STRING], 42).to_list() == [228093765]
