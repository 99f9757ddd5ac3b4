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
from tidegate.runtime.channels import OutputChannel
from tidegate.runtime.routing import Router


class Outputs:
    """A subtask's way out. Never refuses; ``full`` says that no more rows should be made for now."""

    def __init__(self, edges: tuple[tuple[Router, tuple[OutputChannel, ...]], ...]) -> None:
        self._edges = edges
        self.channels = tuple(channel for _, channels in edges for channel in channels)
        self.watermark_us = WATERMARK_MIN_US
        self._idle = False

    @property
    def full(self) -> bool:
        return any(channel.full for channel in self.channels)

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
                self._idle = False
                self.watermark_us = at_us
                self.broadcast(output)
            case Watermark():
                pass  # Repeated: everyone downstream knows.

    def go_idle(self) -> None:
        if not self._idle:
            self._idle = True
            self.broadcast(Idle())

    def wake(self) -> None:
        """Rows may follow: no reader may go on without this subtask's watermark, not even one that gets none of the rows."""
        if self._idle:
            self._idle = False
            self.broadcast(Watermark(self.watermark_us))

    def broadcast(self, element: Watermark | Idle | Barrier | CancelCheckpoint | EndOfData) -> None:
        for channel in self.channels:
            channel.put(element)
