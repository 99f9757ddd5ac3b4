"""Columns of a keyed table: read, written and compared at any set of rows, appended at the end.

What has a fixed width lives in flat NumPy arrays with a validity mask. Everything else (strings, decimals, lists) lives in
an arena: values are only ever appended to it, as Polars data, and a row points to its current one. Nothing that was
gathered can change afterwards in either of them.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

_FIXED: dict[type[pl.DataType], np.dtype] = {
    pl.Boolean: np.dtype(np.bool_),
    pl.Int8: np.dtype(np.int8),
    pl.Int16: np.dtype(np.int16),
    pl.Int32: np.dtype(np.int32),
    pl.Int64: np.dtype(np.int64),
    pl.Float32: np.dtype(np.float32),
    pl.Float64: np.dtype(np.float64),
    pl.Date: np.dtype(np.int32),
    pl.Datetime: np.dtype(np.int64),
    pl.Duration: np.dtype(np.int64),
}
_NULL_POINTER = -1
_GARBAGE_ROWS_MIN = 1 << 14


class Probe(Protocol):
    """Null equals null, NaN equals NaN."""

    def equals_row(self, positions: Rows, rows: Rows) -> Mask:
        """Value ``positions[i]`` against stored row ``rows[i]``."""
        ...

    def equals(self, left: Rows, right: Rows) -> Mask:
        """Value ``left[i]`` against value ``right[i]``."""
        ...


class StateColumn(Protocol):
    """Row numbers are the table's: dense from 0, never beyond what was appended."""

    dtype: pl.DataType

    def append(self, values: pl.Series) -> None: ...

    def append_nulls(self, count: int) -> None: ...

    def gather(self, rows: Rows) -> pl.Series: ...

    def scatter(self, rows: Rows, values: pl.Series) -> None:
        """``rows`` holds no row twice."""
        ...

    def probe(self, values: pl.Series) -> Probe:
        """For comparing many subsets of ``values`` with stored rows and with one another."""
        ...

    def keep(self, rows: Rows) -> None:
        """Row ``rows[i]`` becomes row ``i``; the others are gone."""
        ...

    @property
    def size_bytes(self) -> int: ...


def new_column(dtype: pl.DataType) -> StateColumn:
    return FixedColumn(dtype) if type(dtype) in _FIXED else ArenaColumn(dtype)


def grown(array: NDArray[np.generic], needed: int) -> NDArray[np.generic]:
    """The array itself, or a copy with room for ``needed`` entries and more to come."""
    if needed <= len(array):
        return array
    larger = np.zeros(max(needed, 2 * len(array), 1024), array.dtype)
    larger[: len(array)] = array
    return larger


class FixedColumn:
    """Numbers, booleans, dates, timestamps. A null's data is zero, so that null is equal to null bit by bit."""

    def __init__(self, dtype: pl.DataType) -> None:
        self.dtype = dtype
        self._width = _FIXED[type(dtype)]
        self._physical = pl.Series([], dtype=dtype).to_physical().dtype
        self._height = 0
        self._data: NDArray[np.generic] = np.zeros(0, self._width)
        self._valid: Mask = np.zeros(0, np.bool_)
        self._may_have_nulls = False

    def append(self, values: pl.Series) -> None:
        end = self._room_for(len(values))
        data, valid = self._split(values)
        self._data[self._height : end], self._valid[self._height : end] = data, valid
        self._may_have_nulls |= valid is not True
        self._height = end

    def append_nulls(self, count: int) -> None:
        end = self._room_for(count)
        self._data[self._height : end] = 0
        self._valid[self._height : end] = False
        self._may_have_nulls = True
        self._height = end

    def gather(self, rows: Rows) -> pl.Series:
        series = pl.Series(self._data.take(rows))
        if self._may_have_nulls and not (valid := self._valid.take(rows)).all():
            series = _masked(series, valid)
        return series if series.dtype == self.dtype else series.cast(self.dtype)

    def scatter(self, rows: Rows, values: pl.Series) -> None:
        self._data[rows], self._valid[rows] = self._split(values)

    def probe(self, values: pl.Series) -> Probe:
        data, valid = self._split(values)
        if valid is True and not self._may_have_nulls:
            return _FixedProbe(self._data, None, data, True)
        return _FixedProbe(self._data, self._valid, data, valid)

    def keep(self, rows: Rows) -> None:
        self._data, self._valid, self._height = self._data[rows], self._valid[rows], len(rows)

    @property
    def size_bytes(self) -> int:
        return self._height * (self._width.itemsize + 1)

    def raw(self, height: int) -> tuple[NDArray[Any], Mask]:
        """Physical values and validity of the first rows, as views: for scans that only look."""
        return self._data[:height], self._valid[:height]

    def _split(self, values: pl.Series) -> tuple[NDArray[np.generic], Mask | bool]:
        physical = values if values.dtype == self._physical else values.cast(self._physical)
        if physical.null_count() == 0:
            return physical.to_numpy(), True
        zero = False if self._width.kind == "b" else 0
        return physical.fill_null(zero).to_numpy(), physical.is_not_null().to_numpy()

    def _room_for(self, more: int) -> int:
        end = self._height + more
        self._data, self._valid = grown(self._data, end), grown(self._valid, end).view(np.bool_)
        return end


class _FixedProbe:
    """``stored_valid`` None: neither side has nulls."""

    def __init__(self, stored: NDArray[Any], stored_valid: Mask | None, data: NDArray[Any], valid: Mask | bool) -> None:
        self._stored, self._stored_valid, self._data, self._valid = stored, stored_valid, data, valid

    def equals_row(self, positions: Rows, rows: Rows) -> Mask:
        same = _same(self._stored.take(rows), self._data.take(positions))
        if self._stored_valid is None:
            return same
        valid = self._valid if isinstance(self._valid, bool) else self._valid.take(positions)
        return same & (self._stored_valid.take(rows) == valid)

    def equals(self, left: Rows, right: Rows) -> Mask:
        same = _same(self._data[left], self._data[right])
        return same if isinstance(self._valid, bool) else same & (self._valid[left] == self._valid[right])


def _same(left: NDArray[Any], right: NDArray[Any]) -> Mask:
    same = left == right
    return same | ((left != left) & (right != right)) if left.dtype.kind == "f" else same


class ArenaColumn:
    """Strings, binary, decimals, lists, maps: pointers into values that are only appended, collected when half are garbage."""

    def __init__(self, dtype: pl.DataType) -> None:
        self.dtype = dtype
        self._height = 0
        self._pointers: Rows = np.zeros(0, np.int64)
        self._segments: list[pl.Series] = []
        self._arena = pl.Series([], dtype=dtype)

    def append(self, values: pl.Series) -> None:
        self.append_nulls(len(values))
        self.scatter(np.arange(self._height - len(values), self._height), values)

    def append_nulls(self, count: int) -> None:
        end = self._height + count
        self._pointers = grown(self._pointers, end).view(np.int64)
        self._pointers[self._height : end] = _NULL_POINTER
        self._height = end

    def gather(self, rows: Rows) -> pl.Series:
        pointers = self._pointers[rows]
        if not len(self._arena):
            return pl.Series([], dtype=self.dtype).extend_constant(None, len(rows))
        present = pointers != _NULL_POINTER
        if present.all():
            return self._arena[pointers]
        return self._arena.gather(_masked(pl.Series(pointers), present))

    def scatter(self, rows: Rows, values: pl.Series) -> None:
        if values.null_count() == 0:
            present, pointed = values, rows
        else:
            keep = values.is_not_null()
            present, pointed = values.filter(keep), rows[keep.to_numpy()]
            self._pointers[rows] = _NULL_POINTER
        self._pointers[pointed] = len(self._arena) + np.arange(len(present))
        self._extend(present)
        if len(self._arena) > 2 * self._height + _GARBAGE_ROWS_MIN:
            self.keep(np.arange(self._height))

    def probe(self, values: pl.Series) -> Probe:
        return _ArenaProbe(self, values)

    def keep(self, rows: Rows) -> None:
        survivors = _detached(self.gather(rows), self.dtype)
        self._height = len(rows)
        self._pointers = np.where(survivors.is_null().to_numpy(), _NULL_POINTER, np.arange(len(rows)))
        self._segments, self._arena = [], survivors.clear()
        self._extend(survivors)

    @property
    def size_bytes(self) -> int:
        return self._height * 8 + int(self._arena.estimated_size())

    def _extend(self, values: pl.Series) -> None:
        """Segments at least halve in size towards the end: few of them, and each value is copied O(log n) times."""
        if not len(values):
            return
        self._segments.append(values.rechunk())
        while len(self._segments) > 1 and 2 * len(self._segments[-1]) > len(self._segments[-2]):
            last = self._segments.pop()
            self._segments[-1] = pl.concat([self._segments[-1], last], rechunk=True)
        self._arena = pl.concat(self._segments, rechunk=False)


class _ArenaProbe:
    def __init__(self, column: ArenaColumn, values: pl.Series) -> None:
        self._column, self._values = column, values

    def equals_row(self, positions: Rows, rows: Rows) -> Mask:
        return self._column.gather(rows).eq_missing(self._values.gather(positions)).to_numpy()

    def equals(self, left: Rows, right: Rows) -> Mask:
        return self._values.gather(left).eq_missing(self._values.gather(right)).to_numpy()


def _masked(values: pl.Series, valid: Mask) -> pl.Series:
    both = pl.DataFrame({"values": values, "valid": valid})
    return both.select(pl.when("valid").then("values")).to_series()


def _detached(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """A copy in buffers of its own: a gathered string still holds on to the whole buffer it points into."""
    if values.null_count() == len(values):
        return values
    return pl.Series(values.to_arrow(compat_level=pl.CompatLevel.oldest())).cast(dtype)
