"""Plan types as Polars and Arrow columns. The only place that knows the table of ``model/types.py``."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from polars.datatypes import DataTypeClass

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import DataType, Field, Schema

_ATOMIC: dict[DataType, pl.DataType] = {
    t.BOOLEAN: pl.Boolean(),
    t.BYTE: pl.Int8(),
    t.SHORT: pl.Int16(),
    t.INTEGER: pl.Int32(),
    t.LONG: pl.Int64(),
    t.FLOAT: pl.Float32(),
    t.DOUBLE: pl.Float64(),
    t.STRING: pl.String(),
    t.BINARY: pl.Binary(),
    t.DATE: pl.Date(),
    t.TIMESTAMP: pl.Datetime("us", "UTC"),
    t.TIMESTAMP_NTZ: pl.Datetime("us"),
    t.DAY_TIME_INTERVAL: pl.Duration("us"),
    t.YEAR_MONTH_INTERVAL: pl.Int32(),
    t.NULL: pl.Null(),
}
_ARROW: dict[DataType, pa.DataType] = {
    t.BOOLEAN: pa.bool_(),
    t.BYTE: pa.int8(),
    t.SHORT: pa.int16(),
    t.INTEGER: pa.int32(),
    t.LONG: pa.int64(),
    t.FLOAT: pa.float32(),
    t.DOUBLE: pa.float64(),
    t.STRING: pa.string(),
    t.BINARY: pa.binary(),
    t.DATE: pa.date32(),
    t.TIMESTAMP: pa.timestamp("us", "UTC"),
    t.TIMESTAMP_NTZ: pa.timestamp("us"),
    t.DAY_TIME_INTERVAL: pa.duration("us"),
    t.NULL: pa.null(),
}


def polars_type(of: DataType) -> pl.DataType:
    """The Polars type of a column of this plan type. InvalidQuery for a Spark type that has none."""
    match of:
        case t.Decimal(precision, scale):
            return pl.Decimal(precision, scale)
        case t.Array(element):
            return pl.List(polars_type(element))
        case t.Map(key, value):
            return pl.List(pl.Struct({"key": polars_type(key), "value": polars_type(value)}))
        case t.Struct(fields):
            return pl.Struct([pl.Field(field.name, polars_type(field.type)) for field in fields])
        case t.Atomic(name):
            if of in _ATOMIC:
                return _ATOMIC[of]
            raise InvalidQuery(
                f"columns of type {name} are not supported",
                hint=f"cast the column to one of {', '.join(known.name for known in _ATOMIC if isinstance(known, t.Atomic))}",
            )


def plan_type(of: pl.DataType) -> DataType:
    """The plan type whose columns have this Polars type (a Map comes back as the array of structs that it is)."""
    match of:
        case pl.Decimal():
            return t.Decimal(of.precision or 38, of.scale)
        case pl.List():
            return t.Array(plan_type(_instance(of.inner)))
        case pl.Struct():
            return t.Struct(tuple(Field(field.name, plan_type(_instance(field.dtype))) for field in of.fields))
        case _:
            for known, column in _ATOMIC.items():
                if column == of:
                    return known
            raise InvalidQuery(f"no plan type holds Polars columns of type {of}", hint="cast the column first")


def _instance(of: pl.DataType | DataTypeClass) -> pl.DataType:
    return of if isinstance(of, pl.DataType) else of()


def polars_schema(schema: Schema) -> pl.Schema:
    return pl.Schema({field.name: polars_type(field.type) for field in schema})


def empty_frame(schema: Schema) -> pl.DataFrame:
    """No rows, the right columns."""
    return pl.DataFrame(schema=polars_schema(schema))


def conform(rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The columns of ``schema``, in its order, with its types; free when they already are. Values that do not fit raise."""
    wanted = polars_schema(schema)
    if rows.schema == wanted and rows.columns == list(wanted):
        return rows
    if not wanted:
        return pl.DataFrame(height=rows.height)
    return rows.select(
        pl.col(name) if rows.schema[name] == dtype else pl.col(name).cast(dtype) for name, dtype in wanted.items()
    )


def arrow_type(of: DataType) -> pa.DataType:
    """The Arrow type Spark itself uses for this type (plain strings and lists, real maps)."""
    match of:
        case t.Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case t.Array(element, contains_null):
            return pa.list_(pa.field("element", arrow_type(element), contains_null))
        case t.Map(key, value, value_contains_null):
            return pa.map_(arrow_type(key), pa.field("value", arrow_type(value), value_contains_null))
        case t.Struct(fields):
            return pa.struct([pa.field(field.name, arrow_type(field.type), field.nullable) for field in fields])
        case t.Atomic(name):
            if of in _ARROW:
                return _ARROW[of]
            raise InvalidQuery(f"columns of type {name} are not supported", hint="cast the column to another type")


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, arrow_type(field.type), field.nullable) for field in schema])


def to_arrow(rows: pl.DataFrame, schema: Schema) -> pa.Table:
    """The rows as Spark would hand them to a Python function: ``arrow_schema(schema)`` exactly, columns by position."""
    wanted = arrow_schema(schema)
    table = rows.to_arrow()
    columns = [_to_arrow_type(column, field.type) for column, field in zip(table.columns, wanted, strict=True)]
    return pa.Table.from_arrays(columns, schema=wanted) if columns else table


def _to_arrow_type(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if column.type == wanted:
        return column
    if not _holds_map(wanted):
        return column.cast(wanted)
    return pa.chunked_array([_rebuilt(column.combine_chunks(), wanted)], type=wanted)


def _holds_map(of: pa.DataType) -> bool:
    return pa.types.is_map(of) or any(_holds_map(of.field(n).type) for n in range(of.num_fields))


def _rebuilt(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Arrow has no cast from a list of entries to a map: the same buffers, put together anew."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], type=array.type)
    if pa.types.is_map(wanted):
        keys, items = (_rebuilt(array.values.field(n), wanted.field(0).type.field(n).type) for n in range(2))
        return pa.MapArray.from_arrays(array.offsets.cast(pa.int32()), keys, items, type=wanted, mask=array.is_null())
    if pa.types.is_list(wanted) and _holds_map(wanted):
        values = _rebuilt(array.values, wanted.value_type)
        return pa.ListArray.from_arrays(array.offsets.cast(pa.int32()), values, type=wanted, mask=array.is_null())
    if pa.types.is_struct(wanted) and _holds_map(wanted):
        fields = list(wanted)
        parts = [_rebuilt(array.field(n), field.type) for n, field in enumerate(fields)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    return array.cast(wanted)


def from_arrow(table: pa.Table | pa.RecordBatch, schema: Schema) -> pl.DataFrame:
    """Arrow rows with the columns of ``schema`` by position, whatever their names and string layouts."""
    frame = pl.from_arrow(table.rename_columns([field.name for field in schema]))
    assert isinstance(frame, pl.DataFrame)
    return conform(frame, schema)
