"""Objects of a user's class taken apart and made again by their fields. Nothing of the class runs."""

from __future__ import annotations

import enum
import sys
from dataclasses import is_dataclass
from types import FunctionType, MemberDescriptorType
from typing import Any

_PICKLING = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
_PLAIN_OWNERS = (object, tuple)
_LIBRARIES = frozenset({"builtins", "pyspark", *sys.stdlib_module_names}) - {"__main__"}
_MADE_BY = frozenset({"dataclasses", "collections", "typing"})


def fields_of(value: object) -> dict[str, Any]:
    """What its ``__dict__`` and its slots hold."""
    found: dict[str, Any] = {}
    for name, slot in _slots(type(value)).items():
        try:
            found[name] = slot.__get__(value)
        except AttributeError:
            continue  # Not set.
    try:
        return {**found, **object.__getattribute__(value, "__dict__")}
    except AttributeError:
        return found


def make(kind: type[Any], items: tuple[Any, ...] | None, fields: dict[str, Any]) -> Any:
    """An object of ``kind`` with these fields; ``items``: of a tuple. TypeError, AttributeError: ``kind`` has no such objects."""
    made = object.__new__(kind) if items is None else tuple.__new__(kind, items)
    slots = _slots(kind)
    for name, value in fields.items():
        if name in slots:
            slots[name].__set__(made, value)
        else:
            object.__getattribute__(made, "__dict__")[name] = value
    return made


def pickles_itself(kind: type[Any]) -> str | None:
    """The method by which a class says that it is more than its fields; None: it is not."""
    for parent in kind.__mro__:
        for name in _PICKLING:
            method = vars(parent).get(name)
            generated = getattr(method, "__module__", None) in _MADE_BY or (
                name == "__getnewargs__" and issubclass(kind, tuple)
            )
            if method is not None and parent not in _PLAIN_OWNERS and not generated:
                return name
    return None


def compared_by(kind: type[Any]) -> str | None:
    """The method of the user's own by which objects of a class are hashed or compared; None: it is Python's own, or made of the fields."""
    for name in ("__hash__", "__eq__"):
        owner = next((parent for parent in kind.__mro__ if name in vars(parent)), object)
        method = vars(owner)[name]
        of_library = owner.__module__.partition(".")[0] in _LIBRARIES
        generated = (
            is_dataclass(owner) and isinstance(method, FunctionType) and method.__code__.co_filename == "<string>"
        )
        if method is not None and not of_library and not generated:
            return name
    return None


def are_same(one: Any, other: Any) -> bool:
    """Whether both are of the same types and fields, however their classes would compare them."""
    if type(one) is not type(other):
        return False
    match one:
        case list() | tuple():
            parts, others = list.__iter__(one) if isinstance(one, list) else tuple.__iter__(one), other
            return len(one) == len(other) and all(map(are_same, parts, others))
        case enum.Enum():
            return one is other
        case _ if compared_by(type(one)) is None and not is_dataclass(one):
            return one == other
        case _:
            fields, others = fields_of(one), fields_of(other)
            return fields.keys() == others.keys() and all(are_same(fields[name], others[name]) for name in fields)


def _slots(kind: type[Any]) -> dict[str, MemberDescriptorType]:
    return {
        name: member
        for parent in reversed(kind.__mro__)
        for name, member in vars(parent).items()
        if isinstance(member, MemberDescriptorType)
    }
