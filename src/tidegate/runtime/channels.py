"""Both ends of a channel: a queue where it is read, credit and a short queue where it is written.

Credit counts batches and bytes; only batches need it. What has to wait for credit waits in order, barriers included, and rows that
wait are put together: so batches are small while the stream is light and grow as soon as the reader falls behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import polars as pl

from tidegate.model.elements import Barrier, Batch, CancelCheckpoint, Element, Watermark
from tidegate.model.errors import SlotLost
from tidegate.model.ids import ChannelId

Transmit: TypeAlias = Callable[[ChannelId, int, Element], None]

BATCH_BYTES_TARGET = 1024 * 1024
"""Waiting rows are put together up to this size, or up to the target in rows."""


@dataclass(slots=True)
class _WaitingRows:
    frames: list[pl.DataFrame] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0

    def add(self, rows: pl.DataFrame, size_bytes: int) -> None:
        self.frames.append(rows)
        self.rows += rows.height
        self.size_bytes += size_bytes

    def frame(self) -> pl.DataFrame:
        return concatenate(self.frames)


def concatenate(frames: list[pl.DataFrame]) -> pl.DataFrame:
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical", rechunk=True)


class OutputChannel:
    """The writing end. ``put`` never refuses; a writer that sees ``full`` makes no more rows until it is not."""

    __slots__ = (
        "_batches_max",
        "_bytes_max",
        "_sequence",
        "_target_rows",
        "_transmit",
        "_under_way",
        "_under_way_bytes",
        "_waiting",
        "_waiting_bytes",
        "_waiting_rows",
        "channel",
    )

    def __init__(
        self, channel: ChannelId, transmit: Transmit, *, batches_max: int, bytes_max: int, target_rows: int
    ) -> None:
        self.channel = channel
        self._transmit = transmit
        self._batches_max = batches_max
        self._bytes_max = bytes_max
        self._target_rows = target_rows
        self._sequence = 0
        self._under_way: deque[int] = deque()
        """Size of each batch sent and not yet consumed. Both ends measure differently, so credit returns as it was taken."""
        self._under_way_bytes = 0
        self._waiting: deque[_WaitingRows | Element] = deque()
        self._waiting_rows = 0
        self._waiting_bytes = 0

    @property
    def full(self) -> bool:
        return self._waiting_rows >= self._target_rows or self._waiting_bytes >= BATCH_BYTES_TARGET

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def put(self, element: Element) -> None:
        match element:
            case Batch(rows=rows):
                self._put_rows(rows)
            case Watermark(at_us=at_us) if self._waiting and isinstance(last := self._waiting[-1], Watermark):
                self._waiting[-1] = Watermark(max(at_us, last.at_us))
            case _:
                self._waiting.append(element)
        self._pump()

    def grant(self, batches: int) -> None:
        """The reader consumed this many more batches."""
        if batches > len(self._under_way):
            raise SlotLost(
                f"channel {self.channel} was granted credit for {batches} batches, {len(self._under_way)} are under way"
            )
        for _ in range(batches):
            self._under_way_bytes -= self._under_way.popleft()
        self._pump()

    def _put_rows(self, rows: pl.DataFrame) -> None:
        size_bytes = int(rows.estimated_size())
        self._waiting_rows += rows.height
        self._waiting_bytes += size_bytes
        group = self._open_group()
        if group is None:
            group = _WaitingRows()
            self._waiting.append(group)
        group.add(rows, size_bytes)

    def _open_group(self) -> _WaitingRows | None:
        """Waiting rows that new ones may join. They may step before a watermark (it only arrives later), never before a barrier."""
        waiting = self._waiting
        last = waiting[-1] if waiting else None
        if isinstance(last, Watermark) and len(waiting) > 1:
            last = waiting[-2]
        if isinstance(last, _WaitingRows) and last.rows < self._target_rows and last.size_bytes < BATCH_BYTES_TARGET:
            return last
        return None

    def _pump(self) -> None:
        waiting = self._waiting
        while waiting:
            head = waiting[0]
            if not isinstance(head, _WaitingRows):
                waiting.popleft()
                self._send(head)
                continue
            if len(self._under_way) >= self._batches_max or self._under_way_bytes >= self._bytes_max:
                return
            if self._grows(head):
                return
            waiting.popleft()
            self._waiting_rows -= head.rows
            self._waiting_bytes -= head.size_bytes
            self._under_way.append(head.size_bytes)
            self._under_way_bytes += head.size_bytes
            self._send(Batch(head.frame()))

    def _grows(self, head: _WaitingRows) -> bool:
        """Credit is short and nothing urgent stands behind: better one larger batch a little later."""
        if len(self._under_way) * 2 < self._batches_max or head is not self._open_group():
            return False
        return head.rows < self._target_rows and head.size_bytes < BATCH_BYTES_TARGET

    def _send(self, element: Element) -> None:
        sequence = self._sequence
        self._sequence += 1
        self._transmit(self.channel, sequence, element)


@dataclass(frozen=True, slots=True)
class Taken:
    """An element read, and the credit its batches give back."""

    element: Element
    batches: int = 0
    size_bytes: int = 0


class InputChannel:
    """The reading end: what arrived, in order, checked for gaps. Credit bounds its length."""

    __slots__ = ("_expected", "_queue", "batches", "channel")

    def __init__(self, channel: ChannelId) -> None:
        self.channel = channel
        self._queue: deque[Element] = deque()
        self._expected = 0
        self.batches = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def makes_rows(self) -> bool:
        """The next element may lead to output that needs room: all but barriers and their cancellation."""
        return not isinstance(self._queue[0], Barrier | CancelCheckpoint)

    def push(self, sequence: int, element: Element) -> None:
        if sequence != self._expected:
            raise SlotLost(
                f"channel {self.channel} brought element {sequence} where {self._expected} was expected",
                hint="frames were lost or doubled between two slots; the attempt restarts from the last checkpoint",
            )
        self._expected += 1
        self._queue.append(element)
        if isinstance(element, Batch):
            self.batches += 1

    def take(self, rows_max: int) -> Taken:
        """The next element. Batches that follow each other are read as one, up to ``rows_max`` rows.

        Watermarks between them wait until the last of the batches: later is always safe.
        """
        first = self._queue.popleft()
        if not isinstance(first, Batch):
            return Taken(first)
        frames, rows, size_bytes = [first.rows], first.rows.height, first.rows.estimated_size()
        watermark: Watermark | None = None
        while self._queue:
            element = self._queue[0]
            if isinstance(element, Watermark):
                watermark = element
            elif isinstance(element, Batch) and rows + element.rows.height <= rows_max:
                frames.append(element.rows)
                rows += element.rows.height
                size_bytes += element.rows.estimated_size()
            else:
                break
            self._queue.popleft()
        if watermark is not None:
            self._queue.appendleft(watermark)
        self.batches -= len(frames)
        return Taken(Batch(concatenate(frames)), len(frames), int(size_bytes))
