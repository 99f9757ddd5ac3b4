"""What the coordinator's shell needs from a store, and the question every store is asked before it is trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from tidegate.checkpoint.layout import PROBE_PREFIX
from tidegate.model.errors import InvalidQuery, TidegateError
from tidegate.state.encoded import Encoded


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
    """What a store has that takes large objects in pieces, as they lie in memory."""

    def put_own(self, key: str, data: Encoded) -> None:
        """Store an object, whole or not at all, under a key that nobody but the caller can form: it may replace an earlier try of his.

        Raises ``Unavailable`` when the outcome is unknown.
        """
        ...


@runtime_checkable
class DeletesMany(Protocol):
    """What a store has that deletes many objects in less time than one after the other."""

    def delete_many(self, keys: Sequence[str]) -> dict[str, str]:
        """Delete them in no particular order; one that is not there is no error. Those that could not be deleted, with the reason."""
        ...


def delete_all(store: BlobStore, keys: Sequence[str]) -> dict[str, str]:
    """Delete the keys, which may happen in any order. Those that could not be deleted, with the reason."""
    if isinstance(store, DeletesMany):
        return store.delete_many(keys)
    problems: dict[str, str] = {}
    for key in keys:
        try:
            store.delete(key)
        except TidegateError as error:
            problems[key] = error.message
    return problems


Spread: TypeAlias = Callable[[Callable[[str], object], Mapping[str, int]], None]
"""``(do, sizes)``: ``do`` for every key, perhaps several at a time; ``sizes``: how many bytes it handles for each.

When one fails none is begun any more; those under way are waited for, and what failed first is raised."""


def one_by_one(do: Callable[[str], object], sizes_bytes: Mapping[str, int]) -> None:
    for key in sizes_bytes:
        do(key)


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
