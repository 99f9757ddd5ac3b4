"""Variance and standard deviation: count, mean and sum of squared deviations, merged without cancellation (Chan et al.)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.types import DOUBLE, LONG, Schema
from tidegate.operators.accumulators.protocol import column, filtered, new, old, result
from tidegate.plan.relational import AggregateCall

SAMPLE = ("stddev", "std", "stddev_samp", "variance", "var_samp")
POPULATION = ("stddev_pop", "var_pop")


@dataclass(frozen=True, slots=True)
class Moments:
    """Nothing seen, or a sample of one: null, as Spark has it."""

    call: AggregateCall

    @property
    def columns(self) -> Schema:
        return (column(self.call, "count", LONG), column(self.call, "mean", DOUBLE), column(self.call, "m2", DOUBLE))

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        values = filtered(pl.col(self.call.args[0]).cast(pl.Float64), self.call)
        count = values.count().cast(pl.Int64)
        return [count, values.mean(), values.var(ddof=0) * count]

    def combine(self) -> list[pl.Expr]:
        count, mean, m2 = (old(field) for field in self.columns)
        total = count.sum()
        centre = (count * mean).sum() / total
        spread = (count * (mean - centre) ** 2).sum()
        seen = total > 0
        return [total, pl.when(seen).then(centre), pl.when(seen).then(m2.sum() + spread)]

    def merge(self) -> list[pl.Expr]:
        count, mean, m2 = (old(field) for field in self.columns)
        count_2, mean_2, m2_2 = (new(field) for field in self.columns)
        total = count + count_2
        delta = mean_2 - mean
        return [
            pl.coalesce(total, count, count_2),
            pl.coalesce(mean + delta * count_2 / total, mean, mean_2),
            pl.coalesce(m2 + m2_2 + delta * delta * count * count_2 / total, m2, m2_2),
        ]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        count, _, m2 = (pl.col(field.name) for field in self.columns)
        divisor = count - 1 if self.call.function in SAMPLE else count
        variance = pl.when(divisor > 0).then(m2 / divisor)
        wanted = variance.sqrt() if self.call.function.startswith("std") else variance
        return result(accumulators.select(wanted).to_series(), self.call)
