"""Which channel a row takes. One pass over a batch, whatever the number of channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import polars as pl

from tidegate.model.types import DataType
from tidegate.plan.graph import Edge, Partitioning
from tidegate.state.frames import picked
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups, subtask_of


class Router(Protocol):
    def route(self, rows: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        """Pieces of ``rows`` and the index of the channel each takes; order within a piece is kept, no piece is empty."""
        ...


class SingleRouter:
    """One channel: forward edges, and every edge of a job with one slot."""

    def route(self, rows: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        yield 0, rows


class BroadcastRouter:
    def __init__(self, channels: int) -> None:
        self._channels = channels

    def route(self, rows: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        for index in range(self._channels):
            yield index, rows


class RebalanceRouter:
    """Whole batches in turn, beginning with the own slot: neighbours start at different channels."""

    def __init__(self, channels: int, first: int) -> None:
        self._channels = channels
        self._next = first

    def route(self, rows: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        index = self._next
        self._next = (index + 1) % self._channels
        yield index, rows


class KeyedRouter:
    """By key group. Without keys every row belongs to one group, and so to one subtask."""

    def __init__(self, keys: tuple[str, ...], types: tuple[DataType, ...], channels: int, max_parallelism: int) -> None:
        self._keys = list(keys)
        self._types = types
        self._channels = channels
        self._max_parallelism = max_parallelism

    def route(self, rows: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        if not self._keys:
            yield 0, rows
            return
        groups = key_groups(hash_columns(picked(rows, self._keys), self._types), self._max_parallelism)
        targets = subtask_of(groups, self._channels, self._max_parallelism).astype(np.uint16)
        counts = np.bincount(targets, minlength=self._channels)
        first = int(targets[0])
        if counts[first] == rows.height:
            yield first, rows
            return
        # A stable sort of 16-bit numbers is a radix sort: linear, and rows of one channel keep their order.
        gathered = rows[np.argsort(targets, kind="stable")]
        start = 0
        for index, count in enumerate(counts.tolist()):
            if count:
                yield index, gathered.slice(start, count)
                start += count


def router(edge: Edge, subtask: int, parallelism: int, max_parallelism: int) -> Router:
    """The router of ``edge`` for rows made by ``subtask``. Channel indexes follow the targets' slots."""
    match edge.partitioning:
        case Partitioning.FORWARD:
            return SingleRouter()
        case _ if parallelism == 1:
            return SingleRouter()
        case Partitioning.KEYED:
            types = {column.name: column.type for column in edge.schema}
            return KeyedRouter(edge.keys, tuple(types[key] for key in edge.keys), parallelism, max_parallelism)
        case Partitioning.REBALANCE:
            return RebalanceRouter(parallelism, subtask)
        case Partitioning.BROADCAST:
            return BroadcastRouter(parallelism)
