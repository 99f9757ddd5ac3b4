"""What readers and the client that fetches for them share: the rows of a partition that have come, and news about it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np
import polars as pl

from tidegate.connectors.kafka.selection import Place


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one partition, in order."""

    rows: pl.DataFrame
    offsets: np.ndarray

    def before(self, count: int) -> Chunk:
        return Chunk(self.rows.head(count), self.offsets[:count])

    def after(self, count: int) -> Chunk:
        return Chunk(self.rows.slice(count), self.offsets[count:])


NO_LOG = -3
"""As the end of a log: there is no such log any more."""
SILENT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What a broker has said, and when: nothing lies behind ``offset``, not even records of an open transaction."""

    offset: int
    at_s: float


@dataclass(slots=True)
class Feed:
    """What has been collected of one partition and not handed out."""

    place: Place
    chunks: deque[Chunk] = field(default_factory=deque)
    end: int = -1
    """The newest offset at which the partition was found to end: nothing that can be read lies before it but what was collected."""
    lost: str = ""
    """The position is not in the log any more: why."""
    log_end: LogEnd | None = None
    """What was said last. It may lie behind ``end``: something is there that cannot be read, or has not come."""
    trouble: str = ""
    """Why nobody says how far the log goes."""
    patience_s: float = SILENT_SECONDS
    """A broker that has said nothing for longer is silent."""

    def hand_out(self, rows_max: int) -> Chunk:
        """Of the first chunk at most so many rows. There is one."""
        chunk = self.chunks.popleft()
        if len(chunk.offsets) > rows_max:
            self.chunks.appendleft(chunk.after(rows_max))
            return chunk.before(rows_max)
        return chunk


AnyFeed = TypeVar("AnyFeed", bound=Feed)


class PartitionConsumer(Protocol, Generic[AnyFeed]):
    """Fetches partitions for the readers of one slot, whose thread alone uses it."""

    def add(self, place: Place, offset: int) -> AnyFeed:
        """Begins to fetch from ``offset``, ``EARLIEST`` allowed."""
        ...

    def seek(self, feed: AnyFeed, offset: int) -> None:
        """Throws away what was fetched and begins again from ``offset``."""
        ...

    def remove(self, feed: AnyFeed) -> None: ...

    def take(self, feed: AnyFeed, rows_max: int) -> Chunk | None:
        """What there is of this partition."""
        ...

    def commit(self, offsets: Iterable[tuple[Place, int]]) -> None:
        """For information only, without waiting. Nothing is ever read from there."""
        ...

    def close(self) -> None: ...
