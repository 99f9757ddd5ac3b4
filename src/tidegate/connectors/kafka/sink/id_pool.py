"""Which transactional ids of a subtask are free. The number of a pool's ids follows the checkpoints that are under way at once."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from tidegate.model.ids import CheckpointId


@dataclass(frozen=True, slots=True)
class _Used:
    k: int
    checkpoint: CheckpointId
    """That it was prepared for, or after whose barrier its commit was known."""


class IdPool:
    """Numbers ``k`` of transactional ids. The lowest free one is taken.

    An id whose transaction was prepared is free again only when no recovery can want to commit that transaction any more.
    Its commit being known is not enough: the marker that says so may not be stored yet. But checkpoints whose barrier comes
    later do not carry it, and once one of those is committed, every recovery starts from it or a later one.
    """

    def __init__(self) -> None:
        self._free: list[int] = []
        self._size = 0
        self._prepared: list[_Used] = []
        self._committed: list[_Used] = []
        self._barrier = CheckpointId(0)

    @property
    def size(self) -> int:
        """Ids ever handed out."""
        return self._size

    def take(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._size += 1
        return self._size - 1

    def barrier(self, checkpoint: CheckpointId) -> None:
        """A checkpoint's snapshot is being taken, whether or not there is something to prepare."""
        self._barrier = max(self._barrier, checkpoint)

    def prepared(self, k: int, checkpoint: CheckpointId) -> None:
        self._prepared.append(_Used(k, checkpoint))

    def committed(self, checkpoint: CheckpointId) -> None:
        """All that was prepared up to this checkpoint is visible."""
        for used in self._committed:
            if used.checkpoint < checkpoint:
                heapq.heappush(self._free, used.k)
        self._committed = [used for used in self._committed if used.checkpoint >= checkpoint]
        self._committed += [_Used(used.k, self._barrier) for used in self._prepared if used.checkpoint <= checkpoint]
        self._prepared = [used for used in self._prepared if used.checkpoint > checkpoint]
