"""What readers and the thread that fetches for them share: the rows of a partition that have come, and news about it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidegate.connectors.kafka.protocol.metadata import Partition


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

    place: Partition
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
        """At most so many rows of the first chunk. There is one."""
        chunk = self.chunks.popleft()
        if len(chunk.offsets) > rows_max:
            self.chunks.appendleft(chunk.after(rows_max))
            return chunk.before(rows_max)
        return chunk
