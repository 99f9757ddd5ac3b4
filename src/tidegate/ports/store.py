"""The role of a store for checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.model.errors import TidegateError
from tidegate.state.encoded import Encoded


@dataclass(frozen=True, slots=True)
class Created:
    """The object did not exist and exists now, whole."""


@dataclass(frozen=True, slots=True)
class AlreadyThere:
    """An object stands under this key already; it was not touched."""


CreateOutcome: TypeAlias = Created | AlreadyThere


class BlobStore(ABC):
    """Flat keys, immutable objects. Reads see every finished create; no rename, no overwrite, no directories."""

    deletes_together = False
    """Many objects are deleted in less time than one after the other."""

    @abstractmethod
    def create(self, key: str, data: bytes) -> CreateOutcome:
        """Create-if-absent, atomically and whole: of two callers at once exactly one gets ``Created``.

        Raises ``Unavailable`` when the outcome is unknown: the object may exist, or appear later.
        """

    @abstractmethod
    def read(self, key: str) -> bytes | None:
        """The object's bytes, or None when there is none. Raises ``Unavailable`` when the store does not answer."""

    @abstractmethod
    def list(self, prefix: str) -> tuple[str, ...]:
        """All keys that start with ``prefix``, sorted. Shows every create that had finished when the call began: recovery relies on it."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove the object; one that is not there is no error."""

    def put_own(self, key: str, data: Encoded) -> None:
        """Store an object, whole or not at all, under a key that nobody but the caller can form: it may replace an earlier try of his,
        and may travel in pieces, as they lie in memory.

        Raises ``Unavailable`` when the outcome is unknown.
        """
        self.create(key, data.joined())  # Refused means that the earlier try landed.

    def delete_many(self, keys: Sequence[str]) -> dict[str, str]:
        """Delete them in no particular order; one that is not there is no error. Those that could not be deleted, with the reason."""
        problems: dict[str, str] = {}
        for key in keys:
            try:
                self.delete(key)
            except TidegateError as error:
                problems[key] = error.message
        return problems
