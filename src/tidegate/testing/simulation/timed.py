"""Input in event time: splits of rows in any order of time, that appear, pause, fall silent and come late.

A script is all that a world knows of one source. It travels as JSON in ``Scan.options["timed"]``.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import polars as pl

from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.plan.relational import Scan
from tidegate.testing.stand_ins import SourceStandIn

OPTION = "timed"
SPLIT_IDS = 10_000
"""Ids of a split's rows begin at a multiple of this."""
SOURCE_IDS = 10_000_000


class TimedSplit(msgspec.Struct, frozen=True, array_like=True):
    """A file, or a partition of a log."""

    appears_ms: int
    times_us: tuple[int | None, ...]
    """Event time of each row, in the order in which rows stand in the split. None: the column is null."""
    ready_ms: tuple[int, ...] = ()
    """Of a log: when each row is appended; rising. A file has all of its rows from the beginning."""
    unanswered: tuple[tuple[int, int], ...] = ()
    """Of a log: from when to when its broker says nothing."""
    filtered: tuple[int, ...] = ()
    """Rows that the user filters away below the watermark."""
    earliest_us: int | None = None
    """What the split's statistics say of its event times."""

    @property
    def counted_us(self) -> tuple[int | None, ...]:
        """The times that tell the time: those of rows that the user filters away do not."""
        return tuple(None if n in self.filtered else at for n, at in enumerate(self.times_us))

    @property
    def largest_us(self) -> int:
        return max((at for at in self.counted_us if at is not None), default=WATERMARK_MIN_US)


class TimedScript(msgspec.Struct, frozen=True, kw_only=True):
    """One source."""

    number: int
    splits: tuple[TimedSplit, ...]
    ordered: bool = False
    """Its splits are logs."""
    delay_us: int | None = 0
    """Of ``withWatermark``; None: the user has written none."""
    limit: int = 0
    """``maxFilesPerTrigger``; 0: none."""
    pace_ms: int = 0
    """A file hands out rows, then nothing for this long."""
    latency_ms: int = 0
    """A broker answers after this long."""
    bounded: bool = False
    keys: int = 3

    @property
    def source(self) -> str:
        return f"source-{self.number}"

    @property
    def largest_us(self) -> int:
        return max((split.largest_us for split in self.splits), default=WATERMARK_MIN_US)

    @property
    def rests_ms(self) -> int:
        """When everything that will ever be there is there, and every broker answers."""
        moments = [0]
        for split in self.splits:
            moments += [split.appears_ms, *split.ready_ms, *(until for _, until in split.unanswered)]
        return max(moments)


def encoded(script: TimedScript) -> str:
    return msgspec.json.encode(script).decode()


@dataclass(frozen=True, kw_only=True)
class TimedSpec(SourceStandIn):
    script: TimedScript


def timed_script_of(scan: Scan) -> TimedScript | None:
    """None: the scan reads something else."""
    return scan.spec.script if isinstance(scan.spec, TimedSpec) else None


def id_of(script: TimedScript, split: int, row: int) -> int:
    return script.number * SOURCE_IDS + split * SPLIT_IDS + row


def timed_rows(script: TimedScript, split: int) -> pl.DataFrame:
    """All rows of a split: id, key, value, ts (µs, perhaps null). ``value`` is 0 where the user filters the row away."""
    one = script.splits[split]
    ids = [id_of(script, split, row) for row in range(len(one.times_us))]
    return pl.DataFrame(
        {
            "id": ids,
            "key": [number % script.keys for number in ids],
            "value": [0 if row in one.filtered else 1 for row in range(len(ids))],
            "ts": list(one.times_us),
        },
        schema={"id": pl.Int64, "key": pl.Int64, "value": pl.Int64, "ts": pl.Int64},
    )
