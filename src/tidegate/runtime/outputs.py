"""All output channels of a subtask: rows are routed, everything else goes to every channel at one position."""

from __future__ import annotations

from tidegate.model.elements import (
    WATERMARK_MIN_US,
    Barrier,
    Batch,
    CancelCheckpoint,
    EndOfData,
    Idle,
    Output,
    Watermark,
)
from tidegate.model.ids import CheckpointId
from tidegate.runtime.output_channel import OutputChannel
from tidegate.runtime.overtaking import may_overtake
from tidegate.runtime.routing import Router


class Outputs:
    """A subtask's way out. Never refuses; ``full`` says that no more rows should be made for now."""

    def __init__(
        self, edges: tuple[tuple[Router, tuple[OutputChannel, ...]], ...], *, overtake_after_ms: float = float("inf")
    ) -> None:
        self._edges = edges
        self._overtake_after_ms = overtake_after_ms
        self._patience: dict[CheckpointId, float] = {}
        """Until when barriers that still stand behind rows may do so."""
        self.channels = tuple(channel for _, channels in edges for channel in channels)
        self.watermark_us = WATERMARK_MIN_US
        self._idle: Idle | None = None

    @property
    def full(self) -> bool:
        return any(channel.full for channel in self.channels)

    @property
    def rows_wanted(self) -> int | None:
        """How many rows to make at once, for the slowest reader; None: as many as one likes."""
        return min((channel.rows_wanted for channel in self.channels), default=None)

    def emit(self, output: Output) -> None:
        match output:
            case Batch(rows=rows):
                if not rows.height:
                    return
                self.wake()
                for router, channels in self._edges:
                    for index, piece in router.route(rows):
                        channels[index].put(Batch(piece))
            case Watermark(at_us=at_us) if at_us > self.watermark_us:
                if self._idle is not None and not self._idle.for_good:
                    self._idle = None
                self.watermark_us = at_us
                self.broadcast(output)
            case Watermark():
                pass  # Repeated: everyone downstream knows.

    def go_idle(self, how: Idle) -> None:
        if self._idle != how:
            self._idle = how
            self.broadcast(how)

    def wake(self) -> None:
        """Rows may follow: no reader may go on without this subtask's watermark, not even one that gets none of the rows."""
        if self._idle is not None and not self._idle.for_good:
            self._idle = None
            self.broadcast(Watermark(self.watermark_us))

    def send_barrier(self, barrier: Barrier, since_ms: float) -> None:
        """Into every channel before anything else. ``since_ms``: when this subtask first heard of the checkpoint."""
        self.broadcast(barrier)
        impatient = may_overtake(barrier) and not barrier.unaligned and self._overtake_after_ms != float("inf")
        if impatient and any(channel.waits_for(barrier.checkpoint) for channel in self.channels):
            self._patience[barrier.checkpoint] = since_ms + self._overtake_after_ms

    def overtake(self, now_ms: float) -> None:
        """Barriers that have waited too long for credit leave without."""
        for checkpoint in [one for one, until_ms in self._patience.items() if now_ms >= until_ms]:
            del self._patience[checkpoint]
            for channel in self.channels:
                channel.release(checkpoint)

    @property
    def next_overtake_ms(self) -> float:
        return min(self._patience.values(), default=float("inf"))

    def forget(self, checkpoint: CheckpointId) -> None:
        """The checkpoint was given up: its barriers may wait."""
        self._patience.pop(checkpoint, None)

    def broadcast(self, element: Watermark | Idle | Barrier | CancelCheckpoint | EndOfData) -> None:
        for channel in self.channels:
            channel.put(element)
