"""From the acknowledgements of all subtasks to the manifest of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.checkpoint.layout import ManifestRef, chunk_key, chunk_origin
from tidegate.checkpoint.manifest import Manifest, Written
from tidegate.checkpoint.numbering import UNNUMBERED, extended
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.sources import SplitAssigner
from tidegate.model.batch_ids import Numbering
from tidegate.model.elements import CheckpointKind
from tidegate.model.messages import SubtaskAcked
from tidegate.model.snapshot import ChunkHandle, OperatorSnapshot


def _stored_chunks(acks: tuple[SubtaskAcked, ...]) -> Iterator[ChunkHandle]:
    """Of keyed state and of rows that an unaligned barrier overtook."""
    for ack in acks:
        for snapshot in ack.snapshots:
            yield from (chunk for chunk in snapshot.chunks if chunk.data is None)
            yield from (rows.chunk for rows in snapshot.in_flight if rows.chunk.data is None)


def named_chunks(acks: tuple[SubtaskAcked, ...]) -> frozenset[str]:
    """Keys of all stored chunks the snapshots refer to."""
    return frozenset(chunk_key(chunk.name) for chunk in _stored_chunks(acks))


def written_chunks(ref: ManifestRef, acks: tuple[SubtaskAcked, ...]) -> frozenset[str]:
    """Keys of the chunks that were written for this very checkpoint."""
    return chunks_of(ref, (chunk.name for chunk in _stored_chunks(acks)))


def chunks_of(ref: ManifestRef, names: Iterable[str]) -> frozenset[str]:
    """Keys of those chunks that were written for the checkpoint, by their names."""
    return frozenset(chunk_key(name) for name in names if chunk_origin(name) == ref)


def strangers(ref: ManifestRef, known: frozenset[str], acks: tuple[SubtaskAcked, ...]) -> frozenset[str]:
    """Chunks a checkpoint must not name: neither written for it nor part of a completed checkpoint it may build upon.

    Such a chunk belongs to a checkpoint that was never confirmed, or has left the state and may be deleted at any
    moment. A subtask that has not heard of the last completion can name one; the checkpoint is then given up.
    """
    return named_chunks(acks) - known - written_chunks(ref, acks)


def missing_operators(plan: CheckpointPlan, acks: tuple[SubtaskAcked, ...]) -> tuple[str, ...]:
    """Stateful operators without any entry: a manifest without them could never be restored."""
    present = {snapshot.operator for ack in acks for snapshot in ack.snapshots}
    return tuple(operator for operator in plan.stateful if operator not in present)


def assemble(
    plan: CheckpointPlan,
    ref: ManifestRef,
    kind: CheckpointKind,
    base: Manifest | None,
    acks: tuple[SubtaskAcked, ...],
    sources: tuple[SplitAssigner, ...],
    *,
    drained: bool = False,
    numbering: Numbering = UNNUMBERED,
) -> Manifest:
    """The manifest of a checkpoint that every subtask has acknowledged. ``numbering``: of all batches before."""
    snapshots = [snapshot for ack in acks for snapshot in ack.snapshots]
    return Manifest(
        pipeline=plan.pipeline,
        checkpoint=ref.checkpoint,
        attempt=ref.attempt,
        parent=(base.checkpoint, base.attempt) if base is not None else None,
        kind=kind,
        drained=drained,
        max_parallelism=plan.config.max_parallelism,
        parallelism=plan.parallelism,
        stateful=plan.stateful,
        shapes=plan.shapes,
        written=_written(ref, base, snapshots),
        numbering=extended(numbering, snapshots),
        operators=tuple(sorted((_entry(plan, ref, one) for one in snapshots), key=lambda e: (e.operator, e.subtask))),
        sources=tuple(
            assigner.fold(
                snapshot.source
                for snapshot in snapshots
                if snapshot.operator == assigner.operator and snapshot.source is not None
            )
            for assigner in sources
        ),
    )


def _written(ref: ManifestRef, base: Manifest | None, snapshots: list[OperatorSnapshot]) -> tuple[Written, ...]:
    """What every sink has prepared last: by now, or by the checkpoint before."""
    newest = {written.sink: written for written in base.written} if base is not None else {}
    since = base.checkpoint if base is not None else 0
    for snapshot in snapshots:
        for one in snapshot.committables:
            before = newest.get(snapshot.operator)
            if one.checkpoint > since and (before is None or before.published < (ref.attempt, one.checkpoint)):
                newest[snapshot.operator] = Written(snapshot.operator, ref.attempt, one.checkpoint)
    return tuple(sorted(newest.values()))


def _entry(plan: CheckpointPlan, ref: ManifestRef, snapshot: OperatorSnapshot) -> OperatorSnapshot:
    """The snapshot as it is stored: source progress is folded over all subtasks and stands in ``Manifest.sources``."""
    committables = snapshot.committables
    if not plan.rules.committables_are_state:
        committables = tuple(one for one in committables if one.checkpoint == ref.checkpoint)
    return OperatorSnapshot(
        operator=snapshot.operator,
        subtask=snapshot.subtask,
        chunks=snapshot.chunks,
        value=snapshot.value,
        committables=committables,
        in_flight=snapshot.in_flight,
    )
