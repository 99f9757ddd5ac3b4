"""Lists of a column laid flat and put together again: how functions of arrays and their lambdas run without a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Places: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Flat:
    """The elements of all lists, one below the other."""

    values: pl.Series
    rows: Places
    """Which list each element stands in."""
    lengths: Places
    """Of each list; 0 for null."""
    missing: npt.NDArray[np.bool_]
    """Lists that are null."""

    @property
    def positions(self) -> Places:
        """Of each element in its list, from 0."""
        return np.arange(len(self.rows)) - (np.cumsum(self.lengths) - self.lengths)[self.rows]


def flat(column: pl.Series) -> Flat:
    lengths = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    full = column.filter(pl.Series(lengths > 0))
    values = full.explode() if len(full) else pl.Series(column.name, [], dtype=_element(column.dtype))
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return Flat(values, rows, lengths, column.is_null().to_numpy())


def _element(of: pl.DataType) -> pl.DataType:
    assert isinstance(of, pl.List)
    inner = of.inner
    return inner if isinstance(inner, pl.DataType) else inner()


def gathered(values: pl.Series, lengths: Places, missing: npt.NDArray[np.bool_]) -> pl.Series:
    """Lists of these lengths from elements that stand one below the other; null where ``missing`` (of length 0 there)."""
    dtype = pl.List(values.dtype)
    if not len(lengths):
        return pl.Series([], dtype=dtype)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    arrow = values.rechunk().to_arrow()
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), arrow, mask=pa.array(missing))
    result = pl.from_arrow(lists)
    assert isinstance(result, pl.Series)
    return result if result.dtype == dtype else result.cast(dtype)


def counted(rows: Places, of: int) -> Places:
    """How many elements each of ``of`` lists has."""
    return np.bincount(rows, minlength=of).astype(np.int64)


def picked(values: pl.Series, source: Places) -> pl.Series:
    """``values`` at these places, null at -1."""
    if not len(values):
        return pl.Series([None] * len(source), dtype=values.dtype)
    return values.gather(pl.Series(np.where(source < 0, 0, source))).set(pl.Series(source < 0), None)


def stretched(of: Flat, lengths: Places) -> pl.Series:
    """The elements laid flat as if every list had the given length, or were cut to it: nulls fill the gaps."""
    starts = np.cumsum(lengths) - lengths
    source = np.full(int(lengths.sum()), -1, np.int64)
    kept = of.positions < lengths[of.rows]
    source[(starts[of.rows] + of.positions)[kept]] = np.flatnonzero(kept)
    return picked(of.values, source)


def structs(columns: Sequence[pl.Expr]) -> tuple[pl.Expr, list[str]]:
    """Several columns as one, for a function of whole batches, and the names they have in it."""
    names = [f"c{number}" for number in range(len(columns))]
    return pl.struct([column.alias(name) for name, column in zip(names, columns, strict=True)]), names
