"""Lists in accumulator columns, seen as one flat frame: what Polars' list expressions cannot say is said there, for all groups at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidegate.model.types import Field, Schema, Struct
from tidegate.operators.accumulators.protocol import new, old
from tidegate.operators.columns import polars_type

ROW = "row"
"""The group that an item belongs to, by position."""

Reduce = Callable[[pl.DataFrame], pl.DataFrame]


def flat(lists: pl.Series, fields: Schema) -> pl.DataFrame:
    """Items of lists of structs, in order: ``row``, then the struct's fields."""
    lengths = lists.list.len().fill_null(0).to_numpy()
    items = lists.filter(pl.Series(lengths > 0)).list.explode()
    typed = items if len(items) else pl.Series(items.name, [], dtype=polars_type(Struct(fields)))
    return typed.struct.unnest().insert_column(0, pl.Series(ROW, np.repeat(np.arange(len(lists)), lengths)))


def listed(items: pl.DataFrame, fields: Schema, rows: int) -> pl.Series:
    """The inverse of ``flat`` for items ordered by ``row``; null for a row without any."""
    names = [field.name for field in fields]
    grouped = items.group_by(ROW, maintain_order=True).agg(pl.struct(names).alias("items"))
    positions: NDArray[np.int64] = np.full(rows, -1)
    positions[grouped.get_column(ROW).to_numpy()] = np.arange(grouped.height)
    taken = pl.DataFrame({"at": positions}).select(pl.when(pl.col("at") >= 0).then("at")).to_series()
    return grouped.get_column("items").gather(taken)


def merged_lists(field: Field, fields: Schema, reduce: Reduce) -> pl.Expr:
    """Both lists one after the other, then reduced: ``reduce`` gets the flat items of all groups, ordered by ``row``, and keeps that order."""

    def merged(both: pl.Series) -> pl.Series:
        before, added = both.struct.unnest().get_columns()
        joined = pl.concat([flat(before, fields), flat(added, fields)]).sort(ROW, maintain_order=True)
        return listed(reduce(joined), fields, len(both))

    return pl.struct(old(field).alias("before"), new(field).alias("added")).map_batches(
        merged, return_dtype=polars_type(field.type), is_elementwise=False
    )
