"""State variables a user's code has declared, and how they may change between two starts of a query.

Spark's rules for state in a self-describing format: fields may be added (old values have null there), removed and reordered; numbers may
become wider. A value keeps the schema it was written with and is read as the newest one. A variable never changes its kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import msgspec

from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.operators.stateful.codec import Codec, Convert, decoded
from tidegate.operators.user_functions import RowMaker

NAME_BYTES_MAX = 255
_WIDER: dict[t.DataType, tuple[t.DataType, ...]] = {
    t.BYTE: (t.SHORT, t.INTEGER, t.LONG, t.FLOAT, t.DOUBLE),
    t.SHORT: (t.INTEGER, t.LONG, t.FLOAT, t.DOUBLE),
    t.INTEGER: (t.LONG, t.FLOAT, t.DOUBLE),
    t.LONG: (t.FLOAT, t.DOUBLE),
    t.FLOAT: (t.DOUBLE,),
    t.STRING: (t.BINARY,),
    t.BINARY: (t.STRING,),
}
"""What Avro promotes, which Spark's state follows."""


class VariableKind(Enum):
    VALUE = "value"
    LIST = "list"
    MAP = "map"


class Declared(msgspec.Struct, frozen=True):
    """A variable as it stands in a snapshot. ``schemas``: of its values, oldest first; a stored value names its own by number."""

    name: str
    kind: VariableKind
    schemas: tuple[t.Schema, ...]
    key: t.Schema = ()
    """Of a map."""


class Variables:
    """All variables of an operator: those declared by the running code, and those that only earlier code knew and whose entries stay."""

    def __init__(self, stored: Iterable[Declared] = ()) -> None:
        self._known: dict[str, Declared] = {}
        for one in stored:  # Subtasks run the same code: of two the one with more schemas is the newer.
            other = self._known.get(one.name)
            if other is None or len(one.schemas) > len(other.schemas):
                self._known[one.name] = one

    @property
    def all(self) -> tuple[Declared, ...]:
        return tuple(sorted(self._known.values(), key=lambda one: one.name))

    def forget(self, name: str) -> bool:
        """False: there was none."""
        return self._known.pop(name, None) is not None

    def declare(self, name: str, kind: VariableKind, schema: t.Schema, key: t.Schema = ()) -> Declared:
        """Raises InvalidQuery when stored values could not be read as this."""
        if not name or len(name.encode()) > NAME_BYTES_MAX:
            raise InvalidQuery(
                f"a state variable cannot be called {name!r}", hint=f"choose a name of 1 to {NAME_BYTES_MAX} bytes"
            )
        known = self._known.get(name)
        if known is None:
            declared = Declared(name, kind, (schema,), key)
        else:
            _check_same(known, kind, key)
            if known.schemas[-1] == schema:
                declared = known
            else:
                for old in known.schemas:
                    _check_readable(name, old, schema)
                declared = msgspec.structs.replace(known, schemas=(*known.schemas, schema))
        self._known[name] = declared
        return declared


class ValueCodec:
    """Values of one variable, of any schema it ever had."""

    def __init__(self, declared: Declared, make_row: RowMaker) -> None:
        self._schemas = declared.schemas
        self._newest = len(declared.schemas) - 1
        self._codec = Codec(declared.schemas[-1], f"state variable {declared.name!r}", make_row)
        self._upgrades: dict[int, Convert] = {}

    def encode(self, values: Iterable[Any]) -> bytes:
        return self._codec.encode(values, self._newest)

    def decode(self, data: bytes) -> tuple[Any, ...]:
        number, *written = decoded(data)
        if number != self._newest:
            upgrade = self._upgrades.get(number)
            if upgrade is None:
                upgrade = self._upgrades[number] = _fields_upgrade(self._schemas[number], self._schemas[-1])
            written = upgrade(written)
        return self._codec.read(written)


def _check_same(known: Declared, kind: VariableKind, key: t.Schema) -> None:
    if known.kind is not kind:
        raise InvalidQuery(
            f"state variable {known.name!r} is a {known.kind.value} in the checkpoint and a {kind.value} in the code",
            hint="give the new variable another name; handle.deleteIfExists() removes the old one",
        )
    if known.key != key:
        raise InvalidQuery(
            f"the keys of state variable {known.name!r} were {_text(known.key)} and are now {_text(key)}",
            hint="the schema of a map's keys is fixed: give the new variable another name",
        )


def _check_readable(name: str, old: t.Schema, new: t.Schema) -> None:
    before = {field.name: field for field in old}
    for field in new:
        if field.name in before and not _readable(before[field.name].type, field.type):
            raise InvalidQuery(
                f"field {field.name!r} of state variable {name!r} was {t.simple_string(before[field.name].type)} in the checkpoint "
                f"and is {t.simple_string(field.type)} in the code",
                hint="fields may be added, removed, reordered and made wider (int → bigint → double); "
                "give a field of another type another name",
            )


def _readable(old: t.DataType, new: t.DataType) -> bool:
    match old, new:
        case t.Struct(before), t.Struct(after):
            types = {field.name: field.type for field in before}
            return all(field.name not in types or _readable(types[field.name], field.type) for field in after)
        case t.Array(before), t.Array(after):
            return _readable(before, after)
        case t.Map(key_before, before), t.Map(key_after, after):
            return key_before == key_after and _readable(before, after)
        case _:
            return old == new or new in _WIDER.get(old, ())


def _upgrade(old: t.DataType, new: t.DataType) -> Convert:
    """From a written value of the old type to one of the new type; never called for null."""
    match old, new:
        case t.Struct(before), t.Struct(after):
            return _fields_upgrade(before, after)
        case t.Array(before), t.Array(after):
            one = _or_null(_upgrade(before, after))
            return lambda value: [one(item) for item in value]
        case t.Map(_, before), t.Map(_, after):
            one = _or_null(_upgrade(before, after))
            return lambda value: [[key, one(item)] for key, item in value]
        case t.Atomic(), t.Atomic("float" | "double"):
            return float
        case t.Atomic("string"), t.Atomic("binary"):
            return str.encode
        case t.Atomic("binary"), t.Atomic("string"):
            return bytes.decode
        case _:
            return lambda value: value


def _fields_upgrade(old: t.Schema, new: t.Schema) -> Convert:
    places = {field.name: (place, field.type) for place, field in enumerate(old)}
    steps: list[tuple[int, Convert] | None] = []
    for field in new:
        if field.name in places:
            place, before = places[field.name]
            steps.append((place, _or_null(_upgrade(before, field.type))))
        else:
            steps.append(None)
    return lambda written: [None if step is None else step[1](written[step[0]]) for step in steps]


def _or_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _text(schema: t.Schema) -> str:
    return t.simple_string(t.Struct(schema))
