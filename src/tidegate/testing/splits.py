"""The driver's side of one source in a job that runs in one thread: what is left to read, and who was told."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.messages import AssignSplits
from tidegate.model.snapshot import SourceProgress, Split, SplitPosition


class SplitLedger:
    """``done`` and ``opened`` are as of the newest complete checkpoint."""

    def __init__(
        self, operator: OperatorId, splits: Iterable[Split], *, done: frozenset[int], opened: Iterable[SplitPosition]
    ) -> None:
        self._operator = operator
        self.done = done
        self._open = {position.split.number: position for position in opened}
        self.returning = deque(self._open.values())
        """Were being read when the checkpoint was taken: they go back first."""
        self._pending = deque(
            SplitPosition(split=split, position=None)
            for split in splits
            if split.number not in done and split.number not in self._open
        )
        self._sequences: dict[SlotIndex, int] = {}

    @property
    def opened(self) -> tuple[SplitPosition, ...]:
        return tuple(self._open.values())

    def next(self) -> tuple[SplitPosition, ...]:
        """One split that nobody has begun, or none."""
        return (self._pending.popleft(),) if self._pending else ()

    def assignment(
        self, attempt: Attempt, slot: SlotIndex, given: tuple[SplitPosition, ...], *, bounded: bool
    ) -> AssignSplits:
        sequence = self._sequences.get(slot, 0)
        self._sequences[slot] = sequence + 1
        unassigned = bool(self._pending or self.returning)
        return AssignSplits(
            attempt=attempt,
            operator=self._operator,
            subtask=slot,
            sequence=sequence,
            splits=given,
            unassigned=unassigned,
            no_more=bounded and not unassigned,
        )

    def fold(self, progress: SourceProgress) -> None:
        """What one subtask reported with a checkpoint that is complete."""
        self.done |= frozenset(progress.finished)
        self._open.update((position.split.number, position) for position in progress.open)
        self._open = {number: position for number, position in self._open.items() if number not in self.done}
