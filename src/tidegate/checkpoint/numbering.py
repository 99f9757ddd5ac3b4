"""Which batch of its sink the output of a checkpoint is. Decided when a manifest is built, and stored in it: every retry, restart and late
commit of the same output finds the same id.

An id is given to the output of one checkpoint of one attempt. Output that is carried, because its checkpoint failed, is a batch of
its own; a checkpoint without output takes no id. So an id can never be above the count of checkpoints: whatever may have been given
out beyond a checkpoint is bounded by the numbers of checkpoints that may have existed beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidegate.checkpoint.manifest import Manifest
from tidegate.model.batch_ids import BatchIds, Numbering
from tidegate.model.ids import BatchId, CheckpointId, OperatorId
from tidegate.model.snapshot import OperatorSnapshot

UNNUMBERED = Numbering()
"""Nothing has been given out."""


def numbering_of(manifest: Manifest) -> Numbering:
    """A document that does not say it was written when ids were numbers of checkpoints: they stay, and new ones lie above."""
    if manifest.numbering is not None:
        return manifest.numbering
    following = BatchId(manifest.checkpoint + 1)
    carried = _carried(manifest.operators)
    sinks = tuple(
        BatchIds(sink, following, tuple((one, BatchId(one)) for one in sorted(carried[sink])))
        for sink in sorted(carried)
    )
    return Numbering(sinks=sinks, floor=following)


def extended(before: Numbering, snapshots: Iterable[OperatorSnapshot]) -> Numbering:
    """With ids for all that the snapshots carry and nobody has numbered. What they carry no longer is forgotten."""
    carried = _carried(snapshots)
    sinks = {one.sink for one in before.sinks} | carried.keys()
    ids = (_extended(before.of(sink), carried.get(sink, frozenset())) for sink in sorted(sinks))
    return Numbering(sinks=tuple(ids), floor=before.floor)


def above(before: Numbering, lost: int) -> Numbering:
    """Beyond whatever ``lost`` batches may have got of each sink."""
    if not lost:
        return before
    sinks = tuple(BatchIds(one.sink, BatchId(one.following + lost), one.given) for one in before.sinks)
    return Numbering(sinks=sinks, floor=BatchId(before.floor + lost))


def settled(manifest: Manifest) -> Numbering | None:
    """Of the same checkpoint once its output is visible."""
    if manifest.numbering is None:
        return None
    sinks = tuple(msgspec.structs.replace(one, given=()) for one in manifest.numbering.sinks)
    return Numbering(sinks=sinks, floor=manifest.numbering.floor)


def _extended(before: BatchIds, carried: frozenset[CheckpointId]) -> BatchIds:
    known = dict(before.given)
    given = {checkpoint: known[checkpoint] for checkpoint in carried if checkpoint in known}
    following = before.following
    for checkpoint in sorted(carried - known.keys()):
        given[checkpoint] = following
        following = BatchId(following + 1)
    return BatchIds(before.sink, following, tuple(sorted(given.items())))


def _carried(snapshots: Iterable[OperatorSnapshot]) -> dict[OperatorId, frozenset[CheckpointId]]:
    """By sink, the checkpoints whose output waits."""
    carried: dict[OperatorId, frozenset[CheckpointId]] = {}
    for one in snapshots:
        if one.committables:
            own = frozenset(committable.checkpoint for committable in one.committables)
            carried[one.operator] = carried.get(one.operator, frozenset()) | own
    return carried
