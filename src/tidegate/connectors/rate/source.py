"""Spark's ``rate`` source: ``timestamp`` and a dense ``value``, so many rows per second."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import polars as pl

from tidegate.connectors.fixed_splits import FixedEnumerator, check_part
from tidegate.connectors.pacing import Pace, wall_ms
from tidegate.connectors.rate.config import RateConfig
from tidegate.connectors.rows import RowShape
from tidegate.model.errors import InvalidQuery
from tidegate.model.snapshot import Split
from tidegate.operators.values import Natural, decoded
from tidegate.ports.context import EnumeratorContext, ReaderContext
from tidegate.ports.source import SourceConnector, SplitReader


class RateSplit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="rate/1"):
    """Values ``part``, ``part + of``, ``part + 2·of`` … of a source that started at ``started_ms`` (wall clock)."""

    part: Natural
    of: Natural
    started_ms: int


class RatePosition(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="rate-position/1"):
    emitted: Natural


def rate_enumerator(rate: RateConfig, context: EnumeratorContext, wall: Callable[[], int] = wall_ms) -> FixedEnumerator:
    if context.bounded:
        raise InvalidQuery(
            "the rate source has no end, so availableNow would never finish", hint="use trigger(checkpoint=…), or files"
        )
    parts = rate.partitions or context.parallelism or 1

    def plan() -> tuple[bytes, ...]:
        started_ms = wall()
        splits = (RateSplit(part=part, of=parts, started_ms=started_ms) for part in range(parts))
        return tuple(msgspec.msgpack.encode(split) for split in splits)

    return FixedEnumerator(plan, bounded=False, asked=f"{parts} parts", check=_check)


def _check(number: int, count: int, payload: bytes) -> None:
    split = decoded(payload, RateSplit, "a split of the rate source")
    check_part("rate source", number, count, split.part, split.of)


class RateSource(SourceConnector):
    def __init__(self, rate: RateConfig, context: ReaderContext, wall: Callable[[], int] = wall_ms) -> None:
        self._config = rate
        self._shape = RowShape(context)
        self._wall = wall

    def open(self, split: Split, position: bytes | None) -> RateReader:
        at = (
            decoded(position, RatePosition, "a position of the rate source")
            if position is not None
            else RatePosition(emitted=0)
        )
        described = decoded(split.payload, RateSplit, "a split of the rate source")
        return RateReader(self._config, described, self._shape, at.emitted, self._wall)


class RateReader(SplitReader):
    """Position: rows emitted. What was due while the query was down comes at once: no value is lost or repeated."""

    def __init__(
        self, config: RateConfig, split: RateSplit, shape: RowShape, emitted: int, wall: Callable[[], int]
    ) -> None:
        self._config = config
        self._split = split
        self._shape = shape
        self._emitted = emitted
        self._pace = Pace(split.started_ms, wall)

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        due = self._config.due(self._pace.elapsed_ms(now_ms))
        count = min(rows_max, self._count_below(due) - self._emitted)
        if count <= 0:
            return None
        numbers = np.arange(self._emitted, self._emitted + count, dtype=np.int64)
        values = numbers * self._split.of + self._split.part
        times = self._split.started_ms * 1_000 + self._config.offsets_us(values)
        self._emitted += count
        frame = pl.DataFrame({"timestamp": pl.Series(times).cast(pl.Datetime("us", "UTC")), "value": values})
        return self._shape.rows(frame, self.describe())

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(RatePosition(emitted=self._emitted))

    @property
    def finished(self) -> bool:
        return False

    def describe(self) -> str:
        return f"rate part {self._split.part} of {self._split.of} row {self._emitted}"

    def _count_below(self, value: int) -> int:
        """How many values of this part are smaller than ``value``."""
        return max(0, -(-(value - self._split.part) // self._split.of))
