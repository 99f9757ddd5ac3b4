"""Watermarks from rows: the largest event time seen per split, and what it allows.

Of log splits each tells its own time: over the open ones the smallest counts, minus the delay. Whole splits only note their times: the
driver, who knows what is still unread, says how far time may go.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidegate.eventtime.delay import watermark_at
from tidegate.model.elements import NO_ORIGIN, WATERMARK_MIN_US, SourceStatus


class GeneratorState(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="split-watermarks/1"):
    """What one subtask knew at the barrier."""

    splits: dict[int, int] = {}
    """Largest event time per open split."""
    closed_us: int = WATERMARK_MIN_US
    """Largest event time of all splits that are closed."""


class SplitWatermarks:
    """One per subtask of an assigner. Knows splits by number; rows behind an exchange all count as one split."""

    def __init__(self, delay_us: int, restored: tuple[GeneratorState, ...] = ()) -> None:
        self._delay_us = delay_us
        self._largest: dict[int, int] = {}
        for state in restored:
            for split, at_us in state.splits.items():
                # Behind an exchange each old subtask had a "split" of its own: only the smallest holds for all their rows. Of a
                # real split, whoever read it last knows most.
                known_us = self._largest.get(split, at_us)
                self._largest[split] = min(at_us, known_us) if split == NO_ORIGIN else max(at_us, known_us)
        # Splits open at the snapshot may be assigned to any subtask, a moment from now: until then what had been closed
        # proves nothing about the rows to come.
        self._closed_us = max((s.closed_us for s in restored), default=WATERMARK_MIN_US)
        if self._largest:
            self._closed_us = WATERMARK_MIN_US
        self._status: SourceStatus | None = None
        self.emitted_us = WATERMARK_MIN_US

    def observe(self, split: int, largest_us: int) -> int | None:
        """Rows of ``split`` reach up to ``largest_us``. Returns the new watermark if it rose."""
        self._largest[split] = max(largest_us, self._largest.get(split, WATERMARK_MIN_US))
        return self._advance()

    def on_status(self, status: SourceStatus) -> int | None:
        """Returns the new watermark if it rose."""
        self._note(status.reached)
        if not status.whole:
            before = self._status.open if self._status is not None else frozenset[int]()
            # Also those that were read in part before a restore and have had nothing since.
            for split in (before | {split for split, _ in status.reached}) - status.open:
                self._closed_us = max(self._closed_us, self._largest.get(split, WATERMARK_MIN_US))
        self._status = status
        return self._advance()

    def largest_us(self, split: int) -> int:
        """Of the rows seen so far, here and before the restore."""
        return self._largest.get(split, WATERMARK_MIN_US)

    def forget(self, split: int) -> int:
        """The split has been read to its end: its largest event time."""
        largest_us = self._largest.pop(split, WATERMARK_MIN_US)
        if self._status is not None and not self._status.whole:
            self._closed_us = max(self._closed_us, largest_us)
        return largest_us

    def snapshot(self) -> GeneratorState:
        """Times of whole splits are part of their positions."""
        status = self._status
        current = frozenset({NO_ORIGIN}) if status is None else status.open
        splits = {split: self._largest[split] for split in current if split in self._largest}
        return GeneratorState(splits=splits, closed_us=self._closed_us)

    def _note(self, reached: Iterable[tuple[int, int]]) -> None:
        for split, at_us in reached:
            self._largest[split] = max(at_us, self._largest.get(split, WATERMARK_MIN_US))

    def _advance(self) -> int | None:
        watermark_us = self._allowed_us()
        if watermark_us <= self.emitted_us:
            return None
        self.emitted_us = watermark_us
        return watermark_us

    def _allowed_us(self) -> int:
        status = self._status
        if status is not None and (status.whole or status.holding):
            return status.granted_us
        current = frozenset({NO_ORIGIN}) if status is None else status.open
        if current:
            largest_us = min(self._largest.get(split, WATERMARK_MIN_US) for split in current)
        else:
            largest_us = max(self._closed_us, self._largest.get(NO_ORIGIN, WATERMARK_MIN_US))
        granted_us = status.granted_us if status is not None else WATERMARK_MIN_US
        if largest_us <= WATERMARK_MIN_US:
            return granted_us
        return max(granted_us, watermark_at(largest_us, self._delay_us))
