"""Single columns across the border to Arrow functions: exactly the Arrow types Spark hands out, maps and zones included."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pyarrow as pa

from tidegate.model import types as t
from tidegate.operators.columns import arrow_type, polars_type


def arrow_column(column: pl.Series, kind: t.DataType, zone: str = "UTC") -> pa.Array:
    """A Polars column with the Arrow type of ``kind``; ``zone`` labels timestamps, whose values are instants all the same."""
    array = column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    target = _in_zone(arrow_type(kind), zone)
    return array if array.type == target else retyped(array, target)


def polars_column(array: pa.Array | pa.ChunkedArray, kind: t.DataType, name: str = "") -> pl.Series:
    """An Arrow column of any layout as the plan keeps it. What cannot be cast to ``kind`` raises."""
    column = pl.from_arrow(array)
    assert isinstance(column, pl.Series)
    dtype = polars_type(kind)
    return (column if column.dtype == dtype else column.cast(dtype)).alias(name)


def _in_zone(kind: pa.DataType, zone: str) -> pa.DataType:
    if zone == "UTC":
        return kind
    if pa.types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, zone)
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_in_zone(key.type, zone)), item.with_type(_in_zone(item.type, zone)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_zone(kind.value_type, zone)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_zone(field.type, zone)) for field in kind])
    return kind


def retyped(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A cast that also renames the fields inside of lists, maps and structs, which come in the same order, and turns lists of entries
    into maps: they share the layout, but Arrow does not cast them.
    """
    if array.type.equals(target, check_metadata=True):
        return array
    if pa.types.is_map(target):
        entries = pa.struct([target.key_field, target.item_field])
        if pa.types.is_map(array.type):
            columns = [retyped(array.keys, target.key_type), retyped(array.items, target.item_type)]
            return _with_values(array, target, pa.StructArray.from_arrays(columns, fields=list(entries)))
        return _with_values(lists := _lists(array, pa.list_), target, retyped(lists.values, entries))
    if pa.types.is_list(target) or pa.types.is_large_list(target):
        lists = _lists(array, pa.list_ if pa.types.is_list(target) else pa.large_list)
        return _with_values(lists, target, retyped(lists.values, target.value_type))
    if pa.types.is_struct(target):
        children = [retyped(array.field(n), target.field(n).type) for n in range(target.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    return array.cast(target)


def _lists(array: pa.Array, kind: Callable[[pa.Field], pa.DataType]) -> pa.Array:
    """The same lists with offsets of that kind."""
    target = kind(array.type.value_field)
    return array if array.type.id == target.id else array.cast(target)


def _with_values(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, array.offset, [values])
