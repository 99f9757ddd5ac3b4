"""Commits that are code of the user, run on the driver: once per checkpoint, in their order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.ports import BlobStore
from tidegate.connectors.batches import Batches
from tidegate.model.errors import Bug
from tidegate.model.ids import Attempt, CheckpointId, OperatorId
from tidegate.model.snapshot import Committable, by_checkpoint


class OfAttempt(Protocol):
    """What one subtask prepared for one checkpoint."""

    @property
    def attempt(self) -> Attempt: ...


Prepared = TypeVar("Prepared", bound=OfAttempt)


class BatchCommitter(ABC, Generic[Prepared]):
    """A call that returned is not repeated, by whomever; one that did not is."""

    def __init__(self, sink: OperatorId) -> None:
        self._sink = sink
        self._told: Batches | None = None

    def use(self, store: BlobStore) -> None:
        self._told = Batches(store, self._sink)

    def commit(self, committables: tuple[Committable, ...]) -> None:
        for checkpoint, group in by_checkpoint(committables):
            prepared = [self._decode(one.payload) for one in group]
            ref = ManifestRef(checkpoint, prepared[0].attempt)
            if not self._batches.is_done(ref):
                self._call(checkpoint, prepared)
                self._batches.mark_done(ref)
            # Only now: until it is known to be done the same may be asked for again. And part of the commit: what is left here and
            # not known to be done would be swept one day.
            self._batches.delete(key for one in prepared for key in self._keys(one))

    @property
    def _batches(self) -> Batches:
        if self._told is None:
            raise Bug(f"the committer of {self._sink} was not told where the checkpoints are")
        return self._told

    @abstractmethod
    def _decode(self, payload: bytes) -> Prepared: ...

    @abstractmethod
    def _keys(self, prepared: Prepared) -> Iterable[str]:
        """What of it waits beside the checkpoints."""

    @abstractmethod
    def _call(self, checkpoint: CheckpointId, prepared: list[Prepared]) -> None:
        """The user's code. ``prepared``: of all subtasks, in their order."""
