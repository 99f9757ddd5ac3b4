"""What operators need from connectors. Implemented in ``connectors/`` for real and in ``testing/`` for the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

import polars as pl

from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.snapshot import ChunkHandle, Committable, Split
from tidegate.plan.relational import Scan, Sink

LoadTable: TypeAlias = Callable[[ChunkHandle], pl.DataFrame]
"""Reads a part of a static table that lies beside the checkpoints."""


class SplitReader(Protocol):
    """Reads one open split. Never blocks for longer than about 50 ms of work."""

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        """The next rows (at most ``rows_max``), or None when there are none right now."""
        ...

    @property
    def position(self) -> bytes:
        """After the last row *returned by read*, whatever was prefetched."""
        ...

    @property
    def finished(self) -> bool:
        """The split has an end and it has been read."""
        ...

    def describe(self) -> str:
        """Position for people: ``part-00003.parquet row 12000``."""
        ...

    def close(self) -> None: ...


class SourceConnector(Protocol):
    """Slot side of a source: opens splits."""

    def open(self, split: Split, position: bytes | None) -> SplitReader: ...


class SplitEnumerator(Protocol):
    """Driver side of a source. Numbers splits densely in discovery order and never numbers one again. May do I/O in ``discover``."""

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        """Splits that are new since the last call."""
        ...

    def snapshot(self) -> bytes:
        """Everything discovered so far, in the connector's own document."""
        ...

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        """Returns all splits of ``state`` and ``known`` (open ones from reader snapshots); these are not discovered again.

        Splits that were forgotten before ``state`` was taken are not among them; the numbers go on after them.
        """
        ...

    @property
    def bounded(self) -> bool:
        """Discovery will never bring anything new (``availableNow`` after its first round, or a finite source)."""
        ...


@runtime_checkable
class ForgetfulEnumerator(Protocol):
    """An enumerator whose memory follows what is unread, not what was ever read. Sources that discover without end need it."""

    def forget(self, below: int) -> None:
        """All splits with numbers under ``below`` are done in a completed checkpoint, so in every later one too: snapshots
        taken from now on need not name them. Numbering goes on as if they were there, and none is discovered again."""
        ...


class SinkWriter(Protocol):
    """Slot side of a sink, one per subtask."""

    def write(self, rows: pl.DataFrame) -> None: ...

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        """Make everything written since the last prepare durable but not visible; one payload per committable. Nothing written: none."""
        ...

    def close(self) -> None: ...


class SinkConnector(Protocol):
    """Slot side factory and driver side committer of a sink."""

    guarantee: str
    """``exactly_once``, ``at_least_once`` or ``idempotent``; stands in the query's description."""

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter: ...


class SinkCommitter(Protocol):
    """Driver side of a sink: runs only in the JobMaster, from the manifest. Must be safe when repeated, late or racing."""

    def commit(self, committables: tuple[Committable, ...]) -> None:
        """Make them visible, in checkpoint order. A committable that is already visible is skipped."""
        ...

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        """Remove what attempts before ``older_than`` prepared and nobody will commit: never ``keep``, never another pipeline's."""
        ...


class Connectors(Protocol):
    """How the core finds its connectors."""

    def source(self, scan: Scan) -> SourceConnector: ...

    def sink(self, sink: Sink) -> SinkConnector: ...
