"""How far a subtask's keys are closed: by its watermark, and beyond it by what earlier owners of some key groups had closed.

Behind an aligned barrier all subtasks of a stage have the same watermark. Barriers that overtake rows, or that hold nothing back, find them
at different ones: whoever gets key groups of several owners goes on from the smallest, so that no row is taken for late, and must
not open again what a faster owner had closed and sent out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.snapshot import KeyGroupRange
from tidegate.operators.protocol import OperatorContext
from tidegate.operators.values import decoded
from tidegate.state.chunk import RestoredChunk
from tidegate.state.index import Hashes
from tidegate.state.keygroups import key_groups


class Closed(msgspec.Struct, frozen=True, array_like=True):
    """Everything of these key groups that ends at ``until_us`` or before is closed."""

    groups: KeyGroupRange
    until_us: int


class HorizonValue(msgspec.Struct, frozen=True, tag_field="format", tag="horizon/1"):
    """As stored: the watermark of the subtask that owned ``groups``. What it had closed is not in the state."""

    watermark_us: int
    groups: KeyGroupRange
    closed: tuple[Closed, ...] = ()
    """What earlier owners had closed beyond that watermark."""
    late_rows: int = 0
    """Rows the subtask had dropped because they ended at that watermark or before."""


class Horizon:
    """Of one subtask. It only advances."""

    def __init__(self, context: OperatorContext, owners: Iterable[HorizonValue]) -> None:
        """``owners``: the values of all old subtasks; those of other key groups do not matter."""
        self._groups = context.groups
        self._max_parallelism = context.max_parallelism
        owners = tuple(owners)
        self.late_rows = tuple(owner.late_rows for owner in owners)
        """What each old subtask had counted, of other key groups too."""
        mine = [owner for owner in owners if owner.groups.intersect(self._groups) is not None]
        self.watermark_us = min((owner.watermark_us for owner in mine), default=WATERMARK_MIN_US)
        self._restored = [one for owner in mine for one in (Closed(owner.groups, owner.watermark_us), *owner.closed)]
        self._closed = self._beyond(self._restored)

    def advance(self, watermark_us: int) -> None:
        self.watermark_us = max(self.watermark_us, watermark_us)
        self._closed = self._beyond(self._closed)

    @property
    def open(self) -> bool:
        """Nothing is closed yet, so nothing can be late."""
        return self.watermark_us == WATERMARK_MIN_US and not self._closed

    def until_us(self, hashes: Callable[[], Hashes]) -> int | NDArray[np.int64]:
        """The watermark; for every row its own, where an earlier owner of its key had seen a later one. ``hashes``: of the rows' keys."""
        if not self._closed:
            return self.watermark_us
        groups = key_groups(hashes(), self._max_parallelism).astype(np.int64)
        return np.maximum(closed_until(self._closed, groups), self.watermark_us)

    def value(self, late_rows: int) -> HorizonValue:
        return HorizonValue(self.watermark_us, self._groups, self._closed, late_rows)

    def restored_until_us(self, chunk: RestoredChunk) -> NDArray[np.int64]:
        """For each row of a stored chunk how far its owner had closed it before the barrier."""
        return closed_until(self._restored, chunk.rows.get_column("kg").cast(pl.Int64).to_numpy())

    def without_closed(self, chunk: RestoredChunk, time: pl.Expr) -> RestoredChunk:
        """The rows of a stored chunk whose ``time`` (microseconds; null: never) their owner had not reached: the others were sent out, or
        forgotten, before the barrier."""
        if not self._restored or not chunk.rows.height:
            return chunk
        gone = (time <= pl.Series(self.restored_until_us(chunk))).fill_null(False)
        return RestoredChunk(chunk.handle, chunk.rows.filter(~gone))

    def _beyond(self, closed: Iterable[Closed]) -> tuple[Closed, ...]:
        """The part within our key groups that the watermark does not say anyway."""
        return tuple(
            Closed(shared, one.until_us)
            for one in closed
            if one.until_us > self.watermark_us and (shared := one.groups.intersect(self._groups)) is not None
        )


def closed_until(closed: Iterable[Closed], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each key group how far it is closed, in microseconds."""
    until = np.full(len(groups), WATERMARK_MIN_US, np.int64)
    for one in closed:
        inside = (groups >= one.groups.start) & (groups < one.groups.stop)
        until[inside] = np.maximum(until[inside], one.until_us)
    return until


def restored_horizon(context: OperatorContext) -> Horizon:
    """Of an operator whose value is its horizon and nothing else."""
    what = f"the watermark of {context.operator}"
    return Horizon(context, (decoded(value, HorizonValue, what) for value in context.restored.values))
