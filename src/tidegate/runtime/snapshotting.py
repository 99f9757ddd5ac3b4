"""A subtask's part in a checkpoint: from the complete cut to the acknowledgement.

Order at the barrier: operators hand out their state by reference, the barrier goes to *every* output channel before anything
else does, then a ``Persist`` leaves for the background. Processing goes on at once; the answer arrives as ``stored``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.model.elements import Barrier
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex, SubtaskId
from tidegate.model.messages import SubtaskAcked, SubtaskDeclined, TriggerCheckpoint
from tidegate.model.snapshot import OperatorSnapshot, PhaseTimes
from tidegate.operators.protocol import OperatorState
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Scan
from tidegate.runtime.chain import Chain
from tidegate.runtime.effects import Persist, Tell
from tidegate.runtime.outputs import Outputs


@dataclass(frozen=True, slots=True)
class _Storing:
    start_delay_ms: float
    alignment_ms: float
    sync_ms: float
    unaligned: bool


class Snapshots:
    """The snapshots of one subtask that are on their way to storage."""

    def __init__(
        self, subtask: SubtaskId, attempt: Attempt, chain: Chain, outputs: Outputs, clock: Callable[[], float] | None
    ) -> None:
        self._subtask = subtask
        self._attempt = attempt
        self._chain = chain
        self._outputs = outputs
        self._clock = clock
        self._storing: dict[CheckpointId, _Storing] = {}
        self.syncing: CheckpointId | None = None
        """The checkpoint whose synchronous phase runs right now; another thread may look at it."""

    def take(
        self,
        barrier: Barrier,
        extra: tuple[tuple[OperatorId, OperatorState], ...],
        *,
        since_ms: float,
        start_delay_ms: float,
        alignment_ms: float,
    ) -> Persist:
        """The cut is complete and nothing is half done. ``extra``: state of the subtask itself; ``since_ms``: when it first heard
        of the checkpoint."""
        began_ms = self._clock() if self._clock is not None else 0.0
        self.syncing = barrier.checkpoint
        states = (*self._chain.snapshot(barrier.checkpoint), *extra)
        self.syncing = None
        self._outputs.send_barrier(barrier, since_ms)
        sync_ms = self._clock() - began_ms if self._clock is not None else 0.0
        self._storing[barrier.checkpoint] = _Storing(start_delay_ms, alignment_ms, sync_ms, barrier.unaligned)
        return Persist(self._subtask, barrier.checkpoint, states, start_delay_ms, alignment_ms)

    def stored(
        self, checkpoint: CheckpointId, snapshots: tuple[OperatorSnapshot, ...], async_ms: float, uploaded_bytes: int
    ) -> Tell | None:
        """None: declined before, and nothing of it stands in the store."""
        phases = self._storing.pop(checkpoint, None)
        if phases is None:
            return self._too_late(checkpoint, _names(snapshots))
        self._chain.on_stored(checkpoint, snapshots)
        in_flight_bytes = sum(rows.chunk.size_bytes for snapshot in snapshots for rows in snapshot.in_flight)
        state_bytes = sum(chunk.size_bytes for snapshot in snapshots for chunk in snapshot.chunks)
        times = PhaseTimes(
            start_delay_ms=phases.start_delay_ms,
            alignment_ms=phases.alignment_ms,
            sync_ms=phases.sync_ms,
            async_ms=async_ms,
            uploaded_bytes=uploaded_bytes,
            state_bytes=state_bytes + in_flight_bytes,
            in_flight_bytes=in_flight_bytes,
            unaligned=phases.unaligned,
        )
        return Tell(
            SubtaskAcked(
                attempt=self._attempt,
                slot=self._subtask.index,
                subtask=self._subtask,
                checkpoint=checkpoint,
                snapshots=snapshots,
                times=times,
            )
        )

    def failed(self, checkpoint: CheckpointId, reason: str, chunks: tuple[str, ...]) -> Tell | None:
        """``chunks``: what may stand in the store. None: declined before, and nothing of it does."""
        if self._storing.pop(checkpoint, None) is None:
            return self._too_late(checkpoint, chunks)
        return decline(self._attempt, self._subtask, checkpoint, reason, counts=True, chunks=chunks)

    def _too_late(self, checkpoint: CheckpointId, chunks: tuple[str, ...]) -> Tell | None:
        """The checkpoint is lost already; whoever cleans up has to know what is lying about."""
        if not chunks:
            return None
        return decline(self._attempt, self._subtask, checkpoint, "stored too late", chunks=chunks)


def _names(snapshots: tuple[OperatorSnapshot, ...]) -> tuple[str, ...]:
    chunks = (chunk for one in snapshots for chunk in (*one.chunks, *(rows.chunk for rows in one.in_flight)))
    return tuple(chunk.name for chunk in chunks if chunk.data is None)


def decline(
    attempt: Attempt,
    subtask: SubtaskId,
    checkpoint: CheckpointId,
    reason: str,
    *,
    counts: bool = False,
    chunks: tuple[str, ...] = (),
) -> Tell:
    return Tell(
        SubtaskDeclined(
            attempt=attempt,
            slot=subtask.index,
            subtask=subtask,
            checkpoint=checkpoint,
            reason=reason,
            counts=counts,
            chunks=chunks,
        )
    )


def decline_unready(graph: JobGraph, slot: SlotIndex, trigger: TriggerCheckpoint) -> tuple[Tell, ...]:
    """The answer of a slot that is still restoring: every source subtask declines at once, so nobody waits for a timeout."""
    return tuple(
        decline(trigger.attempt, SubtaskId(stage.id, slot), trigger.checkpoint, "the subtask is still starting")
        for stage in graph.stages
        if isinstance(stage.nodes[0], Scan)
    )
