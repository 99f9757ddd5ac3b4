"""What snapshots are made of."""

from __future__ import annotations

from tidegate.model.ids import CheckpointId, SlotIndex
from tidegate.model.snapshot import Committable, by_checkpoint


def committable(checkpoint: int, subtask: int, number: int) -> Committable:
    return Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(subtask), number=number, payload=b"")


def test_committables_are_grouped_and_ordered_as_they_are_committed() -> None:
    places = [(2, 0, 1), (1, 1, 0), (2, 0, 0), (1, 0, 0), (11, 0, 0)]
    grouped = by_checkpoint(committable(*place) for place in places)
    assert [(checkpoint, [one.place for one in group]) for checkpoint, group in grouped] == [
        (1, [(1, 0, 0), (1, 1, 0)]),
        (2, [(2, 0, 0), (2, 0, 1)]),
        (11, [(11, 0, 0)]),
    ]
    assert list(by_checkpoint(())) == []
