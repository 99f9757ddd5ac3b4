"""What the coordinator's shell needs from a store, and the question every store is asked before it is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from tidegate.checkpoint.layout import PROBE_PREFIX
from tidegate.model.errors import InvalidQuery


@dataclass(frozen=True, slots=True)
class Created:
    """The object did not exist and exists now, whole."""


@dataclass(frozen=True, slots=True)
class AlreadyThere:
    """An object stands under this key already; it was not touched."""


CreateOutcome: TypeAlias = Created | AlreadyThere


class BlobStore(Protocol):
    """Flat keys, immutable objects. Reads see every finished create; no rename, no overwrite, no directories."""

    def create(self, key: str, data: bytes) -> CreateOutcome:
        """Create-if-absent, atomically and whole: of two callers at once exactly one gets ``Created``.

        Raises ``Unavailable`` when the outcome is unknown: the object may exist, or appear later.
        """
        ...

    def read(self, key: str) -> bytes | None:
        """The object's bytes, or None when there is none. Raises ``Unavailable`` when the store does not answer."""
        ...

    def list(self, prefix: str) -> tuple[str, ...]:
        """All keys that start with ``prefix``, sorted. Shows every create that had finished when the call began: recovery relies on it."""
        ...

    def delete(self, key: str) -> None:
        """Remove the object; one that is not there is no error."""
        ...


@runtime_checkable
class PutsOwn(Protocol):
    """What a store has that can send large objects in parts, but not make the last step conditional."""

    def put_own(self, key: str, data: bytes) -> None:
        """Store an object, whole or not at all, under a key that nobody but the caller can form: it may replace an earlier try of his.

        Raises ``Unavailable`` when the outcome is unknown.
        """
        ...


@dataclass(frozen=True, slots=True)
class Probe:
    """Two creates of one random key. A store that accepts both cannot fence anybody.

    The shell creates ``key`` with ``first``, then with ``second``, deletes it and hands the outcomes to ``judge``.
    """

    key: str
    first: bytes = b"1"
    second: bytes = b"2"


def probe(random_name: str) -> Probe:
    return Probe(f"{PROBE_PREFIX}{random_name}")


def judge(location: str, first: CreateOutcome, second: CreateOutcome) -> None:
    """Raises ``InvalidQuery`` unless the store made the first object and refused the second."""
    match first, second:
        case Created(), AlreadyThere():
            return
        case Created(), Created():
            raise InvalidQuery(
                f"the store of {location} let the same key be created twice: two drivers could both own the pipeline",
                hint="use a store with create-if-absent (local disk, HDFS, S3 with conditional writes)",
            )
        case AlreadyThere(), Created() | AlreadyThere():
            raise InvalidQuery(
                f"the store of {location} says that a key made of fresh random bits exists already",
                hint="the store answers creates wrongly: use another store or another location",
            )
