"""``explode`` and its relatives: a row becomes as many rows as its array or map has entries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl

from tidegate.model.elements import Batch, Output
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Array, Field, Map, Struct
from tidegate.operators.columns import polars_schema
from tidegate.operators.expressions import Projection
from tidegate.operators.pieces import PIECE_ROWS
from tidegate.operators.protocol import Operator
from tidegate.plan.expressions import Named
from tidegate.plan.relational import Generate

_ITEMS = ".items"
_POSITIONS = ".positions"
GENERATORS = ("explode", "posexplode", "inline")


class GenerateOperator(Operator):
    """Output: the columns of ``Generate.schema``: those of the input that are still wanted, then the generated ones, as they are for
    each entry in order. ``inline`` gives the fields of a struct entry; of an entry that is null, nulls."""

    def __init__(self, node: Generate) -> None:
        super().__init__()
        if node.function not in GENERATORS or len(node.args) != 1:
            raise InvalidQuery(f"the generator {node.function} is not supported", hint=f"use {', '.join(GENERATORS)}")
        self._outer = node.outer
        (items,) = node.args
        self._items = Projection([Named(_ITEMS, items)], (Field(_ITEMS, items.type),))
        self._kept = [field.name for field in node.schema[: len(node.schema) - len(node.generated)]]
        self._positions = node.function == "posexplode"
        names = [field.name for field in node.generated]
        values = names[1:] if self._positions else names
        match items.type:
            case Map():
                entries = [pl.col(_ITEMS).struct.field(part) for part in ("key", "value")]
            case Array(Struct(fields)) if node.function == "inline":
                entries = [pl.col(_ITEMS).struct.field(field.name) for field in fields]
            case _:
                entries = [pl.col(_ITEMS)]
        made = [entry.alias(name) for entry, name in zip(entries, values, strict=True)]
        self._made = [pl.col(_POSITIONS).alias(names[0]), *made] if self._positions else made
        self._types = polars_schema(node.schema)

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        items = self._items.apply(batch.rows).to_series()
        counts = items.list.len().fill_null(0).to_numpy().astype(np.int64)
        if self._outer:
            counts = np.maximum(counts, 1)
        rows = pl.DataFrame([*(batch.rows.get_column(name) for name in self._kept), items])
        for start, stop in _pieces(counts):
            made = self._exploded(rows[start:stop])
            for at in range(0, made.height, 2 * PIECE_ROWS):
                yield batch.with_rows(made[at : at + 2 * PIECE_ROWS])

    def _exploded(self, rows: pl.DataFrame) -> pl.DataFrame:
        columns = [_ITEMS]
        if self._positions:
            rows = rows.with_columns(pl.int_ranges(0, pl.col(_ITEMS).list.len(), dtype=pl.Int32).alias(_POSITIONS))
            columns.append(_POSITIONS)
        made = rows.explode(columns, empty_as_null=self._outer, keep_nulls=self._outer)
        made = made.select(*self._kept, *self._made)
        return made if made.schema == self._types else made.cast(dict(self._types))  # pyright: ignore[reportArgumentType]


def _pieces(counts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of rows that make about ``PIECE_ROWS`` rows each; a single row may make more."""
    if not len(counts):
        return
    piece_of = (np.cumsum(counts) - counts) // PIECE_ROWS
    bounds = [0, *(np.flatnonzero(np.diff(piece_of)) + 1).tolist(), len(counts)]
    yield from pairwise(bounds)
