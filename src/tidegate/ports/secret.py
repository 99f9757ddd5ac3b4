"""A text that is never shown. It travels whole to the slots."""

from __future__ import annotations

from tidegate.ports.showing import HIDDEN


class Secret:
    """``repr``, ``str`` and every format hide it; ``reveal`` gives the text to the one who logs in with it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))
