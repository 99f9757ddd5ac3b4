"""Columns of a frame moved about without the query engine: starting it costs more than the work itself on a small batch."""

from __future__ import annotations

import polars as pl


def picked(rows: pl.DataFrame, names: list[str], called: list[str] | None = None) -> pl.DataFrame:
    """The columns ``names``, in this order, under new names if ``called`` gives some. At least one."""
    if rows.columns == names:
        return rows if called is None else renamed(rows, called)
    columns = [rows.get_column(name) for name in names]
    if called is not None:
        columns = [column.alias(name) for column, name in zip(columns, called, strict=True)]
    return pl.DataFrame(columns)


def renamed(rows: pl.DataFrame, called: list[str]) -> pl.DataFrame:
    """All columns, in order, under new names."""
    result = rows.clone()
    result.columns = called
    return result
