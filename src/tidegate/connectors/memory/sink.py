"""Committed rows in the driver's memory, for tests and notebooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import polars as pl

from tidegate.connectors.collected import CollectingWriter, decode_rows
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.snapshot import Committable
from tidegate.operators.columns import empty_frame
from tidegate.plan.relational import Sink

OnCommit: TypeAlias = Callable[[CheckpointId, pl.DataFrame], None]
"""Called after each commit that brought something new, with the rows of that checkpoint under the public names."""


class MemorySink:
    """Slot side. Exactly once while the driver lives: a driver that starts again begins with an empty table."""

    guarantee = "exactly_once"

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> CollectingWriter:
        return CollectingWriter()


class MemoryCommitter:
    """Driver side. ``table`` holds the rows of committed checkpoints, each once, in the order of the checkpoints."""

    def __init__(self, sink: Sink) -> None:
        self._empty = empty_frame(sink.schema)
        self._parts: dict[tuple[CheckpointId, SlotIndex, int], pl.DataFrame] = {}
        self._listeners: list[OnCommit] = []

    def commit(self, committables: tuple[Committable, ...]) -> None:
        new: dict[CheckpointId, list[pl.DataFrame]] = {}
        for one in sorted(committables, key=lambda c: (c.checkpoint, c.subtask, c.number)):
            key = (one.checkpoint, one.subtask, one.number)
            if key not in self._parts:
                rows, _ = decode_rows(one)
                self._parts[key] = rows
                new.setdefault(one.checkpoint, []).append(rows)
        for checkpoint, parts in new.items():
            for listener in self._listeners:
                listener(checkpoint, pl.concat(parts))

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        return None  # Nothing is staged outside of the committables themselves.

    def table(self) -> pl.DataFrame:
        return pl.concat([self._empty, *(self._parts[key] for key in sorted(self._parts))])

    def subscribe(self, listener: OnCommit) -> None:
        """The hook with which a temporary view is kept up to date."""
        self._listeners.append(listener)
