"""Values computed once and used many times. A Polars expression is a tree: what occurs in it twice is built, and may run, twice."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl


def staged(build: Callable[..., pl.Expr], dtype: pl.DataType, *inputs: pl.Expr) -> pl.Expr:
    """``build(*inputs)`` with the inputs computed first, as columns: the tree stays as small as its parts."""
    names = [f"s{number}" for number in range(len(inputs))]
    over = build(*(pl.col(name) for name in names))

    def run(rows: pl.Series) -> pl.Series:
        return rows.struct.unnest().select(over.alias("value")).to_series()

    columns = pl.struct([one.alias(name) for one, name in zip(inputs, names, strict=True)])
    return columns.map_batches(run, return_dtype=dtype, is_elementwise=True)
