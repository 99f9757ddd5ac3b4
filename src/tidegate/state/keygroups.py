"""Which key belongs where: key → hash → key group → subtask. Ranges of subtasks tile the key groups exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.model.snapshot import KeyGroupRange


def key_groups(hashes: NDArray[np.uint64], max_parallelism: int) -> NDArray[np.int64]:
    """The key group of each hash. Fixed for the life of a pipeline, like ``max_parallelism``."""
    if max_parallelism & (max_parallelism - 1) == 0:
        return (hashes & np.uint64(max_parallelism - 1)).astype(np.int64)
    return (hashes % np.uint64(max_parallelism)).astype(np.int64)


def subtask_of(groups: NDArray[np.int64], parallelism: int, max_parallelism: int) -> NDArray[np.int64]:
    """The subtask that owns each key group."""
    return groups * parallelism // max_parallelism


def range_of(subtask: int, parallelism: int, max_parallelism: int) -> KeyGroupRange:
    """The key groups that ``subtask_of`` gives to ``subtask``: contiguous, and empty only if there are more subtasks than groups."""
    start = -(-subtask * max_parallelism // parallelism)
    stop = -(-(subtask + 1) * max_parallelism // parallelism)
    return KeyGroupRange(start, stop)
