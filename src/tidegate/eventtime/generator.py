"""Watermarks from rows: per split the largest event time seen, over the splits the smallest of these, minus the delay."""

from __future__ import annotations

import msgspec

from tidegate.model.elements import NO_ORIGIN, WATERMARK_MIN_US


class GeneratorState(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="split-watermarks/1"):
    """What one subtask knew at the barrier."""

    splits: dict[int, int] = {}
    """Largest event time per open split."""
    closed_us: int = WATERMARK_MIN_US
    """Largest event time of all splits that are closed."""


class SplitWatermarks:
    """One per subtask of an assigner. Knows splits by number; rows behind an exchange all count as one split.

    The watermark rises when every open split has brought rows, and not while ``holding`` (known data is still unread: in a
    bounded run it may be older than anything seen). With no split open, all that was read counts.
    """

    def __init__(self, delay_us: int, restored: tuple[GeneratorState, ...] = ()) -> None:
        self._delay_us = delay_us
        self._largest: dict[int, int] = {}
        for state in restored:
            for split, at_us in state.splits.items():
                # Behind an exchange each old subtask had a "split" of its own: only the smallest holds for all their rows.
                self._largest[split] = min(at_us, self._largest.get(split, at_us))
        # Splits open at the snapshot may be assigned to any subtask, a moment from now: until then what had been closed
        # proves nothing about the rows to come.
        self._closed_us = max((s.closed_us for s in restored), default=WATERMARK_MIN_US)
        if self._largest:
            self._closed_us = WATERMARK_MIN_US
        self._open: frozenset[int] | None = None
        self._holding = False
        self.emitted_us = WATERMARK_MIN_US

    def observe(self, split: int, largest_us: int) -> int | None:
        """Rows of ``split`` reach up to ``largest_us``. Returns the new watermark if it rose."""
        self._largest[split] = max(largest_us, self._largest.get(split, WATERMARK_MIN_US))
        return self._advance()

    def on_status(self, open_splits: frozenset[int], holding: bool) -> int | None:
        """Splits not among ``open_splits`` are closed (or idle). Returns the new watermark if it rose."""
        for split in (self._open or frozenset()) - open_splits:
            self._closed_us = max(self._closed_us, self._largest.pop(split, WATERMARK_MIN_US))
        self._open, self._holding = open_splits, holding
        return self._advance()

    def snapshot(self) -> GeneratorState:
        known = self._largest if self._open is None else {s: self._largest[s] for s in self._open if s in self._largest}
        return GeneratorState(splits=dict(known), closed_us=self._closed_us)

    def _advance(self) -> int | None:
        if self._holding:
            return None
        current = frozenset({NO_ORIGIN}) if self._open is None else self._open
        if current:
            largest_us = min(self._largest.get(split, WATERMARK_MIN_US) for split in current)
        else:
            largest_us = self._closed_us
        if largest_us <= WATERMARK_MIN_US:
            return None
        watermark_us = largest_us - self._delay_us
        if watermark_us <= self.emitted_us:
            return None
        self.emitted_us = watermark_us
        return watermark_us
