"""What ``pivot`` is made of: of every pivot value, the value that stands beside it, as an array in the order of the pivot values."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.types import Schema
from tidegate.operators.accumulators.protocol import column, new, old, result
from tidegate.operators.columns import polars_type
from tidegate.plan.relational import AggregateCall


@dataclass(frozen=True, slots=True)
class Pivot:
    """``args``: the pivot column, then the value. ``params``: the pivot values. Each stands in one row of a group at most."""

    call: AggregateCall

    @property
    def columns(self) -> Schema:
        of = self.call.input_types[1]
        return tuple(column(self.call, f"p{number}", of) for number in range(len(self.call.params)))

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        pivot, value = (pl.col(arg) for arg in self.call.args)
        of = polars_type(self.call.input_types[0])
        beside = [pivot.eq_missing(pl.lit(wanted, of)) for wanted in self.call.params]
        if self.call.filter is not None:
            beside = [one & pl.col(self.call.filter) for one in beside]
        return [value.filter(one).drop_nulls().last() for one in beside]

    def combine(self) -> list[pl.Expr]:
        return [old(field).drop_nulls().last() for field in self.columns]

    def merge(self) -> list[pl.Expr]:
        return [pl.coalesce(new(field), old(field)) for field in self.columns]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        values = pl.concat_list([pl.col(field.name) for field in self.columns])
        return result(accumulators.select(values).to_series(), self.call)
