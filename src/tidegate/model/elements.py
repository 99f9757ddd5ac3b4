"""What flows through a channel, in order. Nothing overtakes anything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import polars as pl

from tidegate.model.ids import CheckpointId

WATERMARK_MIN_US = -(1 << 62)
"""Before any event time: no watermark yet."""

WATERMARK_MAX_US = 1 << 62
"""After every event time: closes every window (``atEnd=drain``)."""

NO_ORIGIN = -1


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows. ``origin`` is the split they were read from, known only between a source and the first exchange; ``port`` is the input
    of the stage they came in by, known only to its first operator."""

    rows: pl.DataFrame
    origin: int = NO_ORIGIN
    port: int = 0

    def with_rows(self, rows: pl.DataFrame) -> Batch:
        return Batch(rows, self.origin, self.port)


@dataclass(frozen=True, slots=True)
class Rejected:
    """Rows a user function raised for, one letter each (columns as ``plan/dead_letters.py`` has them, as far as the operator
    knows). They leave their chain sideways, to the dead-letter sink of the stage."""

    letters: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Watermark:
    """No row with an event time before ``at_us`` is expected any more on this channel."""

    at_us: int


@dataclass(frozen=True, slots=True)
class Idle:
    """This channel carries no rows for now: ignore it when combining watermarks. A Batch or Watermark makes it active.

    ``for_good``: nothing above it tells the time, nor ever will. Rows still come, and do not end it.
    """

    for_good: bool = False
    let_go: bool = False
    """It has been quiet for so long that other streams do not wait for it any more (``idleStreamTimeout``)."""
    rest: int = 0
    """Everything known up to this rest of the whole pipeline is in front of it. It means something only where all channels say the same
    number: another one's rows may still be on their way."""


@dataclass(frozen=True, slots=True)
class Active:
    """Said by a source to its own outputs only: its channels count again, although no rows have come."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """Sent by a source into its own chain only: how far event time may go, as far as the source knows."""

    open: frozenset[int]
    """Log splits that hold the watermark back: it is made from the smallest of their times."""
    holding: bool
    """Nothing may be concluded from the rows: splits that hold it back are still to be given out."""
    granted_us: int = WATERMARK_MIN_US
    """Of whole splits: the watermark that the driver allows, whatever the rows say."""
    whole: bool = False
    """The splits are whole ones: rows tell the driver what time it is, and nobody else."""
    reached: tuple[tuple[int, int], ...] = ()
    """Splits that were read in part before, and the largest event time of that part."""


class CheckpointKind(Enum):
    PERIODIC = "periodic"
    MANUAL = "manual"
    SAVEPOINT = "savepoint"
    """Of the sequence like any other, always aligned, and exported once its output is visible."""
    FINAL = "final"
    """After all sources ended: its commit makes the last rows visible, then the job is done."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Separates the rows of checkpoint ``checkpoint`` from those of the next."""

    checkpoint: CheckpointId
    kind: CheckpointKind = CheckpointKind.PERIODIC
    unaligned: bool = False
    """It has overtaken the rows before it: whoever receives it snapshots at once, with what it overtook."""


@dataclass(frozen=True, slots=True)
class CancelCheckpoint:
    """The checkpoint was given up: stop aligning for it."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class EndOfData:
    """No more rows will come here. Barriers still may: the final checkpoint runs after the end of all data."""


Element: TypeAlias = Batch | Watermark | Idle | SourceStatus | Barrier | CancelCheckpoint | EndOfData
Output: TypeAlias = Batch | Watermark
"""What leaves a chain."""
Produced: TypeAlias = Output | Rejected
"""What an operator may produce."""
