"""Tidegate's own road to the generator: no Python iterators, no partitions planned again; position = row number."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import polars as pl

from tidegate.connectors.fixed_splits import FixedEnumerator, check_part
from tidegate.connectors.nexmark.config import NexmarkConfig
from tidegate.connectors.nexmark.generator import NexmarkGenerator
from tidegate.connectors.pacing import Pace, wall_ms
from tidegate.connectors.rows import RowShape
from tidegate.model.errors import InvalidQuery
from tidegate.model.snapshot import Split
from tidegate.operators.values import Natural, decoded
from tidegate.ports.context import EnumeratorContext, ReaderContext
from tidegate.ports.source import SourceConnector, SplitReader


class NexmarkSplit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="nexmark/1"):
    """Rows ``part``, ``part + of``, … : all splits move through event time together."""

    part: Natural
    of: Natural
    started_ms: int


class NexmarkPosition(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="nexmark-position/1"):
    rows: Natural


def nexmark_enumerator(
    nexmark: NexmarkConfig, context: EnumeratorContext, wall: Callable[[], int] = wall_ms
) -> FixedEnumerator:
    if context.bounded and nexmark.events is None:
        raise InvalidQuery(
            "the Nexmark source has no end, so availableNow would never finish", hint="set option events to a number"
        )
    parts = nexmark.partitions or context.parallelism or 1

    def plan() -> tuple[bytes, ...]:
        started_ms = wall()
        splits = (NexmarkSplit(part=part, of=parts, started_ms=started_ms) for part in range(parts))
        return tuple(msgspec.msgpack.encode(split) for split in splits)

    return FixedEnumerator(plan, bounded=context.bounded or nexmark.events is not None, check=_check)


def _check(number: int, count: int, payload: bytes) -> None:
    split = decoded(payload, NexmarkSplit, "a split of the Nexmark source")
    check_part("Nexmark source", number, count, split.part, split.of)


class NexmarkSource(SourceConnector):
    def __init__(self, nexmark: NexmarkConfig, context: ReaderContext, wall: Callable[[], int] = wall_ms) -> None:
        self._config = nexmark
        self._generator = NexmarkGenerator(nexmark)
        self._shape = RowShape(context)
        self._wall = wall

    def open(self, split: Split, position: bytes | None) -> NexmarkReader:
        rows = 0 if position is None else decoded(position, NexmarkPosition, "a position of the Nexmark source").rows
        described = decoded(split.payload, NexmarkSplit, "a split of the Nexmark source")
        return NexmarkReader(self._config, self._generator, self._shape, described, rows, self._wall)


class NexmarkReader(SplitReader):
    def __init__(
        self,
        config: NexmarkConfig,
        generator: NexmarkGenerator,
        shape: RowShape,
        split: NexmarkSplit,
        rows: int,
        wall: Callable[[], int],
    ) -> None:
        self._config = config
        self._generator = generator
        self._shape = shape
        self._split = split
        self._rows = rows
        self._end = None if config.rows is None else rows_of_part(config.rows, split.part, split.of)
        self._pace = Pace(split.started_ms, wall)

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        count = rows_max if self._end is None else min(rows_max, self._end - self._rows)
        if self._config.rate:
            events_due = self._pace.elapsed_ms(now_ms) * self._config.rate // 1_000
            due = rows_of_part(self._config.rows_before(events_due), self._split.part, self._split.of)
            count = min(count, due - self._rows)
        if count <= 0:
            return None
        numbers = np.arange(self._rows, self._rows + count, dtype=np.int64) * self._split.of + self._split.part
        self._rows += count
        return self._shape.rows(self._generator.rows(numbers, self._shape.columns), self.describe())

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(NexmarkPosition(rows=self._rows))

    @property
    def finished(self) -> bool:
        return self._end is not None and self._rows >= self._end

    def describe(self) -> str:
        return f"nexmark {self._config.table} part {self._split.part} of {self._split.of} row {self._rows}"


def rows_of_part(rows: int, part: int, of: int) -> int:
    """How many of the first ``rows`` rows belong to ``part``."""
    return max(0, -(-(rows - part) // of))
