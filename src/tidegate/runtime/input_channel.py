"""The reading end of a channel: what arrived, in order, until its subtask takes it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from tidegate.model.elements import Barrier, Batch, CancelCheckpoint, Element, Watermark
from tidegate.model.errors import SlotLost
from tidegate.model.ids import ChannelId, CheckpointId
from tidegate.runtime.waiting_rows import concatenate


@dataclass(frozen=True, slots=True)
class Taken:
    """An element read, and the credit of the batches that were read to their end."""

    element: Element
    batches: int = 0
    size_bytes: int = 0


class Watcher(Protocol):
    def arrived(self, channel: ChannelId, element: Batch | Barrier | CancelCheckpoint) -> None:
        """Put into the queue of ``channel`` just now."""
        ...


class InputChannel:
    """The reading end: what arrived, in order, checked for gaps. Credit bounds its length."""

    __slots__ = ("_cut_bytes", "_expected", "_queue", "batches", "channel", "watcher")

    def __init__(self, channel: ChannelId) -> None:
        self.channel = channel
        self._queue: deque[Element] = deque()
        self._expected = 0
        self._cut_bytes = 0
        """Of the batch at the head, taken already."""
        self.batches = 0
        self.watcher: Watcher | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def makes_rows(self) -> bool:
        """The next element may lead to output that needs room: all but barriers and their cancellation."""
        return not isinstance(self._queue[0], Barrier | CancelCheckpoint)

    @property
    def ready_rows(self) -> int:
        """Rows of the batch that is next; 0: something else is, or nothing."""
        head = self._queue[0] if self.batches and self._queue else None
        return head.rows.height if isinstance(head, Batch) else 0

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
        if self.watcher is not None and isinstance(element, Batch | Barrier | CancelCheckpoint):
            self.watcher.arrived(self.channel, element)

    def rows_before(self, checkpoint: CheckpointId) -> tuple[tuple[pl.DataFrame, ...], Barrier | None]:
        """Rows that wait before the first barrier of ``checkpoint`` or a newer one, and that barrier if it has arrived."""
        frames: list[pl.DataFrame] = []
        for element in self._queue:
            match element:
                case Batch(rows=rows):
                    frames.append(rows)
                case Barrier(checkpoint=number) if number >= checkpoint:
                    return tuple(frames), element
                case _:
                    pass
        return tuple(frames), None

    def take(self, rows_max: int) -> Taken:
        """The next element. Batches that follow each other are read as one, up to ``rows_max`` rows; a larger one is cut.

        What is left of a batch stays at the head of the queue, before any barrier behind it, and its credit stays with it.
        Watermarks between batches wait until the last of them: later is always safe.
        """
        first = self._queue.popleft()
        if not isinstance(first, Batch):
            return Taken(first)
        frames, rows = [first.rows], first.rows.height
        if rows > rows_max:
            return self._piece(first, rows_max)
        watermark: Watermark | None = None
        while self._queue:
            element = self._queue[0]
            if isinstance(element, Watermark):
                watermark = element
            elif isinstance(element, Batch) and rows + element.rows.height <= rows_max:
                frames.append(element.rows)
                rows += element.rows.height
            else:
                break
            self._queue.popleft()
        if watermark is not None:
            self._queue.appendleft(watermark)
        self.batches -= len(frames)
        size_bytes, self._cut_bytes = self._cut_bytes + sum(int(one.estimated_size()) for one in frames), 0
        return Taken(Batch(concatenate(frames)), len(frames), size_bytes)

    def _piece(self, whole: Batch, rows_max: int) -> Taken:
        """The first of as few pieces as possible, all about equally large."""
        height = whole.rows.height
        pieces = -(-height // rows_max)
        piece = whole.rows.head(-(-height // pieces))
        self._queue.appendleft(whole.with_rows(whole.rows.slice(piece.height)))
        self._cut_bytes += int(piece.estimated_size())
        return Taken(whole.with_rows(piece))
