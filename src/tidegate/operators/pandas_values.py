"""Arrow columns ↔ pandas, converted as PySpark does for pandas functions.

Timestamps are naive in the session's time zone, structs are DataFrames, dates and decimals Python objects, and integers with
nulls become floats: pandas' own habits, which user functions rely on. A missing value of a result is null, NaN included.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from tidegate.model import types as t
from tidegate.operators.columns import arrow_type


def to_pandas(array: pa.Array, kind: t.DataType, zone: str) -> pd.Series | pd.DataFrame:
    """One argument of a pandas function; ``array`` has the Arrow type of ``kind``."""
    if isinstance(kind, t.Struct):
        columns = {field.name: _to_series(array.field(i), field.type, zone) for i, field in enumerate(kind.fields)}
        return pd.DataFrame(columns, index=pd.RangeIndex(len(array)))
    return _to_series(array, kind, zone)


def from_pandas(result: Any, kind: t.DataType, zone: str, what: str) -> pa.Array:
    """The result of a pandas function. Raises TypeError or ValueError, naming ``what``, when it does not fit ``kind``."""
    if isinstance(kind, t.Struct):
        if not isinstance(result, pd.DataFrame):
            raise TypeError(f"{what} must be a pandas.DataFrame with the columns of the struct, not a {_name(result)}")
        return _struct_from_frame(result, kind, zone, what)
    if isinstance(result, pd.DataFrame) or not hasattr(result, "__len__"):
        raise TypeError(f"{what} must be a pandas.Series, not a {_name(result)}")
    return _from_series(result if isinstance(result, pd.Series) else pd.Series(result), kind, zone, what)


def frame_to_table(frame: pd.DataFrame, schema: t.Schema, zone: str) -> pa.Table:
    """A result DataFrame as a table with exactly ``schema``: by name when its labels are strings, else by position."""
    columns = _matched(frame, schema, "the result")
    arrays = [
        _from_series(column, field.type, zone, f"result column {field.name!r}")
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, names=[field.name for field in schema])


def _matched(frame: pd.DataFrame, schema: t.Schema, what: str) -> list[Any]:
    names = [field.name for field in schema]
    if any(isinstance(label, str) for label in frame.columns):
        missing = [name for name in names if name not in frame.columns]
        extra = [label for label in frame.columns if label not in names]
        if missing or extra:
            raise ValueError(f"{what} has the wrong columns: missing {missing or 'none'}, unexpected {extra or 'none'}")
        return [frame[name] for name in names]
    if len(frame.columns) != len(names):
        raise ValueError(f"{what} has {len(frame.columns)} columns, the schema {len(names)}: {', '.join(names)}")
    return [frame.iloc[:, i] for i in range(len(names))]


def _struct_from_frame(frame: pd.DataFrame, kind: t.Struct, zone: str, what: str) -> pa.Array:
    columns = _matched(frame, kind.fields, what)
    arrays = [
        _from_series(column, field.type, zone, f"{what}.{field.name}")
        for column, field in zip(columns, kind.fields, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(arrow_type(kind)))


def _to_series(array: pa.Array, kind: t.DataType, zone: str) -> pd.Series:
    series = array.to_pandas(date_as_object=True, coerce_temporal_nanoseconds=True, maps_as_pydicts="strict")
    if kind == t.TIMESTAMP:
        return series.dt.tz_convert(zone).dt.tz_localize(None)
    return series


def _from_series(series: pd.Series, kind: t.DataType, zone: str, what: str) -> pa.Array:
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.dtype.categories.dtype)
    if kind == t.TIMESTAMP:
        series = _in_utc(series, zone)
    elif kind == t.STRING:
        series = series.map(lambda value: value if isinstance(value, str) else str(value), na_action="ignore")
    elif isinstance(kind, t.Map):
        series = series.map(lambda value: list(value.items()) if isinstance(value, dict) else value, na_action="ignore")
    target = arrow_type(kind)
    mask = None if hasattr(series.array, "__arrow_array__") else series.isnull()
    try:
        try:
            array = pa.Array.from_pandas(series, mask=mask, type=target, safe=False)
        except pa.ArrowInvalid:
            array = pa.Array.from_pandas(series, mask=mask).cast(target, safe=False)
    except (TypeError, ValueError) as error:  # Arrow's own errors are subclasses of these two.
        raise type(error)(
            f"{what} holds {series.dtype} values that do not fit the declared type {t.simple_string(kind)}: {error}"
        ) from error
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _in_utc(series: pd.Series, zone: str) -> pd.Series:
    series = pd.to_datetime(series) if series.dtype == object else series
    if not pd.api.types.is_datetime64_any_dtype(series.dtype):
        return series
    aware = series if series.dt.tz is not None else series.dt.tz_localize(zone, ambiguous=False)  # pyright: ignore
    return aware.dt.tz_convert("UTC")


def _name(value: object) -> str:
    return type(value).__name__
