"""What the value of an option may be. A kind makes a value of a text, or says what the text must be; as text it is the range on the page.

A kind that is ``harmless`` admits no value that could be a secret, or is declared to hold none: only such values are ever shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tidegate.ports.secret import Secret

Value = TypeVar("Value", covariant=True)

_NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MILLISECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


class Unfit(ValueError):
    """A text that cannot be the value of an option. Its own text completes the sentence "it must be …"."""


class Kind(Protocol[Value]):
    @property
    def harmless(self) -> bool:
        """Whether values may be shown: in errors, logs and explanations."""
        ...

    def parse(self, text: str) -> Value:
        """Raises Unfit."""
        ...

    def __str__(self) -> str:
        """The range, for people."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """Any text. ``harmless``: it never holds a secret."""

    range: str = "text"
    harmless: bool = False

    def parse(self, text: str) -> str:
        return text

    def __str__(self) -> str:
        return self.range


@dataclass(frozen=True, slots=True)
class SecretText:
    range: str = "a secret"
    harmless: bool = False

    def parse(self, text: str) -> Secret:
        return Secret(text)

    def __str__(self) -> str:
        return self.range


@dataclass(frozen=True, slots=True)
class Flag:
    harmless: bool = True

    def parse(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise Unfit("true or false")
        return text.lower() == "true"

    def __str__(self) -> str:
        return "`true`, `false`"


@dataclass(frozen=True, slots=True)
class WholeNumber:
    least: int = 0
    harmless: bool = True

    def parse(self, text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise Unfit("a whole number") from None
        if number < self.least:
            raise Unfit(f"at least {self.least}")
        return number

    def __str__(self) -> str:
        return f"a whole number, {self.least} or more"


@dataclass(frozen=True, slots=True)
class Character:
    """One ASCII character, or none; ``\\t`` and ``\\0`` are spelled as in Spark. ``required``: there must be one."""

    required: bool = False
    harmless: bool = True

    def parse(self, text: str) -> str:
        value = {"\\t": "\t", "\\0": "\0"}.get(text, text)
        if len(value) > 1 or not value.isascii() or (self.required and not value):
            raise Unfit("one ASCII character")
        return value

    def __str__(self) -> str:
        return "one ASCII character"


class Choice:
    """One of some words, without regard to case. ``meaning``: other spellings, and the word that each stands for."""

    harmless = True

    def __init__(self, *words: str, **meaning: str) -> None:
        self.words = words
        self._by_word = {word.lower(): word for word in words} | {word.lower(): one for word, one in meaning.items()}

    def parse(self, text: str) -> str:
        found = self._by_word.get(text.lower())
        if found is None:
            raise Unfit(" or ".join(self.words))
        return found

    def __str__(self) -> str:
        return ", ".join(f"`{word}`" for word in self.words)


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes. Units of 1,024, as everywhere in Spark; a plain number counts bytes."""

    harmless: bool = True

    def parse(self, text: str) -> int:
        found = _NUMBER_AND_UNIT.fullmatch(text.strip().lower())
        unit = re.sub(r"i?b$", "", found[2]) if found else "?"
        if found is None or unit not in _BYTES:
            raise Unfit("a size such as 128m or 1g (0: none)")
        return int(float(found[1]) * _BYTES[unit])

    def __str__(self) -> str:
        return "a size: `128m`, `1g`"


@dataclass(frozen=True, slots=True)
class Duration:
    """Milliseconds. A number needs its unit: there is no telling seconds from milliseconds."""

    harmless: bool = True

    def parse(self, text: str) -> int:
        found = _NUMBER_AND_UNIT.fullmatch(text.strip().lower())
        if found is None or found[2] not in _MILLISECONDS:
            raise Unfit("a duration such as 30s, 15 minutes or 7d")
        length_ms = int(float(found[1]) * _MILLISECONDS[found[2]])
        if length_ms <= 0:
            raise Unfit("longer than nothing")
        return length_ms

    def __str__(self) -> str:
        return "a duration: `30s`, `15 minutes`"


@dataclass(frozen=True, slots=True)
class Made(Generic[Value]):
    """A value of a connector's own. ``make`` raises Unfit."""

    make: Callable[[str], Value]
    range: str
    harmless: bool = True

    def parse(self, text: str) -> Value:
        return self.make(text)

    def __str__(self) -> str:
        return self.range
