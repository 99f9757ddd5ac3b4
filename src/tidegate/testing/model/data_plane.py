"""The slots of a small world: what a barrier leaves behind in them, what notices change, what a restore gives them.

Everything is abstract but the dealing out of old state to new subtasks, which is the real code.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from tidegate.checkpoint.layout import chunk_name
from tidegate.checkpoint.manifest import Manifest
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex, SubtaskId
from tidegate.model.messages import SubtaskAcked
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange, OperatorSnapshot, PhaseTimes, SourceProgress
from tidegate.runtime.restore import restored_for
from tidegate.testing.model.world import (
    COUNT,
    INPUT,
    ROWS,
    SINK,
    STAGE,
    Slot,
    Task,
    Transaction,
    committable_of,
    epoch_of,
    transaction_of,
)


def restored_slot(pipeline: int, attempt: Attempt, manifest: Manifest | None, parallelism: int) -> Slot:
    """As many subtasks as there are now; the real code deals out what the old ones left."""
    if manifest is None:
        return Slot(pipeline, attempt, 0, (Task(),) * parallelism)
    tasks: list[Task] = []
    for index in range(parallelism):
        mine = _groups(index, parallelism)
        restored = restored_for(
            SINK,
            manifest.operators,
            subtask=SlotIndex(index),
            parallelism=parallelism,
            groups=mine,
            load=_no_rows,
        )
        newest = [entry.chunks[-1] for entry in manifest.operators if entry.operator == COUNT]
        chunks = tuple(dict.fromkeys(one.name for one in newest if one.groups.intersect(mine) is not None))
        tasks.append(Task(tuple(transaction_of(one) for one in restored.committables), chunks))
    return Slot(pipeline, attempt, epoch_of(manifest), tuple(tasks))


def _no_rows(handle: ChunkHandle) -> NoReturn:
    raise AssertionError(f"sinks have no keyed state: {handle.name}")


def _groups(index: int, parallelism: int) -> KeyGroupRange:
    return KeyGroupRange(index * ROWS // parallelism, (index + 1) * ROWS // parallelism)


class Cut(NamedTuple):
    """What the barrier leaves behind."""

    slot: Slot
    prepared: tuple[Transaction, ...]
    chunks: tuple[str, ...]
    acks: tuple[SubtaskAcked, ...]


def barrier(slot: Slot, checkpoint: CheckpointId, *, quiet: bool) -> Cut:
    """The barrier passes: one epoch more is in the state, its output is prepared, every subtask uploads a chunk."""
    epoch = slot.epoch if quiet else slot.epoch + 1
    parts = len(slot.tasks)
    prepared: list[Transaction] = []
    tasks: list[Task] = []
    chunks: list[str] = []
    acks: list[SubtaskAcked] = []
    for index, task in enumerate(slot.tasks):
        chunk = chunk_name(COUNT, slot.attempt, SlotIndex(index), checkpoint, 0)
        own = () if quiet else (Transaction(slot.pipeline, slot.attempt, checkpoint, epoch, index, parts),)
        task = task._replace(carried=(*task.carried, *own), stored=(*task.stored, (checkpoint, chunk)))
        prepared.extend(own)
        tasks.append(task)
        chunks.append(chunk)
        acks.append(_acknowledge(slot.attempt, checkpoint, epoch, index, parts, task, chunk))
    after = slot._replace(epoch=epoch, tasks=tuple(tasks), passed=checkpoint)
    return Cut(after, tuple(prepared), tuple(chunks), tuple(acks))


def _acknowledge(
    attempt: Attempt, checkpoint: CheckpointId, epoch: int, index: int, parts: int, task: Task, chunk: str
) -> SubtaskAcked:
    """State is the chunks known to be stored and the new one: each chunk is shared by two checkpoints, then leaves."""
    groups = _groups(index, parts)
    handles = tuple(
        ChunkHandle(name=name, groups=groups, rows=1, size_bytes=1, checksum=0) for name in (*task.chunks, chunk)
    )
    subtask = SubtaskId(STAGE, SlotIndex(index))
    return SubtaskAcked(
        attempt=attempt,
        slot=subtask.index,
        subtask=subtask,
        checkpoint=checkpoint,
        snapshots=(
            OperatorSnapshot(operator=COUNT, subtask=subtask.index, chunks=handles, value=b"%d" % epoch),
            OperatorSnapshot(
                operator=SINK,
                subtask=subtask.index,
                committables=tuple(committable_of(transaction) for transaction in task.carried),
            ),
            OperatorSnapshot(operator=INPUT, subtask=subtask.index, source=SourceProgress()),
        ),
        times=PhaseTimes(),
    )


def completed(slot: Slot, checkpoint: CheckpointId) -> Slot:
    return slot._replace(tasks=tuple(_completed(task, checkpoint) for task in slot.tasks))


def _completed(task: Task, checkpoint: CheckpointId) -> Task:
    known = tuple(chunk for of, chunk in task.stored if of == checkpoint)
    if not known:
        return task
    return task._replace(chunks=known, stored=tuple(one for one in task.stored if one[0] > checkpoint))


def confirmed(slot: Slot, checkpoint: CheckpointId) -> Slot:
    return slot._replace(
        tasks=tuple(
            task._replace(carried=tuple(one for one in task.carried if one.checkpoint > checkpoint))
            for task in slot.tasks
        )
    )
