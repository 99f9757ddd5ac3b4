"""Driver side of a user's streaming data source: asks for new offsets and plans their partitions."""

from __future__ import annotations

import inspect
import json
from collections import deque

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

from tidegate.connectors.python_source.payload import unpack
from tidegate.connectors.python_source.readers import stream_reader
from tidegate.connectors.python_source.splits import Offset, PartitionSplit, offset_text
from tidegate.model.config import QueryConfig
from tidegate.model.errors import CorruptSnapshot, TidegateError
from tidegate.model.snapshot import Split
from tidegate.operators.user_functions import failure
from tidegate.operators.values import decoded
from tidegate.plan.relational import Scan


class KnownRange(msgspec.Struct, frozen=True, array_like=True):
    """Offsets that were planned together into ``count`` splits."""

    start: str
    end: str
    count: int


class KnownRanges(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ranges/1"):
    """The ranges that are not known to be done, in order; split numbers follow from ``first`` and the counts."""

    reached: str | None
    ranges: tuple[KnownRange, ...] = ()
    first: int = 0
    """Number of the first split of the first range: the splits before it are done and forgotten."""


def python_enumerator(scan: Scan, config: QueryConfig) -> RangeEnumerator:
    datasource, schema = unpack(scan.payload, scan.source_schema)
    return RangeEnumerator(stream_reader(datasource, schema), scan.format, bounded=config.bounded)


class RangeEnumerator:
    """Every discovery that finds a later offset becomes one range, its partitions become splits."""

    def __init__(self, reader: DataSourceStreamReader, name: str, *, bounded: bool) -> None:
        self._reader = reader
        self._name = name
        self._stops = bounded
        self._looked = False
        self._reached: str | None = None
        self._ranges: deque[KnownRange] = deque()
        self._first = 0
        self._next = 0
        # Before Spark 4.2 latestOffset took no arguments, and such sources still exist.
        self._takes_limit = len(inspect.signature(reader.latestOffset).parameters) > 0

    @property
    def bounded(self) -> bool:
        return self._stops and self._looked

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        if self.bounded:
            return ()
        try:
            if self._stops and isinstance(self._reader, SupportsTriggerAvailableNow):
                self._reader.prepareForTriggerAvailableNow()
            start = self._reached
            if start is None:
                start = offset_text(self._reader.initialOffset(), "initialOffset")
            self._looked = True
            end = offset_text(self._latest(json.loads(start)), "latestOffset")
            self._reached = start
            if end == start:
                return ()
            count = len(self._reader.partitions(json.loads(start), json.loads(end)))
        except TidegateError:
            raise
        except Exception as error:
            raise failure(error, f"data source {self._name}", "while looking for new offsets on the driver") from error
        self._reached = end
        return self._remember(KnownRange(start, end, count))

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(KnownRanges(reached=self._reached, ranges=tuple(self._ranges), first=self._first))

    def forget(self, below: int) -> None:
        """Ranges are forgotten whole: one with an unread partition keeps all of its partitions."""
        while self._ranges and self._first + self._ranges[0].count <= below:
            self._first += self._ranges.popleft().count

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        if not state:
            return known
        stored = decoded(state, KnownRanges, f"the offsets of data source {self._name}")
        self._reached = stored.reached
        self._first = self._next = stored.first
        splits = tuple(split for known_range in stored.ranges for split in self._remember(known_range))
        if any(not self._first <= split.number < self._next for split in known):
            raise CorruptSnapshot(f"readers of {self._name} hold partitions that its offsets do not name")
        return splits

    def _latest(self, start: Offset) -> Offset:
        if not self._takes_limit:
            return self._reader.latestOffset()  # pyright: ignore[reportCallIssue]
        limit = ReadAllAvailable() if self._stops else self._reader.getDefaultReadLimit()
        return self._reader.latestOffset(start, limit)

    def _remember(self, known: KnownRange) -> tuple[Split, ...]:
        first = self._next
        self._next += known.count
        self._ranges.append(known)
        return tuple(
            Split(
                number=first + index,
                payload=msgspec.msgpack.encode(
                    PartitionSplit(start=known.start, end=known.end, index=index, count=known.count)
                ),
            )
            for index in range(known.count)
        )
