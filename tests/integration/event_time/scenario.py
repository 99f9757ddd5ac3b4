"""What a run over files is, as a value: rows in files, files in bursts, and the query over them. No clock, no engine, no disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tests.integration.event_time.queries import Query

DELAY_US = 10_000_000
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """``value`` < 0: the query's filter takes the row away."""

    id: int
    time_us: int | None
    value: int = 0


@dataclass(frozen=True, slots=True)
class File:
    """``stream``: the directory it lies in. Later files of a scenario have later modification times."""

    stream: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Burst:
    """Files that are all there before an engine looks again; afterwards it rests, and what it shows is compared.

    ``one_by_one``: moved in each on its own, where the engine may look in the middle; otherwise all by one rename.
    ``after_silence``: longer than ``idleTimeout`` nothing came before.
    """

    files: tuple[File, ...]
    one_by_one: bool = False
    after_silence: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """``trigger``: one endless run; or a run with ``availableNow`` per burst, ``drained`` or not.

    ``per_trigger``: ``maxFilesPerTrigger``; ``bytes_per_trigger``: ``maxBytesPerTrigger``. ``drops``: Spark drops rows, so that the scenario says something about them.
    """

    query: Query
    bursts: tuple[Burst, ...]
    format: Literal["parquet", "csv", "json"] = "parquet"
    trigger: Literal["endless", "available now", "drained"] = "endless"
    per_trigger: int | None = None
    bytes_per_trigger: int | None = None
    drops: bool = False

    def rows(self) -> Iterator[tuple[str, Row]]:
        for burst in self.bursts:
            for file in burst.files:
                yield from ((file.stream, row) for row in file.rows)

    def watermark_us(self) -> int:
        """Where Spark's watermark stands at the end: floored to milliseconds, the slowest stream counts."""
        newest = dict.fromkeys(self.query.streams, 0)
        for stream, row in self.rows():
            if row.time_us is not None and row.value >= 0:
                newest[stream] = max(newest[stream], row.time_us // 1_000 * 1_000)
        return min(newest.values()) - DELAY_US
