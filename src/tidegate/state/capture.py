"""A snapshot of a table that is copied bit by bit while the table goes on changing.

At the barrier only two numbers are noted: the epochs whose changes the snapshot holds. Afterwards a cursor walks over the rows and copies those
last changed in these epochs. A row that is about to change, and that the cursor has not reached, is copied first; the change moves it to
a later epoch, so the cursor will pass it by. Every row is copied exactly once, as it was at the barrier.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidegate.model.ids import CheckpointId
from tidegate.state.chunk import NewChunk
from tidegate.state.columns import Mask, Rows


class Capture:
    """Rows below ``height`` that were alive at the barrier and changed last in the epochs ``(since, until]``."""

    __slots__ = ("_cursor", "_height", "_since", "_until", "buried", "checkpoint", "chunk", "pieces")

    def __init__(
        self,
        checkpoint: CheckpointId,
        since: int,
        until: int,
        height: int,
        chunk: NewChunk,
        buried: tuple[pl.DataFrame, ...],
    ) -> None:
        self.checkpoint = checkpoint
        self._since = since
        self._until = until
        self._height = height
        self._cursor = 0
        self.chunk = chunk
        self.buried = buried
        self.pieces: list[pl.DataFrame] = []

    @property
    def done(self) -> bool:
        return self._cursor >= self._height

    def next_rows(self, alive: Mask, changed_epoch: NDArray[np.int32], rows_max: int) -> Rows:
        """Walks over at most ``rows_max`` rows and returns those to copy."""
        start = self._cursor
        self._cursor = stop = min(start + rows_max, self._height)
        epochs = changed_epoch[start:stop]
        wanted = alive[start:stop] & (epochs > self._since) & (epochs <= self._until)
        return np.flatnonzero(wanted) + start

    def endangered(self, rows: Rows, changed_epoch: NDArray[np.int32]) -> Rows:
        """Of live ``rows`` that are about to change or to go: those that must be copied first."""
        epochs = changed_epoch[rows]
        return rows[(rows >= self._cursor) & (rows < self._height) & (epochs > self._since) & (epochs <= self._until)]
