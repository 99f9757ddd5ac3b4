"""DISTINCT: any aggregate over the set of argument tuples seen. The accumulator is that set, so its cost grows with it.

Every call keeps a set of its own: several groups of DISTINCT columns in one aggregation, with or without FILTER, need nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tidegate.model.types import Array, DataType, Field, Schema, Struct
from tidegate.operators.accumulators.lists import ROW
from tidegate.operators.accumulators.protocol import (
    Accumulator,
    Settling,
    column,
    filtered,
    new,
    old,
    partial_expressions,
    result,
)
from tidegate.operators.canonical import normalised
from tidegate.operators.columns import polars_type
from tidegate.plan.relational import AggregateCall


@dataclass(frozen=True, slots=True)
class Distinct:
    """``plain`` builds the accumulator of the same call without DISTINCT; it sees each tuple once, at the end.

    Tuples with a null are kept: whether they count is the function's affair.
    """

    call: AggregateCall
    plain: Callable[[AggregateCall], Accumulator]

    @property
    def _element(self) -> DataType:
        types = self.call.input_types
        return types[0] if len(types) == 1 else Struct(tuple(Field(f"a{i}", of) for i, of in enumerate(types)))

    @property
    def columns(self) -> Schema:
        return (column(self.call, "values", Array(self._element)),)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        args = [
            normalised(pl.col(arg), of).alias(f"a{i}")
            for i, (arg, of) in enumerate(zip(self.call.args, self.call.input_types, strict=True))
        ]
        value = args[0] if len(args) == 1 else pl.struct(args)
        return [filtered(value, self.call).unique()]

    def combine(self) -> list[pl.Expr]:
        lists = old(self.columns[0])
        # An empty list explodes to a null that nobody has seen.
        return [lists.filter(lists.list.len() > 0).list.explode().unique()]

    def merge(self) -> list[pl.Expr]:
        before, added = old(self.columns[0]), new(self.columns[0])
        return [pl.coalesce(pl.concat_list(before, added).list.unique(), before, added)]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        values = accumulators[self.columns[0].name]
        if self.call.function == "count" and len(self.call.args) == 1:
            return result(values.list.drop_nulls().list.len().fill_null(0), self.call)
        lengths = values.list.len().fill_null(0).to_numpy()
        items = values.filter(pl.Series(lengths > 0)).list.explode()
        tuples = items.cast(polars_type(self._element)) if not len(items) else items
        names = tuple(f"a{i}" for i in range(len(self.call.args)))
        seen = tuples.struct.unnest() if len(names) > 1 else tuples.alias("a0").to_frame()
        rows = seen.insert_column(0, pl.Series(ROW, np.repeat(np.arange(len(values)), lengths)))
        over = self.plain(replace(self.call, args=names, distinct=False, filter=None))
        grouped = rows.group_by(ROW, maintain_order=True).agg(partial_expressions((over,), rows))
        all_groups = pl.DataFrame({ROW: np.arange(len(values))})
        settled = Settling((over,)).apply(all_groups.join(grouped, on=ROW, how="left", maintain_order="left"))
        return over.finish(settled)
