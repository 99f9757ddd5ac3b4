"""A scripted source: splits of rows made from numbers alone, handed out as time passes."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from tidegate.model.snapshot import Split
from tidegate.plan.relational import Scan

JITTER_US = 3_000_000
"""Event times run ahead of the row's place by less than this: a watermark delay as large loses no row."""


BURST_MS = 250
"""Rows become available this often: fewer, larger batches keep a simulated minute short."""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulated source holds; travels as JSON in ``Scan.options["script"]``."""

    splits: int
    rows_per_split: int
    keys: int
    rows_per_second: int
    seed: int


def script_of(scan: Scan) -> Script:
    return msgspec.json.decode(scan.options["script"], type=Script)


def rows_of(script: Script, split: int, start: int, stop: int) -> pl.DataFrame:
    """Rows ``start … stop`` of a split: id, key, value, ts (µs). A pure function, so every replay reads the same rows."""
    index = np.arange(start, stop, dtype=np.int64)
    noise = _mix(index + np.int64(split * 1_000_003 + script.seed * 7_919))
    return pl.DataFrame(
        {
            "id": split * 1_000_000 + index,
            "key": (noise % np.uint64(script.keys)).astype(np.int64),
            "value": ((noise >> np.uint64(20)) % np.uint64(1000)).astype(np.int64),
            "ts": index * 200_000 + ((noise >> np.uint64(40)) % np.uint64(JITTER_US)).astype(np.int64),
        }
    )


def all_rows(script: Script) -> pl.DataFrame:
    return pl.concat([rows_of(script, split, 0, script.rows_per_split) for split in range(script.splits)])


def _mix(values: np.ndarray) -> np.ndarray:
    z = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class KnownSplits(msgspec.Struct, frozen=True, array_like=True):
    """Numbers ``first … stop - 1``; what was before is done and forgotten."""

    first: int
    stop: int


class ScriptedEnumerator:
    """Bounded: all splits are known after the first discovery."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._first = 0
        self._stop = 0

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        del now_ms
        fresh = range(self._stop, self._script.splits)
        self._stop = self._script.splits
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
        return True


class ScriptedReader:
    """Rows become available with time, counted from the moment the split was opened here."""

    def __init__(self, scan: Scan, split: Split, position: bytes | None) -> None:
        self._script = script_of(scan)
        self._names = [field.name for field in scan.schema]
        self._columns = list(scan.columns)
        self._split = split.number
        self._next = msgspec.msgpack.decode(position, type=int) if position else 0
        self._opened: tuple[int, int] | None = None

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        if self._opened is None:
            self._opened = (now_ms, self._next)
        opened_ms, first = self._opened
        passed = (now_ms - opened_ms) // BURST_MS
        available = first + 1 + passed * self._script.rows_per_second * BURST_MS // 1000
        stop = min(available, self._next + rows_max, self._script.rows_per_split)
        if stop <= self._next:
            return None
        rows = rows_of(self._script, self._split, self._next, stop)
        self._next = stop
        return rows.select(pl.col(column).alias(name) for column, name in zip(self._columns, self._names, strict=True))

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(self._next)

    @property
    def finished(self) -> bool:
        return self._next >= self._script.rows_per_split

    def describe(self) -> str:
        return f"split {self._split} row {self._next}"

    def close(self) -> None:
        return None


class ScriptedSource:
    def __init__(self, scan: Scan) -> None:
        self._scan = scan

    def open(self, split: Split, position: bytes | None) -> ScriptedReader:
        return ScriptedReader(self._scan, split, position)
