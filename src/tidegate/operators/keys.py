"""Keys as keyed state has them: whole columns taken apart into plain ones, hashed as the exchange hashes them."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.model.types import Schema
from tidegate.operators.canonical import normalised
from tidegate.operators.columns import polars_type
from tidegate.state.frames import picked
from tidegate.state.hashing import hash_columns
from tidegate.state.index import Hashes
from tidegate.state.leaves import leaf_expression, leaves_of, put_together, take_apart


class KeyColumns:
    """Columns ``k0 k1 …``, one per leaf of ``schema``. Without any column there is one key, and ``k0`` says so."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.leaves = leaves_of(schema)
        self.types = [polars_type(leaf.type) for leaf in self.leaves] or [pl.Boolean()]
        self._hashed = [f"k{i}" for i, leaf in enumerate(self.leaves) if not leaf.presence]
        self._hashed_types = tuple(leaf.type for leaf in self.leaves if not leaf.presence)
        self._nothing = pl.repeat(True, pl.len()).alias("k0")
        self._normalised = [
            normalised(leaf_expression(leaf), leaf.type).alias(f"k{i}") for i, leaf in enumerate(self.leaves)
        ] or [self._nothing]

    def taken(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The keys of rows that an earlier phase has normalised."""
        return take_apart(rows, self.schema) if self.schema else rows.select(self._nothing)

    def normalised(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The keys of rows as they come: what Spark calls equal becomes equal."""
        return rows.select(self._normalised)

    def whole(self, keys: pl.DataFrame) -> list[pl.Series]:
        """The inverse: the columns of ``schema``."""
        return put_together(keys, self.schema).get_columns() if self.schema else []

    def leaf(self, *path: str) -> int | None:
        """Which column holds the leaf at ``path``."""
        return next((i for i, leaf in enumerate(self.leaves) if leaf.path == path), None)

    def hashes(self, keys: pl.DataFrame) -> Hashes:
        """As the exchange hashes whole keys: a struct by its fields, without the leaf that says whether it is null."""
        if not self.leaves:
            return np.zeros(keys.height, np.uint64)
        plain = keys if len(self._hashed) == len(self.leaves) else picked(keys, self._hashed)
        return hash_columns(plain, self._hashed_types)
