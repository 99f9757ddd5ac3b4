"""A split while it is read: its reader, and how long it has had nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import polars as pl

from tidegate.eventtime.quiet import Quiet
from tidegate.model.snapshot import Split, SplitPosition
from tidegate.ports.source import SourceConnector, SplitReader

SILENT_AFTER_MS = 3_000
"""Answers take their time; after this long none is coming."""


class Idleness(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="source-idleness/1"):
    """Which log splits brought no rows at the barrier. After a restore one empty answer is enough for them to count as idle again."""

    splits: tuple[int, ...] = ()
    idle: bool = False
    """Of documents before 0.1: whether the whole subtask counted as idle."""


@dataclass(slots=True)
class OpenSplit:
    split: Split
    start: bytes | None
    largest_us: int
    """Largest event time before ``start``."""
    quiet: Quiet = field(default_factory=Quiet)
    reader: SplitReader | None = None
    emitted: bool = False
    answers: int = 0
    """Empty answers that have been seen."""
    asked_ms: float = 0.0
    """When it was last asked for rows. Nobody asks while those behind are busy: that time is no silence."""
    heard_ms: float | None = None
    """When its source last gave rows or an answer; before the first time, when it was first asked."""

    @property
    def number(self) -> int:
        return self.split.number

    def opened(self, connector: SourceConnector) -> SplitReader:
        if self.reader is None:
            self.reader = connector.open(self.split, self.start)
        return self.reader

    def read(self, rows_max: int, now_ms: float) -> pl.DataFrame | None:
        assert self.reader is not None
        rows = self.reader.read(rows_max, int(now_ms))
        self.emitted = True
        self.asked_ms = now_ms
        if self.heard_ms is None:
            self.heard_ms = now_ms
        if rows is not None and rows.height:
            self.heard_ms = now_ms
            self.quiet.rows()
            return rows
        return None

    def note_nothing(self, now_ms: float) -> None:
        """There were no rows: that means that there are none only if the source has said so since."""
        assert self.reader is not None
        if self.reader.awaits_rows:
            return
        answers = self.reader.empty_answers
        if answers is not None:
            if answers == self.answers:
                return
            self.answers = answers
        self.heard_ms = now_ms
        self.quiet.nothing(now_ms)

    @property
    def silent_ms(self) -> int:
        """For how long its source has said nothing, although asked."""
        return 0 if self.heard_ms is None else int(self.asked_ms - self.heard_ms)

    def rests(self, timeout_ms: float, now_ms: float) -> bool:
        """Its source has said for that long that nothing is there, and says so still: an answer older than that proves nothing, unless
        its answers have been coming no sooner all along."""
        awaits = self.reader is not None and self.reader.awaits_rows
        patience_ms = max(timeout_ms, min(2 * self.quiet.longest_pause_ms, SILENT_AFTER_MS))
        heard = self.heard_ms is not None and now_ms - self.heard_ms < patience_ms
        return heard and not awaits and self.quiet.lasts(timeout_ms)

    def position(self, largest_us: int) -> SplitPosition:
        at = self.reader.position if self.reader is not None and self.emitted else self.start
        return SplitPosition(split=self.split, position=at, largest_us=largest_us)

    @property
    def caught_up(self) -> bool:
        return self.reader is None or self.reader.caught_up

    def look(self) -> None:
        if self.reader is not None:
            self.reader.look()

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
