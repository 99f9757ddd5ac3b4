"""collect_list, collect_set and DISTINCT: the accumulator is the collection itself, so its cost grows with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from tidegate.model.types import Array, Schema
from tidegate.operators.accumulators.protocol import (
    Settling,
    column,
    filtered,
    new,
    old,
    partial_expressions,
    result,
)
from tidegate.operators.accumulators.sums import Average, Sum
from tidegate.operators.columns import polars_type
from tidegate.plan.relational import AggregateCall


@dataclass(frozen=True, slots=True)
class Collected:
    """Values that are not null, in order of arrival; each once if ``distinct``."""

    call: AggregateCall
    distinct: bool

    @property
    def columns(self) -> Schema:
        return (column(self.call, "values", Array(self.call.input_types[0], contains_null=False)),)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        values = filtered(pl.col(self.call.args[0]), self.call).drop_nulls()
        return [values.unique() if self.distinct else values]

    def combine(self) -> list[pl.Expr]:
        values = old(self.columns[0]).list.explode().drop_nulls()
        return [values.unique() if self.distinct else values]

    def merge(self) -> list[pl.Expr]:
        before, added = old(self.columns[0]), new(self.columns[0])
        both = pl.concat_list(before, added)
        return [pl.coalesce(both.list.unique() if self.distinct else both, before, added)]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        name = self.columns[0].name
        empty = pl.lit([], dtype=polars_type(self.columns[0].type))
        return result(accumulators.select(pl.col(name).fill_null(empty)).to_series(), self.call)


@dataclass(frozen=True, slots=True)
class Distinct:
    """``count(distinct x)``, ``sum(distinct x)``, ``avg(distinct x)`` over the set of values seen."""

    call: AggregateCall

    @property
    def _set(self) -> Collected:
        return Collected(self.call, distinct=True)

    @property
    def columns(self) -> Schema:
        return self._set.columns

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        return self._set.partial(rows)

    def combine(self) -> list[pl.Expr]:
        return self._set.combine()

    def merge(self) -> list[pl.Expr]:
        return self._set.merge()

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        values = accumulators[self.columns[0].name]
        if self.call.function == "count":
            return result(values.list.len().fill_null(0), self.call)
        plain = replace(self.call, args=("value",), distinct=False, filter=None)
        over = Sum(plain) if self.call.function == "sum" else Average(plain)
        # One group per row: the plain aggregate over the exploded set, in row order.
        exploded = pl.DataFrame({"row": range(len(values)), "value": values}).explode(
            "value", empty_as_null=True, keep_nulls=True
        )
        grouped = exploded.group_by("row", maintain_order=True).agg(partial_expressions((over,), exploded))
        return over.finish(Settling((over,)).apply(grouped))
