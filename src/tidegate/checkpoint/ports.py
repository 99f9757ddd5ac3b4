"""How the checkpoint location is worked with: many objects at a time, and the question every store is asked before it is trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.checkpoint.layout import PROBE_PREFIX
from tidegate.model.errors import InvalidQuery
from tidegate.ports.store import AlreadyThere, Created, CreateOutcome

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
