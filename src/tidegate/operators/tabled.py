"""Base of operators whose state is one table: its snapshots come and go without them."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle
from tidegate.operators.protocol import Operator


class Table(Protocol):
    """State that is captured bit by bit behind a barrier and stored as increments."""

    def capture(self) -> None: ...

    def abandon_capture(self, checkpoint: CheckpointId) -> None: ...

    def on_stored(self, checkpoint: CheckpointId, handles: tuple[ChunkHandle, ...]) -> None: ...

    def on_completed(self, checkpoint: CheckpointId) -> None: ...


T = TypeVar("T", bound=Table)


class Tabled(Operator, Generic[T]):
    """``_table`` is set by the operator, which takes the snapshots itself."""

    _table: T

    def capture(self) -> None:
        self._table.capture()

    def abandon_capture(self, checkpoint: CheckpointId) -> None:
        self._table.abandon_capture(checkpoint)

    def on_stored(self, checkpoint: CheckpointId, handles: tuple[ChunkHandle, ...]) -> None:
        self._table.on_stored(checkpoint, handles)

    def on_completed(self, checkpoint: CheckpointId) -> None:
        self._table.on_completed(checkpoint)
