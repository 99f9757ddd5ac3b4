"""What the state of an operator means, in words: state is restored only into an operator that means the same."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidegate.model.ids import OperatorId

Part: TypeAlias = tuple[str, str]
"""A fact and what it is: ``("key k", "bigint")``."""

PLACE = "place"
"""The part that says where a source reads or a sink writes. It may change where nothing of the old place is still owed."""


class StateShape(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The facts that decide whether old state fits, in an order that matters: state is laid out by it."""

    operator: OperatorId
    parts: tuple[Part, ...]


def changes(was: StateShape, now: StateShape, *, ignore: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """What differs, one sentence per part; empty: the state fits."""
    old = {name: words for name, words in was.parts if name not in ignore}
    new = {name: words for name, words in now.parts if name not in ignore}
    found = [
        f"{name}: {old.get(name, 'nothing')} → {new.get(name, 'nothing')}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]
    if not found and list(old) != list(new):
        found.append(f"order: {', '.join(old)} → {', '.join(new)}")
    return tuple(found)
