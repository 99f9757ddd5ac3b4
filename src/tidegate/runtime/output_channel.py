"""The writing end of a channel: credit, and a short queue of what waits for it.

Credit counts batches and bytes; only batches need it. What has to wait for credit waits in order, barriers included, and rows that
wait are put together: so batches are small while the stream is light and grow as soon as the reader falls behind.

A barrier that may not wait any longer takes the rows before it along, beyond the credit. The channel then counts as full until the
reader has caught up, so at most what was waiting at one barrier is ever sent in advance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import polars as pl

from tidegate.model.elements import Barrier, Batch, Element, Watermark
from tidegate.model.errors import SlotLost
from tidegate.model.ids import ChannelId, CheckpointId
from tidegate.runtime.waiting_rows import WaitingRows
from tidegate.runtime.window import ROWS_MIN, Window

Transmit: TypeAlias = Callable[[ChannelId, int, Element], None]

BATCH_BYTES_TARGET = 1024 * 1024
"""Waiting rows are put together up to this size, or up to the target in rows."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A batch sent and not yet consumed. Both ends measure differently, so credit returns as it was taken."""

    rows: int
    size_bytes: int
    rows_ahead: int
    sent_ms: float


class OutputChannel:
    """The writing end. ``put`` never refuses; a writer that sees ``full`` makes no more rows until it is not."""

    __slots__ = (
        "_batches_max",
        "_bytes_max",
        "_now",
        "_overdrawn",
        "_sequence",
        "_target_rows",
        "_transmit",
        "_under_way",
        "_under_way_bytes",
        "_under_way_rows",
        "_waiting",
        "_waiting_bytes",
        "_waiting_rows",
        "_window",
        "channel",
    )

    def __init__(
        self,
        channel: ChannelId,
        transmit: Transmit,
        *,
        batches_max: int,
        bytes_max: int,
        target_rows: int,
        time_max_ms: float = 0.0,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``now``: the slot's clock, in milliseconds; what is under way is bounded to ``time_max_ms`` of the reader's work."""
        self.channel = channel
        self._transmit = transmit
        self._batches_max = batches_max
        self._bytes_max = bytes_max
        self._target_rows = target_rows
        self._now = now
        self._window = Window(time_max_ms, batches_max * target_rows)
        self._sequence = 0
        self._under_way: deque[_UnderWay] = deque()
        self._under_way_rows = 0
        self._under_way_bytes = 0
        self._overdrawn = False
        """More is under way than credit allows."""
        self._waiting: deque[WaitingRows | Element] = deque()
        self._waiting_rows = 0
        self._waiting_bytes = 0

    @property
    def full(self) -> bool:
        return (
            self._overdrawn
            or self._waiting_rows >= min(self._target_rows, self._window.rows)
            or self._waiting_bytes >= BATCH_BYTES_TARGET
        )

    @property
    def rows_wanted(self) -> int:
        """More rows at once would take the reader longer than it should."""
        return max(ROWS_MIN, self._window.rows)

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
        if isinstance(element, Barrier) and element.unaligned:
            self.release(element.checkpoint)

    def waits_for(self, checkpoint: CheckpointId) -> bool:
        """Its barrier still stands behind rows that have no credit."""
        return any(isinstance(one, Barrier) and one.checkpoint == checkpoint for one in self._waiting)

    def release(self, checkpoint: CheckpointId) -> None:
        """The barrier leaves now, as one that overtakes at the other end, and all that waits before it leaves with it."""
        while self.waits_for(checkpoint):
            head = self._waiting.popleft()
            match head:
                case WaitingRows():
                    self._overdrawn = True
                    self._send_rows(head)
                case Barrier(checkpoint=number) if number == checkpoint:
                    self._send(replace(head, unaligned=True))
                case _:
                    self._send(head)
        self._pump()

    def grant(self, batches: int) -> None:
        """The reader consumed this many more batches."""
        if batches > len(self._under_way):
            raise SlotLost(
                f"channel {self.channel} was granted credit for {batches} batches, {len(self._under_way)} are under way"
            )
        for _ in range(batches):
            consumed = self._under_way.popleft()
            self._under_way_rows -= consumed.rows
            self._under_way_bytes -= consumed.size_bytes
            self._window.consumed(consumed.rows, consumed.rows_ahead, self._now() - consumed.sent_ms)
        if self._has_credit:
            self._overdrawn = False
        self._pump()

    def _put_rows(self, rows: pl.DataFrame) -> None:
        size_bytes = int(rows.estimated_size())
        self._waiting_rows += rows.height
        self._waiting_bytes += size_bytes
        group = self._open_group()
        if group is None:
            group = WaitingRows()
            self._waiting.append(group)
        group.add(rows, size_bytes)

    def _open_group(self) -> WaitingRows | None:
        """Waiting rows that new ones may join. They may step before a watermark (it only arrives later), never before a barrier."""
        waiting = self._waiting
        last = waiting[-1] if waiting else None
        if isinstance(last, Watermark) and len(waiting) > 1:
            last = waiting[-2]
        return last if isinstance(last, WaitingRows) and self._small(last) else None

    def _small(self, group: WaitingRows) -> bool:
        return group.rows < self._batch_rows and group.size_bytes < BATCH_BYTES_TARGET

    @property
    def _batch_rows(self) -> int:
        return min(self._target_rows, self._window.batch_rows)

    def _pump(self) -> None:
        waiting = self._waiting
        while waiting:
            head = waiting[0]
            if not isinstance(head, WaitingRows):
                waiting.popleft()
                self._send(head)
                continue
            if not self._has_credit or self._grows(head):
                return
            # Cut where the window asks for it, not for the few rows by which a group may grow beyond the target.
            rows = max(self._batch_rows, ROWS_MIN)
            if head.rows > 2 * rows:
                self._send_rows(head.cut(rows))
            else:
                waiting.popleft()
                self._send_rows(head)

    @property
    def _has_credit(self) -> bool:
        return (
            len(self._under_way) < self._batches_max
            and self._under_way_bytes < self._bytes_max
            and self._under_way_rows < self._window.rows
        )

    def _send_rows(self, head: WaitingRows) -> None:
        self._waiting_rows -= head.rows
        self._waiting_bytes -= head.size_bytes
        self._under_way.append(_UnderWay(head.rows, head.size_bytes, self._under_way_rows, self._now()))
        self._under_way_rows += head.rows
        self._under_way_bytes += head.size_bytes
        self._send(Batch(head.frame()))

    def _grows(self, head: WaitingRows) -> bool:
        """Credit is short and nothing urgent stands behind: better one larger batch a little later."""
        if len(self._under_way) * 2 < self._batches_max or head is not self._open_group():
            return False
        return self._small(head)

    def _send(self, element: Element) -> None:
        sequence = self._sequence
        self._sequence += 1
        self._transmit(self.channel, sequence, element)
