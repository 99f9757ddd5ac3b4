"""product: of doubles, nulls left out."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.types import DOUBLE, Schema
from tidegate.operators.accumulators.protocol import column, filtered, new, old, result
from tidegate.plan.relational import AggregateCall


@dataclass(frozen=True, slots=True)
class Product:
    call: AggregateCall

    @property
    def columns(self) -> Schema:
        return (column(self.call, "product", DOUBLE),)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        return [_product(filtered(pl.col(self.call.args[0]).cast(pl.Float64), self.call))]

    def combine(self) -> list[pl.Expr]:
        return [_product(old(self.columns[0]))]

    def merge(self) -> list[pl.Expr]:
        before, added = old(self.columns[0]), new(self.columns[0])
        return [pl.coalesce(before * added, before, added)]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        return result(accumulators[self.columns[0].name], self.call)


def _product(values: pl.Expr) -> pl.Expr:
    return pl.when(values.count() > 0).then(values.drop_nulls().product())
