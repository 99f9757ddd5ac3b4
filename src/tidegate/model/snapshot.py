"""What a snapshot is made of once it is stored: handles, positions, committables. All of it ends in a manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple, TypeAlias

import msgspec

from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.errors import TidegateError
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex

INLINE_BYTES_MAX = 64 * 1024
"""State smaller than this travels in the acknowledgement and lives in the manifest: small files are slow everywhere."""


class KeyGroupRange(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Half-open range of key groups."""

    start: int
    stop: int

    def __contains__(self, group: int) -> bool:
        return self.start <= group < self.stop

    def intersect(self, other: KeyGroupRange) -> KeyGroupRange | None:
        start, stop = max(self.start, other.start), min(self.stop, other.stop)
        return KeyGroupRange(start, stop) if start < stop else None


class ChunkHandle(msgspec.Struct, frozen=True, kw_only=True):
    """Where an immutable chunk of keyed state lies. ``groups`` is the part of it that belongs to this reference."""

    name: str
    """``<operator>/<attempt>-<subtask>-<checkpoint>-<n>`` under ``state/``; unique, written once."""
    groups: KeyGroupRange
    rows: int
    size_bytes: int
    checksum: int
    """CRC-32 of the encoded bytes."""
    data: bytes | None = None
    """The encoded bytes themselves when the chunk is inlined (then no file exists)."""


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a source's input. ``number`` is dense per source and given once, by the enumerator, at discovery."""

    number: int
    payload: bytes
    """What the connector needs to open it; the connector's own msgspec document."""
    earliest_us: int | None = None
    """No row of it has an earlier event time. None: nobody knows before it is read."""
    cut: bool = False
    """A cohort ends before it: what the user allows to be read at once is reached."""


class SplitPosition(msgspec.Struct, frozen=True, kw_only=True):
    """Position after the last *emitted* record of an open split, never of the last fetched one."""

    split: Split
    position: bytes | None
    """The connector's own msgspec document; None: from the beginning."""
    largest_us: int = WATERMARK_MIN_US
    """Largest event time of the rows before the position."""


class FinishedSplit(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A split that has been read to its end."""

    number: int
    largest_us: int = WATERMARK_MIN_US
    """Largest event time of its rows."""


class SourceProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What one source subtask had read at the barrier."""

    open: tuple[SplitPosition, ...] = ()
    finished: tuple[FinishedSplit, ...] = ()
    """Splits finished since the last checkpoint known to be complete (repeating some is harmless)."""


class Committable(msgspec.Struct, frozen=True, kw_only=True):
    """Output that is durable but not visible. Kept in every manifest until its commit is confirmed."""

    checkpoint: CheckpointId
    subtask: SlotIndex
    number: int
    payload: bytes
    """The sink's own msgspec document; committing it twice, or late, changes nothing."""

    @property
    def place(self) -> tuple[CheckpointId, SlotIndex, int]:
        """Its place among those of a sink: commits go by it. No two have the same."""
        return self.checkpoint, self.subtask, self.number


CommittablesBySink: TypeAlias = tuple[tuple[OperatorId, tuple[Committable, ...]], ...]
"""Sorted by sink; of each sink in checkpoint order."""


class HandedBack(NamedTuple):
    """What a sink could not make visible yet. Everything else that it was asked for is visible."""

    committables: tuple[Committable, ...]
    trouble: TidegateError
    """Why: what the sink would have raised, had it done nothing."""


def by_checkpoint(committables: Iterable[Committable]) -> Iterator[tuple[CheckpointId, list[Committable]]]:
    """Those of each checkpoint, all of it in the order of commits."""
    ordered = sorted(committables, key=lambda one: one.place)
    return ((checkpoint, list(group)) for checkpoint, group in groupby(ordered, key=lambda one: one.checkpoint))


class Published(NamedTuple):
    """What one attempt prepared for one checkpoint. Ordered as published: a later attempt goes on where an earlier one was."""

    attempt: Attempt
    """0: the target remembers numbers of checkpoints only."""
    checkpoint: CheckpointId
    """0: the target remembers attempts only."""

    def __str__(self) -> str:
        if not self.attempt:
            return f"checkpoint {self.checkpoint}"
        return (
            f"checkpoint {self.checkpoint} of attempt {self.attempt}" if self.checkpoint else f"attempt {self.attempt}"
        )


NOTHING_PUBLISHED = Published(Attempt(0), CheckpointId(0))
"""What a target says that has nothing of this pipeline and would remember it for ever."""


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """Rows an unaligned barrier overtook, waiting in one input channel; read again before anything else after a restore."""

    edge: int
    """Number of the edge in the graph."""
    source: SlotIndex
    """The subtask that had sent them."""
    chunk: ChunkHandle


class OperatorSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One operator of one subtask at the barrier."""

    operator: OperatorId
    subtask: SlotIndex
    chunks: tuple[ChunkHandle, ...] = ()
    """Keyed state, oldest first: a later chunk overrides an earlier one key by key."""
    value: bytes = b""
    """Small state that is not keyed (watermarks, for instance); after a rescale every new subtask sees all of them."""
    source: SourceProgress | None = None
    committables: tuple[Committable, ...] = ()
    in_flight: tuple[InFlight, ...] = ()
    """Only in the entry of a stage itself, and only of an unaligned checkpoint; in channel order."""


class PhaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long the phases of one subtask's snapshot took, by its own monotonic clock."""

    start_delay_ms: float = 0.0
    alignment_ms: float = 0.0
    sync_ms: float = 0.0
    async_ms: float = 0.0
    uploaded_bytes: int = 0
    """Written by this checkpoint (incremental)."""
    state_bytes: int = 0
    """All the snapshot refers to."""
    in_flight_bytes: int = 0
    """Of it, rows that an unaligned barrier overtook."""
    unaligned: bool = False
