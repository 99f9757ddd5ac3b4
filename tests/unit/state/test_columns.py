"""State columns: whatever the type, a row reads back what was last written to it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_series_equal
from tests.unit.state.test_hashing import COLUMNS

from tidegate.state.columns import ArenaColumn, FixedColumn, new_column


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_every_type_reads_back_what_was_written(name: str) -> None:
    values = COLUMNS[name][1].alias("")
    column = new_column(values.dtype)
    column.append(values)
    column.append_nulls(2)
    everything = np.arange(len(values))
    assert_series_equal(column.gather(everything).alias(""), values)
    assert column.gather(np.array([len(values), len(values) + 1])).null_count() == 2
    column.scatter(everything, values.reverse())
    assert_series_equal(column.gather(everything).alias(""), values.reverse())
    column.keep(everything[1:])
    assert_series_equal(column.gather(np.arange(len(values) - 1)).alias(""), values.reverse()[1:])


@pytest.mark.parametrize("name", sorted(COLUMNS.keys() - {"void", "struct"}))
def test_a_value_equals_itself_and_no_other(name: str) -> None:
    values = COLUMNS[name][1]
    column = new_column(values.dtype)
    column.append(values)
    probe = column.probe(values)
    every = np.arange(len(values))
    assert probe.equals_row(every, every).all() and probe.equals(every, every).all()
    for i in range(1, len(values)):
        shifted = np.roll(every, i)
        expected = [
            a == b or (a != a and b != b)
            for a, b in zip(values.to_list(), np.array(values.to_list(), object)[shifted], strict=True)
        ]
        assert probe.equals_row(every, shifted).tolist() == expected
        assert probe.equals(every, shifted).tolist() == expected


def test_what_was_gathered_does_not_change() -> None:
    """T23."""
    for column, before, after in (
        (FixedColumn(pl.Int64()), pl.Series([1, 2]), pl.Series([8, 9])),
        (ArenaColumn(pl.List(pl.Int64())), pl.Series([[1], [2]]), pl.Series([[8], [9]])),
    ):
        column.append(before)
        taken = column.gather(np.arange(2))
        column.scatter(np.arange(2), after)
        assert taken.to_list() == before.to_list()


def test_overwritten_values_do_not_pile_up() -> None:
    column = ArenaColumn(pl.String())
    column.append(pl.Series(["x" * 50] * 1000))
    for i in range(200):
        column.scatter(np.arange(1000), pl.Series([f"{i:050d}"] * 1000))
    assert column.gather(np.array([0, 999])).to_list() == [f"{199:050d}"] * 2
    assert column.size_bytes < 5_000_000
