"""collect_list, collect_set: the accumulator is the collection itself, so its cost grows with it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.types import Array, Schema
from tidegate.operators.accumulators.protocol import column, filtered, new, old, result
from tidegate.operators.canonical import normalised
from tidegate.operators.columns import polars_type
from tidegate.plan.relational import AggregateCall


@dataclass(frozen=True, slots=True)
class Collected:
    """Values that are not null, in order of arrival; each once if ``distinct``. RESPECT NULLS (its parameter): null is a value too."""

    call: AggregateCall
    distinct: bool

    @property
    def _respects_nulls(self) -> bool:
        return self.call.params[:1] == ("respect nulls",)

    @property
    def columns(self) -> Schema:
        return (column(self.call, "values", Array(self.call.input_types[0], contains_null=self._respects_nulls)),)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        column = pl.col(self.call.args[0])
        if self.distinct:
            column = normalised(column, self.call.input_types[0])
        values = filtered(column, self.call)
        if not self._respects_nulls:
            values = values.drop_nulls()
        return [values.unique() if self.distinct else values]

    def combine(self) -> list[pl.Expr]:
        lists = old(self.columns[0])
        # An empty list explodes to a null that nobody has seen.
        values = lists.filter(lists.list.len() > 0).list.explode()
        return [values.unique() if self.distinct else values]

    def merge(self) -> list[pl.Expr]:
        before, added = old(self.columns[0]), new(self.columns[0])
        both = pl.concat_list(before, added)
        return [pl.coalesce(both.list.unique() if self.distinct else both, before, added)]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        name = self.columns[0].name
        empty = pl.lit([], dtype=polars_type(self.columns[0].type))
        return result(accumulators.select(pl.col(name).fill_null(empty)).to_series(), self.call)
