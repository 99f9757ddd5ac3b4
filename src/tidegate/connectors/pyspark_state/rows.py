"""Rows and keys as user code sees them, and what it gives back: pandas frames, or PySpark Rows. A whole batch is converted at once."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
from pyspark.sql import Row

from tidegate.model import types as t
from tidegate.operators.arrow_columns import arrow_column, polars_column
from tidegate.operators.columns import arrow_type
from tidegate.operators.pandas_values import frame_to_table, to_pandas


class Border(Protocol):
    """One of the two forms in which rows cross."""

    def taken(self, rows: pl.DataFrame) -> Any:
        """A batch, to be ``cut`` into the rows of each key."""
        ...

    def cut(self, taken: Any, start: int, stop: int) -> Iterator[Any]: ...

    def initial(self, rows: pl.DataFrame, schema: t.Schema, names: tuple[str, ...]) -> Iterator[Any]: ...

    def key(self, values: tuple[Any, ...]) -> tuple[Any, ...]: ...

    def keep(self, results: Iterable[Any] | None) -> None: ...

    @property
    def kept_rows(self) -> int: ...

    def results(self) -> Iterator[pl.DataFrame]: ...


class _Converting:
    """What both forms share: keys on their way in, tables on their way out."""

    _key_converters: list[Callable[[Any], Any] | None]
    _output: t.Schema

    def key(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            value if convert is None or value is None else convert(value)
            for convert, value in zip(self._key_converters, values, strict=True)
        )

    def _given(self, table: pa.Table) -> pl.DataFrame:
        columns = zip(table.columns, self._output, strict=True)
        return pl.DataFrame([polars_column(column, field.type, field.name) for column, field in columns])


class PandasBorder(_Converting):
    """Input frames have pandas' usual types, as Spark makes them: 64-bit numbers, naive timestamps in the session's zone, structs as dictionaries."""

    def __init__(
        self, schema: t.Schema, names: tuple[str, ...], keys: t.Schema, output: t.Schema, public: t.Schema, zone: str
    ) -> None:
        self._schema = schema
        self._names = names
        self._key_converters = [_pandas_key(field.type, zone) for field in keys]
        self._output = output
        self._public = public
        self._zone = zone
        self._kept: list[pd.DataFrame] = []
        self._rows = 0

    def taken(self, rows: pl.DataFrame) -> pd.DataFrame:
        return self._frame(rows, self._schema, self._names)

    def _frame(self, rows: pl.DataFrame, schema: t.Schema, names: tuple[str, ...]) -> pd.DataFrame:
        columns = [_pandas_column(rows.get_column(field.name), field.type, self._zone) for field in schema]
        frame = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=pd.RangeIndex(rows.height))
        frame.columns = list(names)
        return frame

    def cut(self, taken: pd.DataFrame, start: int, stop: int) -> Iterator[pd.DataFrame]:
        return iter([taken.iloc[start:stop].reset_index(drop=True)])

    def empty(self) -> pd.DataFrame:
        return pd.DataFrame(columns=pd.Index(self._names))

    def initial(self, rows: pl.DataFrame, schema: t.Schema, names: tuple[str, ...]) -> Iterator[pd.DataFrame]:
        return iter([self._frame(rows, schema, names)])

    def keep(self, results: Iterable[Any] | None) -> None:
        for result in () if results is None else results:
            if not isinstance(result, pd.DataFrame):
                raise TypeError(f"results must be pandas.DataFrame, not {type(result).__name__}")
            if len(result):
                self._kept.append(result)
                self._rows += len(result)

    @property
    def kept_rows(self) -> int:
        return self._rows

    def results(self) -> Iterator[pl.DataFrame]:
        kept, self._kept, self._rows = self._kept, [], 0
        for frame in _joined(kept):
            table = frame_to_table(frame, self._public, self._zone)
            yield self._given(table)


class RowBorder(_Converting):
    """Input rows are PySpark Rows with the values Arrow gives: timestamps know their zone, structs are dictionaries."""

    def __init__(
        self, schema: t.Schema, names: tuple[str, ...], keys: t.Schema, output: t.Schema, public: t.Schema, zone: str
    ) -> None:
        self._schema = schema
        self._row = Row(*names)
        self._key_converters = [_row_key(field.type, zone) for field in keys]
        self._output = output
        self._arrow = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in public])
        self._zone = zone
        self._kept: list[dict[str, Any]] = []

    def taken(self, rows: pl.DataFrame) -> list[list[Any]]:
        return self._columns(rows, self._schema)

    def _columns(self, rows: pl.DataFrame, schema: t.Schema) -> list[list[Any]]:
        return [
            arrow_column(rows.get_column(field.name), field.type, self._zone).to_pylist(maps_as_pydicts=None)
            for field in schema
        ]

    def cut(self, taken: list[list[Any]], start: int, stop: int) -> Iterator[Any]:
        row = self._row
        return (row(*values) for values in zip(*(column[start:stop] for column in taken), strict=True))

    def initial(self, rows: pl.DataFrame, schema: t.Schema, names: tuple[str, ...]) -> Iterator[Any]:
        row = Row(*names)
        return (row(*values) for values in zip(*self._columns(rows, schema), strict=True))

    def keep(self, results: Iterable[Any] | None) -> None:
        for result in () if results is None else results:
            if not isinstance(result, Row):
                raise TypeError(f"results must be pyspark.sql.Row, not {type(result).__name__}")
            self._kept.append(result.asDict(True))

    @property
    def kept_rows(self) -> int:
        return len(self._kept)

    def results(self) -> Iterator[pl.DataFrame]:
        kept, self._kept = self._kept, []
        if kept:
            table = pa.Table.from_pylist(kept, schema=self._arrow)
            yield self._given(table)


def _joined(frames: list[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Neighbours with the same columns of the same types as one frame: nothing is converted on the way."""
    start = 0
    shapes = [(tuple(frame.columns), tuple(frame.dtypes)) for frame in frames]
    for end in range(1, len(frames) + 1):
        if end == len(frames) or shapes[end] != shapes[start]:
            yield frames[start] if end == start + 1 else pd.concat(frames[start:end], ignore_index=True)
            start = end


def _pandas_column(column: pl.Series, kind: t.DataType, zone: str) -> pd.Series:
    array = arrow_column(column, kind, zone)
    if isinstance(kind, t.Struct):
        return pd.Series(array.to_pylist(), dtype=object)
    series = to_pandas(array, kind, zone)
    assert isinstance(series, pd.Series)
    if series.dtype.kind == "i" and series.dtype.itemsize < 8:  # pyright: ignore[reportAttributeAccessIssue]
        return series.astype("int64")
    return series.astype("float64") if series.dtype == "float32" else series


def _pandas_key(kind: t.DataType, zone: str) -> Callable[[Any], Any] | None:
    match kind:
        case t.Atomic("timestamp"):
            own = ZoneInfo(zone) if "/" in zone else None
            return lambda value: pd.Timestamp(value.astimezone(own or datetime.UTC).replace(tzinfo=None))
        case t.Atomic("timestamp_ntz"):
            return pd.Timestamp
        case t.Struct(fields):
            return lambda value: dict(zip((field.name for field in fields), value, strict=True))
        case _:
            return None


def _row_key(kind: t.DataType, zone: str) -> Callable[[Any], Any] | None:
    match kind:
        case t.Atomic("timestamp"):
            own = ZoneInfo(zone) if "/" in zone else datetime.UTC
            return lambda value: value.astimezone(own)
        case t.Struct(fields):
            return lambda value: dict(zip((field.name for field in fields), value, strict=True))
        case _:
            return None
