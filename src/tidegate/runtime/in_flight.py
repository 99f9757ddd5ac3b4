"""Rows that a barrier had overtaken, back after a restore: each goes to the subtask that its channel would lead it to today."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import OperatorId, SlotIndex
from tidegate.model.snapshot import InFlight, OperatorSnapshot
from tidegate.plan.graph import Edge, Partitioning
from tidegate.runtime.effects import Overtaken
from tidegate.runtime.restore import LoadChunk
from tidegate.runtime.routing import router
from tidegate.runtime.stage_time import old_parallelism


@dataclass(slots=True)
class Restored:
    """Rows to be processed before anything new. What is left of them when a barrier overtakes them is part of that snapshot, too."""

    overtaken: list[Overtaken]

    def __bool__(self) -> bool:
        return bool(self.overtaken)

    def take(self, rows_max: int) -> tuple[int, pl.DataFrame]:
        """The number of an edge, and the next rows that came through it, in order."""
        head = self.overtaken[0]
        first = head.frames[0]
        left = (first.slice(rows_max), *head.frames[1:]) if first.height > rows_max else head.frames[1:]
        if left:
            self.overtaken[0] = Overtaken(head.edge, head.source, left)
        else:
            del self.overtaken[0]
        return head.edge, first.head(rows_max)


def restored_rows(
    state: OperatorId,
    edges: tuple[Edge, ...],
    snapshots: tuple[OperatorSnapshot, ...],
    *,
    subtask: SlotIndex,
    parallelism: int,
    max_parallelism: int,
    load: LoadChunk,
) -> Restored:
    """The part of ``subtask``, in channel order. ``state``: the stage's own entry; ``edges``: its inputs.

    With as many subtasks as before everyone gets its own rows back. Otherwise keyed rows go where their keys are now, rows of which any
    subtask may take care are dealt out, and of broadcast rows, which every subtask had its copy of, each takes one copy.
    """
    own = sorted((s for s in snapshots if s.operator == state and s.in_flight), key=lambda s: s.subtask)
    by_number = {edge.number: edge for edge in edges}
    kept: list[Overtaken] = []
    dealt = 0
    for snapshot in own:
        before = old_parallelism(snapshot)
        for rows in snapshot.in_flight:
            edge = by_number.get(rows.edge)
            if edge is None:
                raise _foreign(rows, state)
            dealt += 1
            match edge.partitioning:
                case _ if before == parallelism:
                    mine = snapshot.subtask == subtask
                case Partitioning.KEYED:
                    kept.extend(_own_keys(rows, edge, subtask, parallelism, max_parallelism, load))
                    continue
                case Partitioning.FORWARD | Partitioning.REBALANCE:
                    mine = dealt % parallelism == subtask
                case Partitioning.BROADCAST:
                    mine = snapshot.subtask == subtask % before
            if mine:
                kept.append(Overtaken(rows.edge, rows.source, (load(rows.chunk),)))
    return Restored(kept)


def _own_keys(
    rows: InFlight, edge: Edge, subtask: SlotIndex, parallelism: int, max_parallelism: int, load: LoadChunk
) -> Iterator[Overtaken]:
    for target, piece in router(edge, subtask, parallelism, max_parallelism).route(load(rows.chunk)):
        if target == subtask:
            yield Overtaken(rows.edge, rows.source, (piece,))


def _foreign(rows: InFlight, state: OperatorId) -> CorruptSnapshot:
    return CorruptSnapshot(
        f"the checkpoint holds rows in flight of edge {rows.edge}, which {state} does not read",
        hint="the query changed: start the query the checkpoint was written by, and take a savepoint to change it from",
    )
