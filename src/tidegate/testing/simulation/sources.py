"""A scripted source: splits of rows made from numbers alone, found and handed out as time passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
import polars as pl

from tidegate.model.snapshot import Split
from tidegate.plan.relational import Scan
from tidegate.ports.source import SourceConnector, SplitEnumerator, SplitReader
from tidegate.testing.simulation.positions import ALL
from tidegate.testing.stand_ins import SourceStandIn

JITTER_US = 3_000_000
"""Event times run ahead of the row's place by less than this: a watermark delay as large loses no row."""

WAVE_US = 60_000_000
"""Splits found later hold later event times: nothing in them is late, whatever was read before."""

BURST_MS = 600
"""Rows become available this often: fewer, larger batches keep a simulated minute short."""

Clock = Callable[[], int]
"""The time of the world outside: that of no process."""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulated source holds."""

    splits: int
    rows_per_split: int
    keys: int
    rows_per_second: int
    seed: int
    arrivals_ms: tuple[int, ...] = ()
    """When each split can be discovered; empty: all of them at once."""
    pause_row: int = 0
    pause_ms: int = 0
    """Every split falls silent for this long before this row."""


@dataclass(frozen=True, kw_only=True)
class ScriptSpec(SourceStandIn):
    script: Script


def script_of(scan: Scan) -> Script:
    assert isinstance(scan.spec, ScriptSpec)
    return scan.spec.script


@lru_cache(maxsize=64)
def split_rows(script: Script, split: int) -> pl.DataFrame:
    """All rows of a split: id, key, value, ts (µs). A pure function, so every replay reads the same rows."""
    index = np.arange(script.rows_per_split, dtype=np.int64)
    noise = _mix(index + np.int64(split * 1_000_003 + script.seed * 7_919))
    wave = split if script.arrivals_ms else 0
    return pl.DataFrame(
        {
            "id": split * 1_000_000 + index,
            "key": (noise % np.uint64(script.keys)).astype(np.int64),
            "value": ((noise >> np.uint64(20)) % np.uint64(1000)).astype(np.int64),
            "ts": wave * WAVE_US + index * 200_000 + ((noise >> np.uint64(40)) % np.uint64(JITTER_US)).astype(np.int64),
        }
    )


def all_rows(script: Script, read: dict[int, int] | None = None) -> pl.DataFrame:
    """``read``: how many rows of each split, if not all of them."""
    whole = [split_rows(script, split) for split in range(script.splits)]
    if read is None:
        return pl.concat(whole)
    return pl.concat([rows if read.get(n, 0) == ALL else rows.head(read.get(n, 0)) for n, rows in enumerate(whole)])


def _mix(values: np.ndarray) -> np.ndarray:
    z = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class KnownSplits(msgspec.Struct, frozen=True, array_like=True):
    """Numbers ``first … stop - 1``; what was before is done and forgotten."""

    first: int
    stop: int


class ScriptedEnumerator(SplitEnumerator):
    """Finds splits as they arrive. Bounded once the last one is known: then, and only then, the source can end."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._first = 0
        self._stop = 0

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        arrivals = self._script.arrivals_ms
        here = sum(at <= now_ms for at in arrivals) if arrivals else self._script.splits
        fresh = range(self._stop, max(here, self._stop))
        self._stop = fresh.stop
        return tuple(Split(number=number, payload=b"") for number in fresh)

    def forget(self, below: int) -> None:
        self._first = max(self._first, min(below, self._stop))

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(KnownSplits(self._first, self._stop))

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        stored = msgspec.msgpack.decode(state, type=KnownSplits) if state else KnownSplits(0, 0)
        self._first = stored.first
        self._stop = max([stored.stop, *(split.number + 1 for split in known)])
        return tuple(Split(number=number, payload=b"") for number in range(self._first, self._stop))

    @property
    def bounded(self) -> bool:
        return self._stop >= self._script.splits


class ScriptedReader(SplitReader):
    """Rows become available with time, counted from the moment the split was opened here. ``hurry``: all at once."""

    def __init__(
        self, scan: Scan, split: Split, position: bytes | None, clock: Clock, hurry: Callable[[], bool]
    ) -> None:
        self._script = script = script_of(scan)
        rows = split_rows(script, split.number)
        self._rows = rows.select(scan.columns).rename(
            dict(zip(scan.columns, (field.name for field in scan.schema), strict=True))
        )
        self._split = split.number
        self._first = self._next = msgspec.msgpack.decode(position, type=int) if position else 0
        self._clock = clock
        self._hurry = hurry
        self._opened_ms = clock()

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        del now_ms  # A skewed clock changes nothing about what is there.
        stop = min(self._available(), self._next + rows_max)
        if stop <= self._next:
            return None
        rows = self._rows.slice(self._next, stop - self._next)
        self._next = stop
        return rows

    def _available(self) -> int:
        script = self._script
        if self._hurry():
            return script.rows_per_split
        passed_ms = self._clock() - self._opened_ms
        if script.pause_ms and self._first < script.pause_row:
            reached = self._first + 1 + passed_ms // BURST_MS * script.rows_per_second * BURST_MS // 1000
            if reached >= script.pause_row:
                until_pause_ms = (script.pause_row - self._first) * 1000 // script.rows_per_second
                if passed_ms < until_pause_ms + script.pause_ms:
                    return script.pause_row
                passed_ms -= script.pause_ms
        available = self._first + 1 + passed_ms // BURST_MS * script.rows_per_second * BURST_MS // 1000
        return min(available, script.rows_per_split)

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(self._next)

    @property
    def finished(self) -> bool:
        return self._next >= self._script.rows_per_split

    def describe(self) -> str:
        return f"split {self._split} row {self._next}"


class ScriptedSource(SourceConnector):
    def __init__(self, scan: Scan, clock: Clock, hurry: Callable[[], bool]) -> None:
        self._scan = scan
        self._clock = clock
        self._hurry = hurry

    def open(self, split: Split, position: bytes | None) -> ScriptedReader:
        return ScriptedReader(self._scan, split, position, self._clock, self._hurry)
