"""What an operator is: the logic of one running subtask. Single-threaded, whole batches, no rows, no I/O of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.model.elements import Batch, Produced, SourceStatus
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import ChunkHandle, Committable, KeyGroupRange, SourceProgress
from tidegate.state.chunk import NewChunk, RestoredChunk
from tidegate.state.entries import EntryBackend
from tidegate.state.entries_in_memory import EntriesInMemory
from tidegate.state.table import CAPTURE_ROWS

NO_ATTEMPT = Attempt(0)


@dataclass(frozen=True, slots=True)
class OperatorState:
    """An operator at the barrier, by reference. Storing it happens later, so nothing in here may ever change."""

    chunks: tuple[ChunkHandle | NewChunk, ...] = ()
    """Oldest first. A ChunkHandle is a chunk stored by an earlier checkpoint that is known to be complete."""
    value: bytes = b""
    source: SourceProgress | None = None
    committables: tuple[Committable, ...] = ()
    settle: Callable[[], None] | None = None
    """Waits, off the loop, until what ``committables`` stand for is durable outside; until then the snapshot is not stored."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What an operator gets back. ``values`` and ``sources`` hold those of *all* old subtasks: after a rescale there may be more or fewer than now."""

    chunks: tuple[RestoredChunk, ...] = ()
    values: tuple[bytes, ...] = ()
    sources: tuple[SourceProgress, ...] = ()
    committables: tuple[Committable, ...] = ()
    """Only those this subtask has to carry on (dealt out so that each has exactly one owner)."""


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """Where an operator runs. ``groups``: the key groups of this subtask."""

    operator: OperatorId
    subtask: SlotIndex
    parallelism: int
    max_parallelism: int
    groups: KeyGroupRange
    restored: Restored = field(default_factory=Restored)
    attempt: Attempt = NO_ATTEMPT
    capture_rows: int = CAPTURE_ROWS
    """Rows of keyed state to walk over in one step of a capture."""
    entries: Callable[[], EntryBackend] = EntriesInMemory
    """A new, empty backend for point state."""
    complete_rows_max: int = 1_000_000
    """Most rows of a result that leaves whole, at every checkpoint."""


@dataclass(slots=True)
class OperatorCounters:
    """Counted by the operator, read by the loop for progress reports."""

    late_rows: int = 0
    """Rows dropped because the watermark had passed them, since the operator was new: it is part of the state, and as exact."""
    late_rows_restored: int = 0
    """Of them, those that came with the restored state."""
    state_rows: int = 0
    state_bytes: int = 0

    @classmethod
    def restored(cls, context: OperatorContext, late_rows: Iterable[int]) -> OperatorCounters:
        """``late_rows``: of all old subtasks. Their sum goes on in the first subtask, which there is at any parallelism."""
        before = sum(late_rows) if context.subtask == 0 else 0
        return cls(late_rows=before, late_rows_restored=before)


class Operator(ABC):
    """Base of all operators; its defaults are those of one without state. What yields rows is a generator: the loop may suspend between
    two outputs to let back-pressure work, never across a barrier. Processing times are milliseconds since the epoch."""

    flushes: bool = False
    """Rows leave at the barrier, before it: results that are whole only per checkpoint."""

    def __init__(self) -> None:
        self.counters = OperatorCounters()

    @abstractmethod
    def on_batch(self, batch: Batch) -> Iterator[Produced]: ...

    def on_watermark(self, watermark_us: int) -> Iterator[Produced]:
        """Rows the watermark releases; the loop forwards the watermark itself afterwards, as ``output_watermark`` says."""
        return iter(())

    def output_watermark(self, watermark_us: int) -> int | None:
        """What a watermark of the input promises about the output; None: this operator makes its own."""
        return watermark_us

    def on_status(self, status: SourceStatus) -> Iterator[Produced]:
        """The source of this chain opened or closed splits."""
        return iter(())

    @property
    def next_time_ms(self) -> float:
        """When ``on_time`` has something to do at the latest; infinity: never, as things stand."""
        return float("inf")

    def tell_time(self, now_ms: int) -> None:
        """What the clock shows. Comes before every other call; the operator reads no clock of its own."""

    def on_time(self, now_ms: int) -> Iterator[Produced]:
        """Rows that timers release: timers in processing time, and state that expires by it."""
        return iter(())

    def on_end(self) -> Iterator[Produced]:
        """All input has ended. Not a drain: windows close only by a watermark."""
        return iter(())

    def on_barrier(self, checkpoint: CheckpointId) -> Iterator[Produced]:
        """Runs when the barrier stands in every input and before the snapshot; may be suspended by back-pressure like any other."""
        return iter(())

    def snapshot(self, checkpoint: CheckpointId) -> OperatorState | None:
        """State at the barrier; None for stateless operators. Rows of a new chunk may follow, by ``capture``."""
        return None

    def capture(self) -> None:
        """Copy some more rows of the last snapshot, if some are missing: a millisecond or two of work."""

    def abandon_capture(self, checkpoint: CheckpointId) -> None:
        """Nobody wants the rest of this checkpoint's snapshot."""

    def on_stored(self, checkpoint: CheckpointId, handles: tuple[ChunkHandle, ...]) -> None:
        """The chunks of this checkpoint's snapshot lie at ``handles``; use them only once it is complete."""

    def on_completed(self, checkpoint: CheckpointId) -> None:
        """The checkpoint is complete: its manifest is stored."""

    def on_committed(self, checkpoint: CheckpointId) -> None:
        """The output of the checkpoint is visible."""

    def close(self) -> None:
        """The subtask is over."""
