"""When rows expire, by blocks of neighbouring rows: finding those that have looks only at blocks with at least one.

Rows that came together expire at about the same time, so a watermark touches few blocks, however many rows there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.state.columns import Rows, grown

NEVER_US = (1 << 63) - 1
_BLOCK_ROWS = 1 << 12


class ExpiryZones:
    """Row numbers are the table's: dense from 0, moved only by ``rebuild``."""

    def __init__(self) -> None:
        self._times_us: NDArray[np.int64] = np.zeros(0, np.int64)
        self._first_us: NDArray[np.int64] = np.zeros(0, np.int64)
        self._height = 0

    def add(self, rows: Rows, times_us: NDArray[np.int64]) -> None:
        """``rows`` are new: none was added before, and together they go on where the last ones ended."""
        if not len(rows):
            return
        height = max(self._height, int(rows.max()) + 1)
        self._times_us = grown(self._times_us, height).view(np.int64)
        self._times_us[rows] = times_us
        blocks = -(-height // _BLOCK_ROWS)
        if blocks > len(self._first_us):
            more = np.full(max(blocks, 2 * len(self._first_us)) - len(self._first_us), NEVER_US)
            self._first_us = np.concatenate([self._first_us, more])
        np.minimum.at(self._first_us, rows // _BLOCK_ROWS, times_us)
        self._height = height

    def expired(self, until_us: int) -> Rows:
        """Rows whose time is ``until_us`` or before, each reported once; some of them may be gone already."""
        found: list[Rows] = []
        for block in np.flatnonzero(self._first_us <= until_us):
            start, stop = int(block) * _BLOCK_ROWS, min((int(block) + 1) * _BLOCK_ROWS, self._height)
            times_us = self._times_us[start:stop]
            due = times_us <= until_us
            found.append(np.flatnonzero(due) + start)
            times_us[due] = NEVER_US
            self._first_us[block] = times_us.min()
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def rebuild(self, keep: Rows) -> None:
        """Row ``keep[i]`` becomes row ``i``; all others are forgotten."""
        times_us = self._times_us[keep]
        self._times_us, self._first_us, self._height = np.zeros(0, np.int64), np.zeros(0, np.int64), 0
        self.add(np.arange(len(keep)), times_us)

    @property
    def size_bytes(self) -> int:
        return 8 * self._height
