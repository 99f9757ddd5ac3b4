"""Commit messages as earlier versions stored them: pickled by PySpark. Read without letting a pickle do what a pickle can do.

There is no unpickler. Whatever the pickle names, imports or calls becomes a record of what it wanted (``opcodes.py``); also classes and
functions that were pickled by value, with their code. Then the records are read as fields of the classes that the sink refers to
(``classes.py``) and as a short list of plain values, within the bounds of ``limits.py``. A record of anything else is refused.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import re
import uuid
import zoneinfo
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pyspark.sql import Row

from tidegate.connectors.python_sink import opcodes
from tidegate.connectors.python_sink.classes import MessageClasses
from tidegate.connectors.python_sink.fields import are_same, make, pickles_itself
from tidegate.connectors.python_sink.limits import ZONES, Budget, called, exactly, keys

FIRST_BYTE = b"\x80"
"""Of every pickle since protocol 2."""

_NUMBER = re.compile(r"[biuf][1248]")


def decode(data: bytes, classes: MessageClasses) -> Any:
    """Raises ValueError, LookupError or TypeError when the message cannot be read in this way."""
    return _Reading(classes).value(opcodes.load(data))


class _Reading:
    """Records as values. What a pickle refers to twice is made twice."""

    def __init__(self, classes: MessageClasses) -> None:
        self._classes = classes
        self._budget = Budget()

    def value(self, stored: Any) -> Any:
        with self._budget:
            return self._value(stored)

    def _value(self, stored: Any) -> Any:
        match stored:
            case None | bool() | int() | float() | str() | bytes():
                return stored
            case bytearray():
                return bytearray(stored)
            case list() | tuple():
                return type(stored)(map(self.value, stored))
            case opcodes.Members(kind, items):
                return kind(keys(map(self.value, items)))
            case opcodes.Pairs(items):
                return self._pairs(items)
            case opcodes.Record(opcodes.Named(module, qualname)) if (module, qualname) in _PLAIN:
                return self._plain(module, qualname, stored)
            case opcodes.Record():
                return self._made(stored)
            case opcodes.Named(module, qualname):
                raise ValueError(f"it holds {module}.{qualname}, which is no value")
            case _:
                raise ValueError(f"it holds a {type(stored).__name__}, which is no value")

    def _plain(self, module: str, qualname: str, record: opcodes.Record) -> Any:
        match module, qualname:
            case "uuid", "UUID":
                return uuid.UUID(int=exactly(int, exactly(dict, self._state(record, qualname))["int"]))
            case "numpy._core.multiarray" | "numpy.core.multiarray", "scalar":
                return _number(*record.args)
            case "collections", "defaultdict":
                return defaultdict(_factory(*record.args), self._pairs(record.pairs))
            case "collections", "OrderedDict":
                return OrderedDict(self._pairs(record.pairs))
            case "copyreg", "_reconstructor":
                kind, _, items = record.args
                if kind != opcodes.Named("pyspark.sql.types", "Row"):
                    raise ValueError("it reconstructs something else than a Row")
                return row(None, exactly(tuple, self.value(items)))
            case name:
                maker, kinds = _PLAIN[name]
                return called(maker, map(self.value, record.args), *kinds)

    def _made(self, record: opcodes.Record) -> Any:
        match record:
            case opcodes.Record(
                opcodes.Record(opcodes.Named("builtins", "getattr"), (opcodes.Named("zoneinfo"), "_unpickle")),
                (str(key), _),
            ):
                return zoneinfo.ZoneInfo(key)
            case opcodes.Record(opcodes.Named("builtins", "getattr"), (opcodes.Named() as owner, str(name))):
                return self._classes.required(owner.module, owner.qualname, enum.Enum).__members__[name]
            case opcodes.Record(opcodes.Named(module, qualname)):
                return self._object(self._classes.required(module, qualname), record)
            case _:
                raise ValueError("it holds the result of a call")

    def _object(self, kind: type[Any], record: opcodes.Record) -> Any:
        args = tuple(self.value(one) for one in record.args)
        if issubclass(kind, enum.Enum):
            return next(one for one in kind.__members__.values() if are_same((one.value,), args))
        if record.pairs or pickles_itself(kind):
            raise ValueError(f"{kind.__qualname__} is more than its fields")
        if not issubclass(kind, tuple):
            if args:
                raise ValueError(f"{kind.__qualname__} was to be called")
            return make(kind, None, self._fields(kind, record))
        if not hasattr(kind, "_fields"):
            args = called(tuple, args, tuple, list)
        return make(kind, args, self._fields(kind, record))

    def _fields(self, kind: type[Any], record: opcodes.Record) -> dict[str, Any]:
        state = self._state(record, kind.__qualname__)
        if type(state) is list:  # Of a frozen dataclass with slots.
            names = [field.name for field in dataclasses.fields(kind)]
            return dict(zip(names, state, strict=True))
        parts = state if type(state) is tuple else (state,)
        named = [pair for part in parts if part is not None for pair in exactly(dict, part).items()]
        return {exactly(str, name): one for name, one in named}

    def _state(self, record: opcodes.Record, what: str) -> Any:
        """What was to be given to ``__setstate__``."""
        if len(record.states) > 1:
            raise ValueError(f"{what} has two states")
        return self.value(record.states[0]) if record.states else None

    def _pairs(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        values = [(self.value(key), self.value(one)) for key, one in pairs]
        return dict(zip(keys(key for key, _ in values), (one for _, one in values), strict=True))


def row(names: Sequence[str] | None, values: Sequence[Any]) -> Row:
    """As Spark's own ``_create_row``."""
    made = Row(*values)
    if names is not None:
        made.__fields__ = [exactly(str, name) for name in names]
    return made


def _number(dtype: Any, data: Any) -> Any:
    """A scalar of NumPy, as Python's own."""
    match dtype:
        case opcodes.Record(opcodes.Named(_, "dtype"), (str(code), *_), [(_, "<" | ">" | "|" as order, *_)]):
            if _NUMBER.fullmatch(code):
                return np.frombuffer(exactly(bytes, data), np.dtype(f"{order}{code}"))[0].item()
    raise ValueError("it holds a NumPy value of another type")


def _factory(maker: Any = None) -> Any:
    if maker is None:
        return None
    known = {one.__name__: one for one in (list, dict, set, tuple, int, float, str, bytes, bool)}
    match maker:
        case opcodes.Named("builtins", name) if name in known:
            return known[name]
        case _:
            raise ValueError("it holds a dictionary with a function for missing keys")


_SPECIAL: tuple[Callable[..., Any], tuple[type[Any], ...]] = (lambda: None, ())
_PLAIN: dict[tuple[str, str], tuple[Callable[..., Any], tuple[type[Any], ...]]] = {
    ("datetime", "datetime"): (dt.datetime, (bytes, *ZONES)),
    ("datetime", "date"): (dt.date, (bytes,)),
    ("datetime", "time"): (dt.time, (bytes, *ZONES)),
    ("datetime", "timedelta"): (dt.timedelta, (int,)),
    ("datetime", "timezone"): (dt.timezone, (dt.timedelta, str)),
    ("decimal", "Decimal"): (decimal.Decimal, (str,)),
    ("pyspark.sql.types", "_create_row"): (row, (type(None), list, tuple)),
    **{
        (module, one.__name__): (one, (str,))
        for module in ("pathlib", "pathlib._local")
        for one in (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)
    },
    ("uuid", "UUID"): _SPECIAL,
    ("collections", "OrderedDict"): _SPECIAL,
    ("collections", "defaultdict"): _SPECIAL,
    ("numpy._core.multiarray", "scalar"): _SPECIAL,
    ("numpy.core.multiarray", "scalar"): _SPECIAL,
    ("copyreg", "_reconstructor"): _SPECIAL,
}
"""What may be called, and with arguments of which types: none of these does more than to make a value."""
