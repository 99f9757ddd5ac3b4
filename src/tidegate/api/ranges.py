"""What the value of an option may be: each kind parses a value, refuses it by name, and says its range for the reference page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tidegate.api.durations import parse_duration_ms, show_duration
from tidegate.model.errors import InvalidQuery

LONGEST_MS = 30 * 86_400_000
OFF = "off"


class Range(Protocol):
    """Callable with the user's value and the name to use in an error; raises InvalidQuery for what is out of range."""

    def __call__(self, text: object, what: str, /) -> object: ...

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class WholeNumber:
    least: int
    most: int

    def __call__(self, text: object, what: str) -> int:
        try:
            number = int(str(text).strip())
        except ValueError:
            number = self.least - 1
        if not self.least <= number <= self.most:
            raise InvalidQuery(f"{what} must be a whole number between {self.least} and {self.most}, not {text!r}")
        return number

    def __str__(self) -> str:
        return f"{self.least} … {self.most}"


@dataclass(frozen=True, slots=True)
class Number:
    least: float
    most: float

    def __call__(self, text: object, what: str) -> float:
        try:
            number = float(str(text))
        except ValueError:
            number = self.least - 1
        # Written so that NaN, which compares with nothing, is refused too.
        if not self.least <= number <= self.most:
            raise InvalidQuery(f"{what} must be a number between {self.least:g} and {self.most:g}, not {text!r}")
        return number

    def __str__(self) -> str:
        return f"{self.least:g} … {self.most:g}"


@dataclass(frozen=True, slots=True)
class Duration:
    """``may_be_off``: the word ``off`` stands for 0."""

    least_ms: int = 1
    most_ms: int = LONGEST_MS
    may_be_off: bool = False

    def __call__(self, text: object, what: str) -> int:
        if self.may_be_off and str(text).strip().lower() == OFF:
            return 0
        duration_ms = parse_duration_ms(text, what)
        if not self.least_ms <= duration_ms <= self.most_ms:
            raise InvalidQuery(f"{what} must be between {self._bounds()}, not {text!r}")
        return duration_ms

    def _bounds(self) -> str:
        return f"{show_duration(self.least_ms)} and {_show_long(self.most_ms)}"

    def __str__(self) -> str:
        bounds = f"{show_duration(self.least_ms)} … {_show_long(self.most_ms)}"
        return f"{bounds}, `{OFF}`" if self.may_be_off else bounds


@dataclass(frozen=True, slots=True)
class OneOf:
    """Words, without regard to case, and what each stands for."""

    words: Mapping[str, object]

    def __call__(self, text: object, what: str) -> object:
        by_word = {word.lower(): meaning for word, meaning in self.words.items()}
        word = str(text).strip().lower()
        if word not in by_word:
            raise InvalidQuery(f"{what} must be one of {', '.join(self.words)}, not {text!r}")
        return by_word[word]

    def __str__(self) -> str:
        return ", ".join(f"`{word}`" for word in self.words)


def words(*choices: str) -> OneOf:
    """Words that stand for themselves."""
    return OneOf({word: word for word in choices})


def choices_of(kind: type[Enum]) -> OneOf:
    return OneOf({str(member.value): member for member in kind})


@dataclass(frozen=True, slots=True)
class Text:
    kind: str = "text"

    def __call__(self, text: object, what: str) -> str:
        if not str(text).strip():
            raise InvalidQuery(f"{what} is empty")
        return str(text)

    def __str__(self) -> str:
        return self.kind


YES_OR_NO = OneOf({"true": True, "false": False})
A_PATH = Text("a path")
ANY_DURATION = Duration()
ANY_COUNT = WholeNumber(1, 1_000_000)


def _show_long(duration_ms: int) -> str:
    return f"{duration_ms // 86_400_000} days" if duration_ms >= 2 * 86_400_000 else show_duration(duration_ms)
