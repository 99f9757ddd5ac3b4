"""Spark's hash of columns. The vectors come from Spark itself; the comparison over nasty values is an integration test."""

from __future__ import annotations

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.operators.expressions import supported
from tidegate.operators.expressions.xxhash import hash_columns
from tidegate.plan.expressions import Call, Column, Literal

TEXTS = ["", "a", "abcd", "abcdefgh", "x" * 31, "x" * 32, "y" * 77, "é" * 100]


def test_texts_hash_the_same_alone_and_behind_another_column() -> None:
    """Two ways to the same hash: the library's with one seed for all, ours with a seed for each row."""
    column = pl.Series(TEXTS)
    behind_nothing = hash_columns([pl.Series([None] * len(TEXTS), dtype=pl.Int32), column], [t.INTEGER, t.STRING], 42)
    assert hash_columns([column], [t.STRING], 42).to_list() == behind_nothing.to_list()


def test_known_values() -> None:
    """``SELECT xxhash64('Spark'), xxhash64(1L)`` in Spark 4.3."""
    assert hash_columns([pl.Series(["Spark"])], [t.STRING], 42).to_list() == [-4294468057691064905]
    assert hash_columns([pl.Series([1], dtype=pl.Int64)], [t.LONG], 42).to_list() == [-7001672635703045582]


def test_zeros_and_nans_are_one() -> None:
    hashes = hash_columns([pl.Series([0.0, -0.0, float("nan"), -float("nan")])], [t.DOUBLE], 42)
    assert hashes.n_unique() == 2


@pytest.mark.parametrize("of", [t.Array(t.INTEGER), t.Decimal(20, 0), t.Struct(())])
def test_types_it_cannot_hash_as_spark_does_are_refused(of: t.DataType) -> None:
    assert "not supported for" in (supported(Call("xxhash64", (Column("c", of), Literal(42, t.LONG)), t.LONG)) or "")
