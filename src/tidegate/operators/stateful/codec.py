"""Values of a declared schema ↔ bytes: MessagePack of plain values, never a pickle.

Equal values have equal bytes (a float that is whole stays a float, ``-0.0`` is ``0.0``, there is one NaN), so that encoded keys can be compared.
Timestamps are naive datetimes in the zone of the process, PySpark's rule, and instants in the bytes.
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from tidegate.model import types as t
from tidegate.model.errors import CorruptSnapshot
from tidegate.operators.user_functions import RowMaker, record_maker

Convert: TypeAlias = Callable[[Any], Any]

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder()
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.UTC)
_DAY_ZERO = datetime.date(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_SINGLE = struct.Struct("<f")
_BITS = {t.BYTE: 8, t.SHORT: 16, t.INTEGER: 32, t.LONG: 64}


class Codec:
    """Tuples of one schema. ``what`` names them in errors."""

    def __init__(self, schema: t.Schema, what: str, make_row: RowMaker = record_maker) -> None:
        self.schema = schema
        self._what = what
        self._writers = [_writer(field.type) for field in schema]
        self._readers = [_reader(field.type, make_row) for field in schema]
        self._plain = all(reader is None for reader in self._readers)

    def encode(self, values: Iterable[Any], head: int | None = None) -> bytes:
        """``head``: a number to go before them."""
        given = tuple(values)
        if len(given) != len(self._writers):
            names = ", ".join(field.name for field in self.schema)
            raise ValueError(f"{self._what} has {len(self._writers)} fields ({names}) and got {len(given)} values")
        try:
            written = [
                None if value is None else write(value) for write, value in zip(self._writers, given, strict=True)
            ]
        except (TypeError, ValueError, OverflowError) as error:
            raise type(error)(f"{self._what} got {given!r}: {error}") from None
        return _ENCODER.encode(written if head is None else [head, *written])

    def decode(self, data: bytes) -> tuple[Any, ...]:
        return self.read(decoded(data))

    def read(self, written: list[Any]) -> tuple[Any, ...]:
        if self._plain:
            return tuple(written)
        return tuple(
            value if value is None or read is None else read(value)
            for read, value in zip(self._readers, written, strict=True)
        )


def decoded(data: bytes) -> list[Any]:
    """What ``encode`` wrote, before it is given types. Raises CorruptSnapshot for anything else."""
    try:
        written = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _corrupt(str(error)) from error
    if not isinstance(written, list):
        raise _corrupt(f"it holds a {type(written).__name__}")
    return written


def _corrupt(what: str) -> CorruptSnapshot:
    return CorruptSnapshot(
        f"a value in the state of a stateful processor cannot be read: {what}",
        hint="restore an older checkpoint, knowing that output committed since then may repeat",
    )


def _writer(kind: t.DataType) -> Convert:
    match kind:
        case t.Atomic() if kind in _BITS:
            return _integer(_BITS[kind], t.simple_string(kind))
        case t.Atomic("float"):
            return _checked("float", (int, float), lambda value: _SINGLE.unpack(_SINGLE.pack(_float(value)))[0])
        case t.Atomic("double"):
            return _checked("double", (int, float), _float)
        case t.Atomic("boolean"):
            return _checked("boolean", (bool,), bool)
        case t.Atomic("string"):
            return _checked("string", (str,), str)
        case t.Atomic("binary"):
            return _checked("binary", (bytes, bytearray), bytes)
        case t.Atomic("date"):
            return _checked("date", (datetime.date,), lambda value: (_day(value) - _DAY_ZERO).days)
        case t.Atomic("timestamp"):
            return _checked("timestamp", (datetime.datetime,), _instant)
        case t.Atomic("timestamp_ntz"):
            return _checked(
                "timestamp_ntz", (datetime.datetime,), lambda value: (_python(value) - _EPOCH) // _MICROSECOND
            )
        case t.Decimal(precision, scale):
            return _checked("decimal", (decimal.Decimal, int), _decimal(precision, scale))
        case t.Array(element):
            write = _optional(_writer(element))
            return _checked("array", (list, tuple), lambda value: [write(item) for item in value])
        case t.Map(key, value):
            write_key, write_value = _writer(key), _optional(_writer(value))
            return _checked(
                "map",
                (dict,),
                lambda entries: [[write_key(one), write_value(other)] for one, other in entries.items()],
            )
        case t.Struct(fields):
            return _struct([field.name for field in fields], [_optional(_writer(field.type)) for field in fields])
        case t.Atomic("interval day to second"):
            return _checked("interval", (datetime.timedelta,), lambda value: value // _MICROSECOND)
        case t.Atomic(name):
            return _checked(name, (), _same)


def _reader(kind: t.DataType, make_row: RowMaker) -> Convert | None:
    """None: what MessagePack gives back is the value."""
    match kind:
        case t.Atomic("date"):
            return lambda days: _DAY_ZERO + datetime.timedelta(days=days)
        case t.Atomic("timestamp"):
            return lambda us: (_EPOCH_UTC + us * _MICROSECOND).astimezone().replace(tzinfo=None)
        case t.Atomic("timestamp_ntz"):
            return lambda us: _EPOCH + us * _MICROSECOND
        case t.Atomic("interval day to second"):
            return lambda us: us * _MICROSECOND
        case t.Decimal():
            return decimal.Decimal
        case t.Array(element):
            read = _optional(_reader(element, make_row))
            return None if read is None else lambda value: [read(item) for item in value]
        case t.Map(key, value):
            read_key, read_value = _reader(key, make_row) or _same, _optional(_reader(value, make_row)) or _same
            return lambda entries: {read_key(one): read_value(other) for one, other in entries}
        case t.Struct(fields):
            row = make_row(tuple(field.name for field in fields))
            readers = [_optional(_reader(field.type, make_row)) or _same for field in fields]
            return lambda value: row(read(item) for read, item in zip(readers, value, strict=True))
        case _:
            return None


def _optional(convert: Convert | None) -> Any:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _checked(name: str, accepted: tuple[type, ...], convert: Convert) -> Convert:
    def write(value: Any) -> Any:
        value = _python(value)
        if value is None:
            return None
        if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
            raise TypeError(f"{value!r} is a {type(value).__name__}, not a value of type {name}")
        return convert(value)

    return write


def _integer(bits: int, name: str) -> Convert:
    half = 1 << (bits - 1)

    def write(value: Any) -> Any:
        if type(value) is not int:
            value = _python(value)
            if value is None:
                return None
            if type(value) is not int:
                raise TypeError(f"{value!r} is a {type(value).__name__}, not a value of type {name}")
        if not -half <= value < half:
            raise OverflowError(f"{value} does not fit the type {name}")
        return value

    return write


def _struct(names: list[str], writers: list[Convert]) -> Convert:
    def write(value: Any) -> list[Any]:
        if isinstance(value, dict):
            value = [value.get(name) for name in names]
        if not isinstance(value, tuple | list) or len(value) != len(names):
            raise TypeError(f"{value!r} is not a struct with the fields {', '.join(names)}")
        return [one(item) for one, item in zip(writers, value, strict=True)]

    return write


def _python(value: Any) -> Any:
    """NumPy's and pandas' scalars as Python's own; NaT is no value."""
    for method in ("to_pydatetime", "to_pytimedelta"):
        if hasattr(value, method):
            return None if value != value else getattr(value, method)()
    return value.item() if hasattr(value, "item") and hasattr(value, "dtype") else value


def _float(value: float) -> float:
    return math.nan if value != value else float(value) + 0.0


def _decimal(precision: int, scale: int) -> Convert:
    unit = decimal.Decimal(1).scaleb(-scale)
    context = decimal.Context(prec=precision, rounding=decimal.ROUND_HALF_UP)

    def write(value: Any) -> str:
        try:
            return str(decimal.Decimal(value).quantize(unit, context=context))
        except decimal.InvalidOperation:
            raise OverflowError(f"{value} does not fit the type decimal({precision},{scale})") from None

    return write


def _day(value: datetime.date) -> datetime.date:
    return value.date() if isinstance(value, datetime.datetime) else value


def _instant(value: datetime.datetime) -> int:
    return (value.astimezone(datetime.UTC) - _EPOCH_UTC) // _MICROSECOND


def _same(value: Any) -> Any:
    return value
