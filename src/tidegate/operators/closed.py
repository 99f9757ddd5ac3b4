"""What earlier owners of key groups had closed beyond the watermark that holds for all of them now.

Behind an aligned barrier all subtasks of a stage have the same watermark. Barriers that overtake rows, or that hold nothing back, find them
at different ones: whoever gets key groups of several owners goes on from the smallest, so that no row is taken for late, and must
not open again what a faster owner had closed and sent out.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.snapshot import KeyGroupRange


class Closed(msgspec.Struct, frozen=True, array_like=True):
    """Everything of these key groups that ends at ``until_us`` or before is closed."""

    groups: KeyGroupRange
    until_us: int


def beyond(closed: Iterable[Closed], groups: KeyGroupRange, watermark_us: int) -> tuple[Closed, ...]:
    """The part within ``groups`` that the watermark does not say anyway."""
    return tuple(
        Closed(shared, one.until_us)
        for one in closed
        if one.until_us > watermark_us and (shared := one.groups.intersect(groups)) is not None
    )


def closed_until(closed: tuple[Closed, ...], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each key group how far it is closed, in microseconds."""
    until = np.full(len(groups), WATERMARK_MIN_US, np.int64)
    for one in closed:
        inside = (groups >= one.groups.start) & (groups < one.groups.stop)
        until[inside] = np.maximum(until[inside], one.until_us)
    return until
