"""Numbers of batches: of what a function or a data source of the user gets in one call. From 0, one by one, each for the same rows for ever."""

from __future__ import annotations

import msgspec

from tidegate.model.errors import Bug
from tidegate.model.ids import BatchId, CheckpointId, OperatorId

FIRST_BATCH = BatchId(0)


class BatchIds(msgspec.Struct, frozen=True, array_like=True):
    """Of one sink."""

    sink: OperatorId
    following: BatchId
    """What the next batch gets."""
    given: tuple[tuple[CheckpointId, BatchId], ...] = ()
    """By the checkpoint that prepared the rows, in order; of those only whose output the manifest carries."""

    def __post_init__(self) -> None:
        ids = [batch for _, batch in self.given]
        rising = [*ids, self.following]
        if rising != sorted(set(rising)) or [one for one, _ in self.given] != sorted({one for one, _ in self.given}):
            raise ValueError(f"batches of {self.sink} are not in order: {self.given}, then {self.following}")

    def of(self, checkpoint: CheckpointId) -> BatchId:
        """What the output of this checkpoint has got."""
        for known, batch in self.given:
            if known == checkpoint:
                return batch
        raise Bug(f"the output of checkpoint {checkpoint} has no batch id in sink {self.sink}")


class Numbering(msgspec.Struct, frozen=True, kw_only=True):
    """Of all sinks of a pipeline, sorted."""

    sinks: tuple[BatchIds, ...] = ()
    floor: BatchId = FIRST_BATCH
    """Where a sink begins that is not named."""

    def __post_init__(self) -> None:
        names = [one.sink for one in self.sinks]
        if names != sorted(set(names)):
            raise ValueError("batch ids are not sorted by sink or not unique")

    def of(self, sink: OperatorId) -> BatchIds:
        return next((one for one in self.sinks if one.sink == sink), BatchIds(sink, self.floor))
