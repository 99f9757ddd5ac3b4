"""What a source is told that tells others how far the query has come: only what a complete checkpoint has."""

from __future__ import annotations

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import SplitPosition
from tidegate.ports.source import SourceConnector


class Informing:
    def __init__(self, source: SourceConnector) -> None:
        self._source = source
        self._ended: list[SplitPosition] = []
        self._reached: dict[CheckpointId, tuple[SplitPosition, ...]] = {}
        """What each checkpoint under way will tell the source when it is complete."""

    def ended(self, position: SplitPosition) -> None:
        self._ended.append(position)

    def reached(self, checkpoint: CheckpointId, open_splits: tuple[SplitPosition, ...]) -> None:
        self._reached[checkpoint] = (*self._ended, *open_splits)

    def completed(self, checkpoint: CheckpointId) -> None:
        positions = self._reached.get(checkpoint)
        self._reached = {number: at for number, at in self._reached.items() if number > checkpoint}
        if positions:
            # One that was open then and has ended since is still to be told.
            told = frozenset(positions)
            self._ended = [one for one in self._ended if one not in told]
            self._source.completed(positions)
