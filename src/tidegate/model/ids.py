"""Names of things. Each is a type of its own, so that swapping two of them is a type error."""

from __future__ import annotations

from typing import NewType

import msgspec

CheckpointId = NewType("CheckpointId", int)
"""Strictly increasing over the whole life of a pipeline, restarts included."""

BatchId = NewType("BatchId", int)
"""Number of a batch of one sink, as the user's function gets it: dense, other than the number of the checkpoint that made the batch."""

Attempt = NewType("Attempt", int)
"""One run of the barrier stage; dense, claimed in the checkpoint location, fences all earlier runs."""

PipelineId = NewType("PipelineId", str)
"""Random, chosen at the first start, stored in ``pipeline.json``."""

OperatorId = NewType("OperatorId", str)
"""What the operator is and what it reads or groups by, not where it stands: ``source-parquet_bids``, ``aggregate-auction``."""

StageId = NewType("StageId", int)
SlotIndex = NewType("SlotIndex", int)


class SubtaskId(msgspec.Struct, frozen=True, order=True, array_like=True):
    """One parallel instance of a stage. Subtask ``index`` of every stage lives in slot ``index``."""

    stage: StageId
    index: SlotIndex

    def __str__(self) -> str:
        return f"{self.stage}/{self.index}"


class ChannelId(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Ordered, bounded path from subtask ``source`` to subtask ``target`` over edge ``edge`` of the graph."""

    edge: int
    source: SlotIndex
    target: SlotIndex

    def __str__(self) -> str:
        return f"{self.edge}:{self.source}>{self.target}"
