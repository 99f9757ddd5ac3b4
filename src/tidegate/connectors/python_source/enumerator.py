"""Driver side of a user's streaming data source: asks for new offsets and plans their partitions."""

from __future__ import annotations

import inspect
import json
from collections import deque

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

from tidegate.connectors.python_source.splits import Offset, PartitionSplit, offset_text
from tidegate.model.errors import CorruptSnapshot, TidegateError
from tidegate.model.snapshot import Split
from tidegate.operators.user_functions import failure
from tidegate.operators.values import Natural, decoded
from tidegate.ports.source import SplitEnumerator

RANGES_PER_LOOK = 100


class KnownRange(msgspec.Struct, frozen=True, array_like=True):
    """Offsets that were planned together into ``count`` splits."""

    start: str
    end: str
    count: Natural


class KnownRanges(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="ranges/1"):
    """The ranges that are not known to be done, in order; split numbers follow from ``first`` and the counts."""

    reached: str | None
    ranges: tuple[KnownRange, ...] = ()
    first: Natural = 0
    """Number of the first split of the first range: the splits before it are done and forgotten."""


class RangeEnumerator(SplitEnumerator):
    """Every discovery that finds a later offset becomes one range, its partitions become splits."""

    holds = True

    def __init__(self, reader: DataSourceStreamReader, name: str, *, bounded: bool, asked: str = "") -> None:
        self.asked = asked
        """``initialOffset`` may answer by the time, or by what is there."""
        self._reader = reader
        self._name = name
        self._stops = bounded
        self._several = bounded and isinstance(reader, SupportsTriggerAvailableNow)
        """A bounded run plans one range after the other, as large as the source's own limit allows, up to the end that it has noted."""
        self._prepared = False
        self._ended = False
        self._reached: str | None = None
        self._ranges: deque[KnownRange] = deque()
        self._first = 0
        self._next = 0
        # Before Spark 4.2 latestOffset took no arguments, and such sources still exist.
        self._takes_limit = len(inspect.signature(reader.latestOffset).parameters) > 0

    @property
    def bounded(self) -> bool:
        return self._ended

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        if self._ended:
            return ()
        try:
            ranges = self._plan()
        except TidegateError:
            raise
        except Exception as error:
            raise failure(error, f"data source {self._name}", "while looking for new offsets on the driver") from error
        return tuple(split for one in ranges for split in self._remember(one))

    def begin(self, now_ms: int) -> bytes:
        """The offset alone: what is planned from there on may change with the user's code until a checkpoint knows it."""
        try:
            reached = self._initial()
        except TidegateError:
            raise
        except Exception as error:
            raise failure(error, f"data source {self._name}", "in initialOffset() on the driver") from error
        return msgspec.msgpack.encode(KnownRanges(reached=reached))

    def _initial(self) -> str:
        return offset_text(self._reader.initialOffset(), "initialOffset")

    def _plan(self) -> list[KnownRange]:
        """One range, or all up to the end of a bounded run if the source knows that end. Nothing is taken up if one of them fails."""
        if self._several and not self._prepared:
            assert isinstance(self._reader, SupportsTriggerAvailableNow)
            self._reader.prepareForTriggerAvailableNow()
            self._prepared = True
        reached = self._reached
        if reached is None:
            reached = self._initial()
        ranges: list[KnownRange] = []
        ended = self._stops and not self._several
        for _ in range(RANGES_PER_LOOK if self._several else 1):
            end = offset_text(self._latest(json.loads(reached)), "latestOffset")
            if end == reached:
                ended = self._stops
                break
            ranges.append(KnownRange(reached, end, len(self._reader.partitions(json.loads(reached), json.loads(end)))))
            reached = end
        self._reached, self._ended = reached, ended
        return ranges

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(KnownRanges(reached=self._reached, ranges=tuple(self._ranges), first=self._first))

    def forget(self, below: int) -> None:
        """Ranges are forgotten whole: one with an unread partition keeps all of its partitions. The source hears up to where all is
        done, as Spark tells it after a batch."""
        done: KnownRange | None = None
        while self._ranges and self._first + self._ranges[0].count <= below:
            done = self._ranges.popleft()
            self._first += done.count
        if done is None:
            return
        try:
            self._reader.commit(json.loads(done.end))
        except Exception as error:
            raise failure(error, f"data source {self._name}", f"in commit({done.end}) on the driver") from error

    def close(self) -> None:
        try:
            self._reader.stop()
        except Exception as error:
            raise failure(error, f"data source {self._name}", "in stop() on the driver") from error

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
        limit = ReadAllAvailable() if self._stops and not self._several else self._reader.getDefaultReadLimit()
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
                # What was planned together is read as one, as a batch of Structured Streaming is.
                cut=index == 0,
            )
            for index in range(known.count)
        )
