"""What reading a message may cost, and what of a user's class may run meanwhile: bounds that hold for whatever somebody has stored."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tidegate.connectors.python_sink.fields import compared_by, fields_of

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
VALUES_MAX = 1_000_000
"""In one message, counted as often as they stand in it."""
DEPTH_MAX = 100
SAME_HASH_MAX = 64
"""Numbers can be chosen so that all have one hash, and each is compared with all before it."""
ZONES: tuple[type[Any], ...] = (type(None), dt.timezone, zoneinfo.ZoneInfo)

Made = TypeVar("Made")


class Budget:
    """Of one message."""

    def __init__(self) -> None:
        self._values = 0
        self._depth = 0

    def __enter__(self) -> None:
        self._values += 1
        self._depth += 1
        if self._values > VALUES_MAX:
            raise ValueError(f"it holds more than {VALUES_MAX} values")
        if self._depth > DEPTH_MAX:
            raise ValueError(f"its values are nested more than {DEPTH_MAX} deep")

    def __exit__(self, *_: object) -> None:
        self._depth -= 1


def refuse_large(data: bytes) -> None:
    if len(data) > MESSAGE_BYTES_MAX:
        raise ValueError(f"it has {len(data)} bytes, and {MESSAGE_BYTES_MAX} are allowed")


def called(maker: Callable[..., Made], args: Iterable[Any], *kinds: type[Any]) -> Made:
    """What ``maker`` makes of arguments of exactly these types: no method of another one is ever asked."""
    args = tuple(args)
    for one in args:
        if type(one) not in kinds:
            raise ValueError(f"it makes a {getattr(maker, '__name__', 'value')} of a {type(one).__name__}")
    return maker(*args)


def exactly(kind: type[Made], value: Any) -> Made:
    if type(value) is not kind:
        raise ValueError(f"it holds a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def keys(found: Iterable[Any]) -> list[Any]:
    """For a dictionary or a set, which hashes and compares them. Raises ValueError when a method of the user's would do that."""
    known = list(found)
    for one in known:
        _refuse_acting(one)
    if known and max(Counter(map(hash, known)).values()) > SAME_HASH_MAX and len(set(known)) > SAME_HASH_MAX:
        raise ValueError("its keys were chosen to have one hash")
    return known


def _refuse_acting(key: Any) -> None:
    kind = type(key)
    if kind in (tuple, frozenset):
        for part in key:
            _refuse_acting(part)
        return
    if method := compared_by(kind):
        raise ValueError(f"a {kind.__qualname__} in a set, or as a key, would have its {method} called")
    if isinstance(key, tuple):
        for part in tuple.__iter__(key):
            _refuse_acting(part)
    for part in fields_of(key).values() if kind.__module__ not in ("builtins", "datetime", "decimal") else ():
        _refuse_acting(part)
