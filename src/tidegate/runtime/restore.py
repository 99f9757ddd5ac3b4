"""From the snapshots of all old subtasks to what one new subtask gets back. The number of subtasks may have changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
import polars as pl

from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import OperatorId, SlotIndex
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange, OperatorSnapshot
from tidegate.operators.protocol import Restored, RestoredChunk
from tidegate.plan.graph import JobGraph

LoadChunk: TypeAlias = Callable[[ChunkHandle], pl.DataFrame]

KEY_GROUP_COLUMN = "kg"
"""Column of a stored chunk that holds the key group of each row."""


def check_complete(graph: JobGraph, snapshots: tuple[OperatorSnapshot, ...]) -> None:
    """A checkpoint without an entry for a stateful operator is not taken for an empty one."""
    if not snapshots:
        return
    missing = sorted(set(graph.stateful_ids()) - {snapshot.operator for snapshot in snapshots})
    if missing:
        raise CorruptSnapshot(
            f"the checkpoint holds no state of {', '.join(missing)}",
            hint="the query changed, or the manifest is damaged: start the query it was written by, or use a new location",
        )


def restored_for(
    operator: OperatorId,
    snapshots: tuple[OperatorSnapshot, ...],
    *,
    subtask: SlotIndex,
    parallelism: int,
    groups: KeyGroupRange,
    load: LoadChunk,
) -> Restored:
    """The part of ``operator``'s old state that ``subtask`` carries on.

    Keyed state by key group, cut out of larger chunks where ranges moved; committables dealt out, each to exactly one owner;
    values and source progress of all old subtasks to every new one.
    """
    own = sorted((s for s in snapshots if s.operator == operator), key=lambda s: s.subtask)
    chunks = [
        chunk for snapshot in own for handle in snapshot.chunks if (chunk := _cut(handle, groups, load)) is not None
    ]
    return Restored(
        chunks=tuple(chunks),
        values=tuple(snapshot.value for snapshot in own if snapshot.value),
        sources=tuple(snapshot.source for snapshot in own if snapshot.source is not None),
        committables=tuple(c for s in own for c in s.committables if c.subtask % parallelism == subtask),
    )


def _cut(handle: ChunkHandle, groups: KeyGroupRange, load: LoadChunk) -> RestoredChunk | None:
    part = handle.groups.intersect(groups)
    if part is None:
        return None
    rows = load(handle)
    if KEY_GROUP_COLUMN in rows.columns:
        # Compared with the rows, not with the handle: an earlier rescale may have left a reference to part of a chunk.
        rows = rows.filter(pl.col(KEY_GROUP_COLUMN).is_between(part.start, part.stop - 1))
    return RestoredChunk(msgspec.structs.replace(handle, groups=part), rows)
