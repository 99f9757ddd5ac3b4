"""What a world has seen of its input: which look reported a split, when rows were handed out, when a broker said "empty".

The judge of lateness reads it. Nothing here comes from what the engine believes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Look:
    """A look of some attempt that did not fail."""

    at_ms: int
    attempt: int
    found: bool
    """It reported something that its attempt did not know."""


@dataclass(slots=True)
class Emptiness:
    """What one open reader of a log split was answered while it stood at ``position``."""

    position: int
    first_ms: int
    last_ms: int
    until_ms: int | None = None
    """When it handed out rows again; None: it never did."""


@dataclass(slots=True)
class SourceNotes:
    looks: list[Look] = field(default_factory=list)
    reported: dict[int, int] = field(default_factory=dict)
    """Split → number of the look that reported it first."""
    numbers: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Attempt → split → the number it was given."""
    opened_ms: dict[int, int] = field(default_factory=dict)
    handed_ms: dict[tuple[int, int], int] = field(default_factory=dict)
    """(split, row) → when it was handed out first."""
    handed_by: dict[tuple[int, int], str] = field(default_factory=dict)
    """… and by which slot."""
    last_handed_ms: dict[int, int] = field(default_factory=dict)
    """Split → when any of its rows was handed out last, or it was opened."""
    empty: dict[int, list[Emptiness]] = field(default_factory=lambda: defaultdict(list))


class Chronicle:
    def __init__(self) -> None:
        self.on_read: Callable[[], None] = lambda: None
        """The last rows of a split have been handed out."""
        self._sources: dict[str, SourceNotes] = defaultdict(SourceNotes)

    def of(self, source: str) -> SourceNotes:
        return self._sources[source]

    def looked(self, source: str, attempt: int, numbers: dict[int, int], at_ms: int, *, found: bool) -> None:
        """``numbers``: the number that each split known to the enumerator has."""
        notes = self.of(source)
        notes.looks.append(Look(at_ms, attempt, found))
        for split, number in numbers.items():
            notes.reported.setdefault(split, len(notes.looks) - 1)
            notes.numbers[attempt][split] = number

    def opened(self, source: str, split: int, at_ms: int) -> None:
        notes = self.of(source)
        notes.opened_ms.setdefault(split, at_ms)
        notes.last_handed_ms[split] = at_ms

    def handed(self, source: str, split: int, rows: range, at_ms: int, slot: str) -> None:
        notes = self.of(source)
        for row in rows:
            notes.handed_ms.setdefault((split, row), at_ms)
            notes.handed_by.setdefault((split, row), slot)
        notes.last_handed_ms[split] = at_ms

    def answered_empty(self, source: str, split: int, known: Emptiness | None, position: int, at_ms: int) -> Emptiness:
        """Returns the note that this answer belongs to: the reader hands it back with its next one."""
        if known is None:
            known = Emptiness(position, at_ms, at_ms)
            self.of(source).empty[split].append(known)
        known.last_ms = at_ms
        return known
