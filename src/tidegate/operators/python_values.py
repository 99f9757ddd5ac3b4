"""Polars columns ↔ Python values of row-wise user functions, converted as PySpark does.

Timestamps are naive datetimes in the zone of the process (PySpark's rule, whatever the session's zone is), dates, decimals
and intervals are Python's own, structs are rows, maps dictionaries, binaries bytes.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from tidegate.model import types as t
from tidegate.operators.arrow_columns import polars_column
from tidegate.operators.columns import arrow_type
from tidegate.operators.user_functions import RowMaker

Convert: TypeAlias = Callable[[Any], Any]

_SECOND_US = 1_000_000


def to_python(column: pl.Series, kind: t.DataType, make_row: RowMaker) -> list[Any]:
    """The values of a column as a user function sees them; null is None."""
    if kind == t.TIMESTAMP:  # Integers are ten times cheaper to turn into local time than aware datetimes.
        return [None if us is None else _local_time(us) for us in column.to_physical().to_list()]
    convert = _reader(kind, make_row)
    values = column.to_list()
    return values if convert is None else [None if value is None else convert(value) for value in values]


def from_python(values: Sequence[Any], kind: t.DataType, *, lenient: bool) -> pl.Series:
    """Results of a user function as a column.

    Not ``lenient`` (Arrow-optimised UDFs): values are coerced as Arrow does, what does not fit raises. ``lenient`` (pickled
    UDFs): a value of another type becomes null and integers wrap, because Spark's JVM side does that.
    """
    if lenient:
        convert = _lenient_writer(kind)
        array = pa.array([None if value is None else convert(value) for value in values], type=arrow_type(kind))
    else:
        write = _writer(kind)
        written = values if write is None else [None if value is None else write(value) for value in values]
        try:
            array = pa.array(written, type=arrow_type(kind))
        except pa.ArrowInvalid:
            array = pa.array(written).cast(arrow_type(kind), safe=False)
    return polars_column(array, kind)


def _local_time(us: int) -> datetime.datetime:
    seconds, fraction = divmod(us, _SECOND_US)
    return datetime.datetime.fromtimestamp(seconds).replace(microsecond=fraction)


def _reader(kind: t.DataType, make_row: RowMaker) -> Convert | None:
    """How one non-null value of a Polars list becomes the user's; None: as it is."""
    match kind:
        case t.Atomic("timestamp"):
            return lambda value: value.astimezone().replace(tzinfo=None)
        case t.Array(element):
            read = _reader(element, make_row)
            if read is None:
                return None
            return lambda value: [None if item is None else read(item) for item in value]
        case t.Map(key, value):
            read_key, read_value = _reader(key, make_row) or _same, _reader(value, make_row) or _same
            return lambda entries: {
                read_key(entry["key"]): None if entry["value"] is None else read_value(entry["value"])
                for entry in entries
            }
        case t.Struct(fields):
            row = make_row(tuple(field.name for field in fields))
            readers = [_reader(field.type, make_row) or _same for field in fields]
            return lambda value: row(
                None if item is None else read(item) for read, item in zip(readers, value.values(), strict=True)
            )
        case _:
            return None


def _writer(kind: t.DataType) -> Convert | None:
    """How one non-null result becomes a value Arrow understands."""
    match kind:
        case t.Atomic("timestamp"):
            return lambda value: value.astimezone(datetime.UTC)
        case t.Atomic("string"):
            return _to_string
        case t.Atomic("binary"):
            return bytes
        case t.Decimal(precision, scale):
            unit = decimal.Decimal(1).scaleb(-scale)
            context = decimal.Context(prec=precision, rounding=decimal.ROUND_HALF_EVEN)
            return lambda value: None if value.is_nan() else value.quantize(unit, context=context)
        case t.Array(element):
            write = _writer(element) or _same
            return lambda value: [None if item is None else write(item) for item in value]
        case t.Map(key, value):
            write_key, write_value = _writer(key) or _same, _writer(value) or _same
            return lambda entries: [(write_key(k), None if v is None else write_value(v)) for k, v in entries.items()]
        case t.Struct(fields):
            return _struct_writer(fields, [_writer(field.type) or _same for field in fields])
        case _:
            return None


def _struct_writer(fields: tuple[t.Field, ...], writers: list[Convert]) -> Convert:
    names = tuple(field.name for field in fields)

    def write(value: Any) -> dict[str, Any]:
        if isinstance(value, tuple | list):
            if len(value) != len(names):
                raise ValueError(f"a struct of {len(names)} fields ({', '.join(names)}) got {len(value)} values")
            items: Sequence[Any] = value
        else:
            by_name = value if isinstance(value, dict) else vars(value)
            items = [by_name.get(name) for name in names]
        return {
            name: None if item is None else writer(item)
            for name, writer, item in zip(names, writers, items, strict=True)
        }

    return write


_INTEGER_BITS = {t.BYTE: 8, t.SHORT: 16, t.INTEGER: 32, t.LONG: 64}


def _lenient_writer(kind: t.DataType) -> Convert:
    """As Spark's ``EvaluatePython.makeFromJava`` takes pickled results: wrong type → null, integers wrap, anything is a string."""
    if isinstance(kind, t.Atomic) and kind in _INTEGER_BITS:
        half = 1 << (_INTEGER_BITS[kind] - 1)
        return lambda value: (value + half) % (2 * half) - half if type(value) is int else None
    match kind:
        case t.Atomic("float") | t.Atomic("double"):
            return lambda value: value if isinstance(value, float) else None
        case t.Atomic("boolean"):
            return lambda value: value if isinstance(value, bool) else None
        case t.Atomic("string"):
            return _to_string
        case t.Atomic("binary"):
            return lambda value: bytes(value) if isinstance(value, bytes | bytearray) else None
        case t.Decimal():
            write = _writer(kind) or _same
            return lambda value: write(value) if isinstance(value, decimal.Decimal) else None
        case t.Array(element):
            write = _lenient_writer(element)
            return lambda value: (
                [None if item is None else write(item) for item in value] if isinstance(value, list | tuple) else None
            )
        case t.Map(key, value):
            write_key, write_value = _lenient_writer(key), _lenient_writer(value)
            return lambda entries: (
                [(write_key(k), None if v is None else write_value(v)) for k, v in entries.items()]
                if isinstance(entries, dict)
                else None
            )
        case t.Struct(fields):
            return _struct_writer(fields, [_lenient_writer(field.type) for field in fields])
        case _:
            return _writer(kind) or _same


def _to_string(value: Any) -> str:
    if type(value) is str:
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _same(value: Any) -> Any:
    return value
