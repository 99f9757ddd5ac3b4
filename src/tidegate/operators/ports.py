"""What operators need from connectors. Implemented in ``connectors/`` for real and in ``testing/`` for the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

import polars as pl

from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.snapshot import ChunkHandle, Committable, Split, SplitPosition
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


@runtime_checkable
class FetchingReader(Protocol):
    """A reader that fetches in the background: ``read`` may have nothing although rows are there."""

    def look(self) -> None:
        """Find out where the input ends now, without waiting for the answer."""
        ...

    @property
    def caught_up(self) -> bool:
        """What was there at the last look has been returned by ``read``."""
        ...


@runtime_checkable
class AwaitingReader(Protocol):
    """A reader that knows of rows before it has them."""

    @property
    def awaits_rows(self) -> bool:
        """Rows are on their way: watermarks wait for them, however long that takes."""
        ...


@runtime_checkable
class AnsweringReader(Protocol):
    """A reader whose source is far away: that nothing came does not mean that nothing is there."""

    @property
    def empty_answers(self) -> int:
        """How often, since the split was opened, the source has answered that there is nothing behind what ``read`` has returned.
        Others answer at every read."""
        ...


@runtime_checkable
class InformedSource(Protocol):
    """A source that tells others how far the query has come."""

    def completed(self, positions: tuple[SplitPosition, ...]) -> None:
        """A checkpoint is complete that has these splits of the subtask where they stand here, ended ones at their ends.
        Called once per checkpoint, if at all; must not wait."""
        ...

    def close(self) -> None:
        """The subtask is over; its readers are closed."""
        ...


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

        An open split may come back with another payload (another end, for instance): readers get that one.

        Splits that were forgotten before ``state`` was taken are not among them; the numbers go on after them.
        """
        ...

    @property
    def bounded(self) -> bool:
        """Discovery will never bring anything new (``availableNow`` after its first round, or a finite source)."""
        ...


@runtime_checkable
class CheckedEnumerator(Protocol):
    """An enumerator that can tell before anything runs that there is nothing to read from."""

    def check(self) -> None:
        """Raises InvalidQuery. Asked once, when the query is started, never when it is restarted."""
        ...


@runtime_checkable
class ForgetfulEnumerator(Protocol):
    """An enumerator whose memory follows what is unread, not what was ever read. Sources that discover without end need it."""

    def forget(self, below: int) -> None:
        """All splits with numbers under ``below`` are done in a completed checkpoint, so in every later one too: snapshots
        taken from now on need not name them. Numbering goes on as if they were there, and none is discovered again."""
        ...


@runtime_checkable
class ContinuingEnumerator(Protocol):
    """An enumerator that goes on behind splits that have ended, with new ones."""

    def learn_done(self, is_done: Callable[[int], bool]) -> None:
        """Called right before ``restore``. ``is_done``: whether the split of that number has been read to its end. One that
        is neither done nor open was on its way to a reader, and will be given to one."""
        ...


class SinkWriter(Protocol):
    """Slot side of a sink, one per subtask."""

    def write(self, rows: pl.DataFrame) -> None: ...

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        """Make everything written since the last prepare durable but not visible; one payload per committable. Nothing written: none.

        A ``SettlingWriter`` may leave the durability to ``settle``.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class SettlingWriter(Protocol):
    """A writer whose ``prepare`` does not wait: rows of the next checkpoint are written while those of this one become durable."""

    def settle(self, checkpoint: CheckpointId) -> None:
        """Returns when everything prepared up to this checkpoint is durable. Called by another thread than the other methods, once per
        snapshot, in their order, and perhaps still during ``close``, which ends it.

        Raises ``TidegateError`` otherwise: the checkpoint fails, and what it prepared is settled by the next one or fails the writer.
        """
        ...


@runtime_checkable
class InformedWriter(Protocol):
    """A writer that gets something back when its output is visible: names of transactions that it may use again."""

    def on_committed(self, checkpoint: CheckpointId) -> None:
        """All that was prepared up to this checkpoint is visible. May be left out, never repeated for an earlier one; a later
        call covers it. The marker that says so to a recovery may not be stored yet."""
        ...


class SinkConnector(Protocol):
    """Slot side factory and driver side committer of a sink."""

    guarantee: str
    """``exactly_once``, ``at_least_once`` or ``idempotent``; stands in the query's description."""

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter: ...


@runtime_checkable
class LogSink(Protocol):
    """A sink whose output is a log: in output mode complete, each checkpoint's result stands behind the one before. For all
    others a result takes the place of those that are not visible yet."""

    keeps_every_result: bool


class SinkCommitter(Protocol):
    """Driver side of a sink: runs only in the JobMaster, from the manifest. Must be safe when repeated, late or racing."""

    def commit(self, committables: tuple[Committable, ...]) -> None:
        """Make them visible, in checkpoint order. A committable that is already visible is skipped."""
        ...

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        """Remove what attempts before ``older_than`` prepared and nobody will commit: never ``keep``, never another pipeline's."""
        ...


@runtime_checkable
class MarkedCommitter(Protocol):
    """A committer that does not commit again what a marker calls visible: after long enough the other side has forgotten it,
    and would call it lost."""

    def already_committed(self, committables: tuple[Committable, ...]) -> None:
        """Comes in place of ``commit``; they may still be among those of a later commit."""
        ...


class Connectors(Protocol):
    """How the core finds its connectors."""

    def source(self, scan: Scan) -> SourceConnector: ...

    def sink(self, sink: Sink) -> SinkConnector: ...
