"""What an operator stores beside its rows: one small document per subtask, versioned by its tag."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tidegate.model.errors import CorruptSnapshot

V = TypeVar("V", bound=msgspec.Struct)


def decoded(value: bytes, kind: type[V], what: str) -> V:
    """Raises CorruptSnapshot, which names ``what`` cannot be read."""
    try:
        return msgspec.msgpack.decode(value, type=kind)
    except msgspec.MsgspecError as error:
        raise CorruptSnapshot(
            f"{what} cannot be read: {error}",
            hint="restore an older checkpoint, or use the Tidegate version that wrote this one",
        ) from error
