"""Equal values become one object, so that hashing and comparing a world costs a few integers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=Hashable)
T_co = TypeVar("T_co", bound=Hashable, covariant=True)


class Box(Generic[T_co]):
    """The only box of an equal value within one Interner. Hashes by birth number: the same in every process."""

    __slots__ = ("number", "value")

    def __init__(self, number: int, value: T_co) -> None:
        self.number = number
        self.value = value

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"Box({self.number}, {self.value!r})"


class Interner:
    def __init__(self) -> None:
        self._boxes: dict[tuple[type, Any], Box[Any]] = {}

    def __call__(self, value: T) -> Box[T]:
        # The type is part of the key: an effect with no fields must not meet another one.
        key = (type(value), value)
        box = self._boxes.get(key)
        if box is None:
            box = self._boxes[key] = Box(len(self._boxes), value)
        return box

    def __len__(self) -> int:
        return len(self._boxes)
