"""Rows of a batch, those of a key side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.model.snapshot import KeyGroupRange
from tidegate.model.types import Schema
from tidegate.operators.stateful.codec import Codec
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups

_ROW = "row"


@dataclass(frozen=True, slots=True)
class Grouped:
    """``keys``: key group, encoded key, and which of ``rows`` are its own, in the order in which the keys first came."""

    rows: pl.DataFrame
    keys: Sequence[tuple[int, bytes, int, int]]


class KeyGrouping:
    def __init__(self, keys: Schema, codec: Codec, max_parallelism: int) -> None:
        self._names = [field.name for field in keys]
        self._types = tuple(field.type for field in keys)
        self._codec = codec
        self._max_parallelism = max_parallelism

    def split(self, rows: pl.DataFrame, within: KeyGroupRange | None = None) -> Grouped:
        """Rows of a key keep their order. ``within``: only keys of these key groups."""
        keys = rows.select(pl.col(name).alias(f"k{i}") for i, name in enumerate(self._names))
        found = (
            keys.with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).alias(_ROW))
            .group_by(keys.columns, maintain_order=True)
            .agg(_ROW)
        )
        distinct = found.drop(_ROW)
        groups = key_groups(hash_columns(distinct, self._types), self._max_parallelism)
        if within is not None:
            mine = pl.Series((groups >= within.start) & (groups < within.stop))
            found, distinct, groups = found.filter(mine), distinct.filter(mine), groups[mine.to_numpy()]
        order = found.get_column(_ROW).explode() if found.height else pl.Series(_ROW, [], pl.UInt32)
        ends = np.cumsum(found.get_column(_ROW).list.len().to_numpy()).tolist()
        encoded = [self._codec.encode(values) for values in distinct.iter_rows()]
        return Grouped(
            rows[order], list(zip(groups.tolist(), encoded, [0, *ends[:-1]], ends, strict=True)) if encoded else []
        )
