"""Committed rows in the driver's memory, for tests and notebooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import polars as pl

from tidegate.connectors.collected import decode_rows
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable
from tidegate.operators.columns import empty_frame
from tidegate.ports.sink import SinkCommitter
from tidegate.ports.spec import SinkSpec

OnCommit: TypeAlias = Callable[[CheckpointId, pl.DataFrame], None]
"""Called after each commit that brought something new, with the rows of that checkpoint under the public names."""


class MemoryCommitter(SinkCommitter):
    """Driver side. ``table`` holds the rows of committed checkpoints, each once, in the order of the checkpoints; in output mode
    ``complete`` those of the newest one alone."""

    def __init__(self, spec: SinkSpec, show: Callable[[pl.DataFrame], None] | None = None) -> None:
        """``show``: keeps a view up to date. It is called with the whole table, before a commit counts as done."""
        self._whole = spec.mode is OutputMode.COMPLETE
        self._empty = empty_frame(spec.schema)
        self._show = show
        self._parts: dict[tuple[CheckpointId, SlotIndex, int], pl.DataFrame] = {}
        self._listeners: list[OnCommit] = []

    def open(self) -> None:
        self._shown()

    def commit(self, committables: tuple[Committable, ...]) -> None:
        new: dict[CheckpointId, list[pl.DataFrame]] = {}
        for one in sorted(committables, key=lambda one: one.place):
            key = one.place
            if key not in self._parts and not self._replaced(one.checkpoint):
                rows, _ = decode_rows(one)
                if self._whole:
                    self._parts = {part: held for part, held in self._parts.items() if part[0] == one.checkpoint}
                self._parts[key] = rows
                new.setdefault(one.checkpoint, []).append(rows)
        for checkpoint, parts in new.items():
            for listener in self._listeners:
                listener(checkpoint, pl.concat(parts))
        if new:
            self._shown()

    def _shown(self) -> None:
        if self._show is not None:
            self._show(self.table())

    def _replaced(self, checkpoint: CheckpointId) -> bool:
        """A newer whole result is shown already."""
        return self._whole and any(part[0] > checkpoint for part in self._parts)

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        return None  # Nothing is staged outside of the committables themselves.

    def table(self) -> pl.DataFrame:
        return pl.concat([self._empty, *(self._parts[key] for key in sorted(self._parts))])

    def subscribe(self, listener: OnCommit) -> None:
        """For tests: what each commit has brought."""
        self._listeners.append(listener)
