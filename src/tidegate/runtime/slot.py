"""The loop of one slot: events in, effects out. No socket, no disk, no thread, and no clock but the one it is handed."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tidegate.model.config import QueryConfig
from tidegate.model.elements import Element
from tidegate.model.ids import Attempt, ChannelId, CheckpointId, SlotIndex, SubtaskId
from tidegate.model.messages import SlotMessage, SlotProgress
from tidegate.model.snapshot import ChunkHandle, OperatorSnapshot
from tidegate.operators.ports import Connectors
from tidegate.plan.graph import JobGraph
from tidegate.runtime.effects import SlotEffect


class SlotRuntime:
    """Runs one subtask of every stage. Times are milliseconds of any monotonic clock, always the same one.

    The signature below is settled; the body is being written. Protocol of the shell:

    * construct when StartSubtasks arrived (before that, answer triggers with ``snapshotting.decline``), then loop:
      ``deliver``/``credit``/``control``/``stored``/``persist_failed`` what came in, ``turn(now)``, perform the effects in order;
    * while ``has_work`` call ``turn`` again without waiting; otherwise wait for an event, at most until ``next_wakeup_ms``;
    * ``Tell(SlotReady)`` is among the effects of the first turn; ``Leave`` is the last effect ever;
    * an exception out of any method ends the attempt: TidegateError carries ``operator`` and ``position`` for SlotFailed;
    * ``close()`` releases readers and writers, always.
    """

    def __init__(
        self,
        graph: JobGraph,
        slot: SlotIndex,
        attempt: Attempt,
        config: QueryConfig,
        connectors: Connectors,
        restored: tuple[OperatorSnapshot, ...] = (),
        chunks: Callable[[ChunkHandle], pl.DataFrame] | None = None,
        now_ms: float = 0.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """``restored``: all snapshots of all subtasks. ``chunks`` decodes a stored chunk (whole file; the runtime cuts it to
        key groups itself). ``clock`` returns milliseconds and only measures work (busy time, batch bounds); None: not measured."""
        raise NotImplementedError

    def deliver(self, channel: ChannelId, sequence: int, element: Element) -> None: ...

    def credit(self, channel: ChannelId, batches: int, size_bytes: int) -> None: ...

    def control(self, message: SlotMessage, now_ms: float) -> None: ...

    def stored(
        self,
        checkpoint: CheckpointId,
        subtask: SubtaskId,
        snapshots: tuple[OperatorSnapshot, ...],
        *,
        async_ms: float = 0.0,
        uploaded_bytes: int = 0,
    ) -> None: ...

    def persist_failed(self, checkpoint: CheckpointId, subtask: SubtaskId, reason: str) -> None: ...

    def turn(self, now_ms: float) -> tuple[SlotEffect, ...]: ...

    @property
    def has_work(self) -> bool: ...

    @property
    def next_wakeup_ms(self) -> float | None: ...

    def progress(self) -> SlotProgress: ...

    def close(self) -> None: ...
