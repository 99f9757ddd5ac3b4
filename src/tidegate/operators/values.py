"""What an operator stores beside its rows: one small document per subtask, versioned by its tag."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, overload

import msgspec

from tidegate.model import formats
from tidegate.model.errors import CorruptSnapshot

V = TypeVar("V", bound=msgspec.Struct)
Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
"""In a stored document: a negative number there was not written by Tidegate."""


@overload
def decoded(value: bytes, kind: type[V], what: str) -> V: ...
@overload
def decoded(value: bytes, kind: UnionType, what: str) -> Any: ...
def decoded(value: bytes, kind: Any, what: str) -> Any:
    """``kind``: a format, or several of them, told apart by their tags. Raises CorruptSnapshot, which names ``what`` cannot be read."""
    try:
        return formats.decode(value, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptSnapshot(
            f"{what} cannot be read: {error}",
            hint="restore an older checkpoint, or use the Tidegate version that wrote this one",
        ) from error
