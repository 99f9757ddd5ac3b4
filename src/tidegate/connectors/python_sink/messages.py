"""Commit messages of a user's sink ↔ bytes: MessagePack of their fields, never a pickle.

A message is an object of a class that the sink itself refers to (``classes.py``). It holds plain values: ``None``, booleans, numbers,
text, bytes, lists, tuples, dictionaries, sets, dates and times, decimals, UUIDs, paths, Spark's rows, and objects and enum members of
such classes. Reading a message makes the object without its constructor and sets its fields: nothing that the bytes name is imported,
and nothing of the class is called.

The bytes are ``TGCM``, one byte of version, and MessagePack. Everything that MessagePack does not have is an array that opens with its kind.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import pathlib
import uuid
import zoneinfo
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from pyspark.sql import Row
from pyspark.sql.datasource import WriterCommitMessage

from tidegate.connectors.python_sink import pickled
from tidegate.connectors.python_sink.classes import MessageClasses
from tidegate.connectors.python_sink.fields import fields_of, make, pickles_itself
from tidegate.connectors.python_sink.limits import ZONES, Budget, called, exactly, keys, refuse_large
from tidegate.model.errors import CorruptSnapshot, DataError

VERSION = 1
_MAGIC = b"TGCM"
_INTEGERS = range(-(1 << 63), 1 << 64)
_AS_IT_IS = (type(None), bool, float, str, bytes)
_NUMBERS = (np.bool_, np.integer, np.floating)
_SEQUENCES: dict[str, type[Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MAPPINGS: dict[str, type[Any]] = {"dict": dict, "ordered": OrderedDict}
_PATHS: dict[str, type[pathlib.PurePath]] = {
    one.__name__: one
    for one in (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)
}
_WORDS_MAX = 500
"""Of what is wrong with a message: it may quote from it."""
_HINT = (
    "a commit message holds plain values and objects of classes that are defined beside the writer, or imported there: "
    "put numbers, text or bytes into it, and make what else it needs in commit()"
)


def encode(message: WriterCommitMessage, classes: MessageClasses, sink: str) -> bytes:
    """Bytes that ``decode`` understands in any process of this query. Raises DataError, which names the part that cannot be stored."""
    try:
        data = _MAGIC + bytes((VERSION,)) + msgspec.msgpack.encode(_Packing(classes).pack(message, "the message"))
        back = decode(data, classes, "", sink)
    except _Unfit as error:
        raise DataError(f"the commit message of data source {sink} cannot be stored: {error}", hint=_HINT) from error
    except (CorruptSnapshot, ValueError, RecursionError) as error:
        what = error.message if isinstance(error, CorruptSnapshot) else f"{type(error).__name__}: {error}"
        raise DataError(f"the commit message of data source {sink} cannot be stored: {what}", hint=_HINT) from error
    if type(back) is not type(message):
        raise DataError(
            f"the commit message of data source {sink} is of a class {type(message).__qualname__}, of which there are several",
            hint="give its class a name of its own",
        )
    return data


def decode(data: bytes, classes: MessageClasses, name: str, sink: str) -> WriterCommitMessage:
    """Raises CorruptSnapshot, which names the document: ``name``. Also understands what versions before this format have pickled."""
    try:
        refuse_large(data)
        if data[:1] == pickled.FIRST_BYTE:
            message = pickled.decode(data, classes)
        elif data[:4] != _MAGIC:
            raise ValueError("it does not begin like a commit message")
        elif data[4:5] != bytes((VERSION,)):
            raise ValueError(f"it has format {data[4:5].hex()}; this version of Tidegate reads up to {VERSION:02x}")
        else:
            message = _Unpacking(classes).unpack(msgspec.msgpack.decode(data[5:]))
        if not isinstance(message, WriterCommitMessage):
            raise ValueError(f"it holds a {type(message).__name__}")
    except Exception as error:
        where, what = f", in {name}" if name else "", str(error)[:_WORDS_MAX]
        raise CorruptSnapshot(
            f"a commit message of data source {sink} cannot be read{where}: {type(error).__name__}: {what}",
            hint="its class must be defined or imported in the module of the writer, under the name that it had when it was written; "
            "nothing else that the message names is loaded",
        ) from error
    return message


class _Unfit(Exception):
    """A part of a message that cannot be stored."""


class _Packing:
    def __init__(self, classes: MessageClasses) -> None:
        self._classes = classes

    def pack(self, value: Any, at: str) -> Any:
        """``at``: where in the message it stands."""
        kind = type(value)
        if kind in _AS_IT_IS or (kind is int and value in _INTEGERS):
            return value
        if isinstance(value, _NUMBERS):
            return self.pack(value.item(), at)
        for name, of in _SEQUENCES.items():
            if kind is of:
                return [name, *(self.pack(one, f"{at}[{place}]") for place, one in enumerate(value))]
        for name, of in _MAPPINGS.items():
            if kind is of:
                return [name, *(self.pack(part, f"{at}[{key!r}]") for key, one in value.items() for part in (key, one))]
        return self._pack_atom(value, at) or self._pack_object(value, at)

    def _pack_atom(self, value: Any, at: str) -> list[Any] | None:
        kind = type(value)
        match value:
            case int() if kind is int:
                return ["int", hex(value)]
            case bytearray() if kind is bytearray:
                return ["bytearray", bytes(value)]
            case dt.datetime() if kind is dt.datetime:
                zone = self.pack(value.tzinfo, f"{at}.tzinfo")
                return ["datetime", value.replace(tzinfo=None).isoformat(), value.fold, zone]
            case dt.time() if kind is dt.time:
                zone = self.pack(value.tzinfo, f"{at}.tzinfo")
                return ["time", value.replace(tzinfo=None).isoformat(), value.fold, zone]
            case dt.date() if kind is dt.date:
                return ["date", value.isoformat()]
            case dt.timedelta() if kind is dt.timedelta:
                return ["timedelta", value.days, value.seconds, value.microseconds]
            case dt.timezone():
                offset = value.utcoffset(None)
                name = (
                    ()
                    if value == dt.UTC or value.tzname(None) == dt.timezone(offset).tzname(None)
                    else (value.tzname(None),)
                )
                return ["offset", self.pack(offset, at), *name]
            case zoneinfo.ZoneInfo() if kind is zoneinfo.ZoneInfo and value.key is not None:
                return ["zone", value.key]
            case decimal.Decimal() if kind is decimal.Decimal:
                return ["decimal", str(value)]
            case uuid.UUID() if kind is uuid.UUID:
                return ["uuid", value.hex]
            case pathlib.PurePath() if kind in _PATHS.values():
                return ["path", kind.__name__, str(value)]
            case Row() if kind is Row:
                names = getattr(value, "__fields__", None)
                return ["row", self.pack(names and list(names), at), self.pack(list(value), at)]
            case _:
                return None

    def _pack_object(self, value: Any, at: str) -> list[Any]:
        kind = type(value)
        if kind not in self._classes:
            raise _Unfit(f"{at} is a {kind.__module__}.{kind.__qualname__}")
        if isinstance(value, enum.Enum):
            if value.name not in kind.__members__:
                raise _Unfit(f"{at} is {value!r}, which is no single member")
            return ["enum", kind.__module__, kind.__qualname__, value.name]
        if method := pickles_itself(kind):
            raise _Unfit(f"{at} is a {kind.__qualname__}, whose {method} would not be called")
        items = self.pack(tuple(value), at) if isinstance(value, tuple) else None
        fields = {name: self.pack(one, f"{at}.{name}") for name, one in fields_of(value).items()}
        return ["object", kind.__module__, kind.__qualname__, items, fields]


class _Unpacking:
    def __init__(self, classes: MessageClasses) -> None:
        self._classes = classes
        self._budget = Budget()

    def unpack(self, stored: Any) -> Any:
        with self._budget:
            return self._unpack(stored)

    def _unpack(self, stored: Any) -> Any:
        match stored:
            case None | bool() | int() | float() | str() | bytes():
                return stored
            case ["object", str(module), str(qualname), items, dict(fields)]:
                kind = self._classes.required(module, qualname)
                parts = {exactly(str, name): self.unpack(one) for name, one in fields.items()}
                return make(kind, None if items is None else exactly(tuple, self.unpack(items)), parts)
            case ["enum", str(module), str(qualname), str(name)]:
                return self._classes.required(module, qualname, enum.Enum).__members__[name]
            case [("set" | "frozenset") as kind, *parts]:
                return _SEQUENCES[kind](keys(map(self.unpack, parts)))
            case [str(kind), *parts] if kind in _SEQUENCES:
                return _SEQUENCES[kind](map(self.unpack, parts))
            case [str(kind), *parts] if kind in _MAPPINGS:
                values = [self.unpack(one) for one in parts]
                return _MAPPINGS[kind](zip(keys(values[::2]), values[1::2], strict=True))
            case [str(kind), *parts] if kind in _ATOMS:
                maker, kinds = _ATOMS[kind]
                return called(maker, map(self.unpack, parts), *kinds)
            case _:
                raise ValueError(f"it holds a {type(stored).__name__} of an unknown kind")


def _instant(text: str, fold: int, zone: dt.tzinfo | None) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(fold=fold, tzinfo=zone)


def _time(text: str, fold: int, zone: dt.tzinfo | None) -> dt.time:
    return dt.time.fromisoformat(text).replace(fold=fold, tzinfo=zone)


_ATOMS: dict[str, tuple[Callable[..., Any], tuple[type[Any], ...]]] = {
    "int": (lambda text: int(text, 16), (str,)),
    "bytearray": (bytearray, (bytes,)),
    "datetime": (_instant, (str, int, *ZONES)),
    "time": (_time, (str, int, *ZONES)),
    "date": (dt.date.fromisoformat, (str,)),
    "timedelta": (dt.timedelta, (int,)),
    "offset": (dt.timezone, (dt.timedelta, str)),
    "zone": (zoneinfo.ZoneInfo, (str,)),
    "decimal": (decimal.Decimal, (str,)),
    "uuid": (uuid.UUID, (str,)),
    "path": (lambda kind, text: _PATHS[kind](text), (str,)),
    "row": (pickled.row, (list, type(None))),
}
"""What may be called, and with arguments of which types."""
