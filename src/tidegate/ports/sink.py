"""The roles of a sink."""

from __future__ import annotations

from abc import ABC, abstractmethod

import polars as pl

from tidegate.model.batch_ids import BatchIds
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Committable, HandedBack, Published
from tidegate.ports.side import ConnectorSide


class SinkWriter(ABC):
    """Slot side of a sink, one per subtask."""

    @abstractmethod
    def write(self, rows: pl.DataFrame) -> None: ...

    @abstractmethod
    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        """Make everything written since the last prepare durable but not visible; one payload per committable. Nothing written: none.

        The durability may be left to ``settle``.
        """

    def settle(self, checkpoint: CheckpointId) -> None:
        """Returns when everything prepared up to this checkpoint is durable. For writers whose ``prepare`` does not wait: rows of the
        next checkpoint are written while those of this one become durable. Called by another thread than the other methods, once per
        snapshot, in their order, and perhaps still during ``close``, which ends it.

        Raises ``TidegateError`` otherwise: the checkpoint fails, and what it prepared is settled by the next one or fails the writer.
        """

    def on_committed(self, checkpoint: CheckpointId) -> None:
        """All that was prepared up to this checkpoint is visible. May be left out, never repeated for an earlier one; a later
        call covers it. The marker that says so to a recovery may not be stored yet. For writers that get something back when their
        output is visible: names of transactions that they may use again."""

    def close(self) -> None:
        """Nothing is held open."""


class SinkCommitter(ConnectorSide, ABC):
    """Driver side of a sink: runs only in the JobMaster, from the manifest. Must be safe when repeated, late or racing."""

    forgets: bool = True
    """The target may know nothing although output became visible there: that is no reason for a warning."""

    def open(self) -> None:
        """Called once, when it is certain that the query starts, before anything runs."""

    def published(self) -> Published | None:
        """The newest output of this pipeline that the target knows, whoever published it: so a start can tell that the checkpoint
        location is an older copy, or has lost a manifest. None: none, or it has been forgotten, or the target cannot tell.

        Asked once at each start, before anything is written. Raises ``TidegateError`` when the target does not answer.
        """
        return None

    def number_batches(self, ids: BatchIds) -> None:
        """Comes right before every ``commit`` and ``sweep``, in the same thread: the ids of what is committed, and the one that the next
        batch will get. For committers that call code of the user, to which they tell the numbers of batches."""

    @abstractmethod
    def commit(self, committables: tuple[Committable, ...]) -> HandedBack | None:
        """Make them visible, in checkpoint order. A committable that is already visible is skipped. None: all of them are visible.

        A committer may hand back what it cannot make visible yet. Everything else is then visible, and only what was handed back is asked
        for again. It is a suffix in checkpoint order: some of one checkpoint, and all of later ones. If a committer leaves out output of a
        later checkpoint, the engine asks for that again, too. Output that becomes visible as a whole is handed back as a whole.

        Raises ``TidegateError`` when it is not known what is visible: all of them are asked for again, or the query ends where that cannot
        help. A restart asks for everything that the checkpoint carries, whatever was handed back before.
        """

    @abstractmethod
    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        """Remove what attempts before ``older_than`` prepared and nobody will commit: never ``keep``, never another pipeline's."""
