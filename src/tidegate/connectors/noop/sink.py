"""Takes every row and keeps none: for measuring everything before the sink."""

from __future__ import annotations

import polars as pl

from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Committable
from tidegate.ports.sink import SinkCommitter, SinkWriter


class NoopWriter(SinkWriter):
    def __init__(self) -> None:
        self.rows = 0
        """Written since the attempt began."""

    def write(self, rows: pl.DataFrame) -> None:
        self.rows += rows.height

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        return ()


class NoopCommitter(SinkCommitter):
    """For sinks that have nothing to commit: their rows are out as soon as they are written."""

    def commit(self, committables: tuple[Committable, ...]) -> None:
        return None

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        return None
