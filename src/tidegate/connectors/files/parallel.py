"""The same call for many files, some of them at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def side_by_side(do: Callable[[A], B], items: Sequence[A], at_once: int) -> list[B]:
    """Results in the order of ``items``. Of several errors the first in that order is raised, when all calls have ended."""
    if at_once < 2 or len(items) < 2:
        return [do(item) for item in items]
    with ThreadPoolExecutor(min(at_once, len(items)), "tidegate-files") as pool:
        return list(pool.map(do, items))
