"""Commits that are code of the user, run on the driver: once per batch, in their order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from tidegate.checkpoint.layout import ManifestRef
from tidegate.connectors.batches import Batches
from tidegate.connectors.current_batch import inside
from tidegate.model.batch_ids import BatchIds
from tidegate.model.errors import Bug
from tidegate.model.ids import Attempt, BatchId
from tidegate.model.snapshot import Committable, Published, by_checkpoint
from tidegate.ports.context import CommitterContext
from tidegate.ports.sink import SinkCommitter


class OfAttempt(Protocol):
    """What one subtask prepared for one checkpoint."""

    @property
    def attempt(self) -> Attempt: ...


Prepared = TypeVar("Prepared", bound=OfAttempt)


class BatchCommitter(SinkCommitter, Generic[Prepared]):
    """A call that returned is not repeated, by whomever; one that did not is, with the same id."""

    forgets = True

    def __init__(self, context: CommitterContext) -> None:
        self._context = context
        self._batches = Batches(context.store, context.operator)
        self._numbered: BatchIds | None = None

    def number_batches(self, ids: BatchIds) -> None:
        self._numbered = ids

    def published(self) -> Published | None:
        """The notes about calls lie in the checkpoint location: they tell of a manifest that is missing there, not of an older copy."""
        return self._batches.newest_done()

    def commit(self, committables: tuple[Committable, ...]) -> None:
        for checkpoint, group in by_checkpoint(committables):
            prepared = [self._decode(one.payload) for one in group]
            ref = ManifestRef(checkpoint, prepared[0].attempt)
            if not self._batches.is_done(ref):
                batch = self._ids.of(checkpoint)
                with inside(self._context, batch):
                    self._call(batch, prepared)
                self._batches.mark_done(ref)
            # Only now: until it is known to be done the same may be asked for again. And part of the commit: what is left here and
            # not known to be done would be swept one day.
            self._batches.delete(key for one in prepared for key in self._keys(one))

    @property
    def _ids(self) -> BatchIds:
        if self._numbered is None:
            raise Bug(f"the committer of {self._context.operator} was not told the ids of its batches")
        return self._numbered

    @abstractmethod
    def _decode(self, payload: bytes) -> Prepared: ...

    @abstractmethod
    def _keys(self, prepared: Prepared) -> Iterable[str]:
        """What of it waits beside the checkpoints."""

    @abstractmethod
    def _call(self, batch: BatchId, prepared: list[Prepared]) -> None:
        """The user's code. ``prepared``: of all subtasks, in their order."""
