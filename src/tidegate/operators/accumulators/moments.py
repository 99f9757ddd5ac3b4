"""Variance, standard deviation, skewness, kurtosis: count, mean and central moments, merged without cancellation.

The moments of a whole are those of its parts, moved to the common mean (Chan et al., Pébay): one formula for two parts and for many.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.types import DOUBLE, LONG, Schema
from tidegate.operators.accumulators.protocol import column, filtered, new, old, result
from tidegate.plan.relational import AggregateCall

SAMPLE = ("stddev", "std", "stddev_samp", "variance", "var_samp")
POPULATION = ("stddev_pop", "var_pop")
SHAPE = ("skewness", "kurtosis")
SQUARES = ("sum_of_squares",)
"""Sum of squared deviations: what ``regr_sxx`` and ``regr_syy`` are made of."""
MOMENTS = (*SAMPLE, *POPULATION, *SHAPE, *SQUARES)
_ORDER = {"skewness": 3, "kurtosis": 4}


@dataclass(frozen=True, slots=True)
class Moments:
    """Nothing seen, a sample of one, or values without any spread where the result would divide by it: null, as Spark has it."""

    call: AggregateCall

    @property
    def order(self) -> int:
        """The highest central moment that the result needs."""
        return _ORDER.get(self.call.function, 2)

    @property
    def columns(self) -> Schema:
        moments = (column(self.call, f"m{power}", DOUBLE) for power in range(2, self.order + 1))
        return (column(self.call, "count", LONG), column(self.call, "mean", DOUBLE), *moments)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        values = filtered(pl.col(self.call.args[0]).cast(pl.Float64), self.call)
        count, mean = values.count().cast(pl.Int64), common_mean(values, values.mean())
        moments = [pl.when(count > 0).then(((values - mean) ** power).sum()) for power in range(2, self.order + 1)]
        return [count, mean, *moments]

    def combine(self) -> list[pl.Expr]:
        count, mean, *moments = (old(field) for field in self.columns)
        total = count.sum()
        centre = common_mean(mean, (count * mean).sum() / total)
        moved = _moved(count, mean - centre, moments)
        return [total, *(pl.when(total > 0).then(one) for one in (centre, *(part.sum() for part in moved)))]

    def merge(self) -> list[pl.Expr]:
        count, mean, *moments = (old(field) for field in self.columns)
        count_2, mean_2, *moments_2 = (new(field) for field in self.columns)
        total = count + count_2
        delta = mean_2 - mean
        centre = mean + delta * count_2 / total
        first = _moved(count, mean - centre, moments)
        second = _moved(count_2, mean_2 - centre, moments_2)
        merged = [centre, *(one + other for one, other in zip(first, second, strict=True))]
        return [
            pl.coalesce(total, count, count_2),
            # One side without a value has null moments; both: so has the whole.
            *(
                pl.coalesce(both, before, after)
                for both, before, after in zip(merged, (mean, *moments), (mean_2, *moments_2), strict=True)
            ),
        ]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        count, _, *moments = (pl.col(field.name) for field in self.columns)
        return result(accumulators.select(self._result(count, moments)).to_series(), self.call)

    def _result(self, count: pl.Expr, moments: list[pl.Expr]) -> pl.Expr:
        m2 = moments[0]
        match self.call.function:
            case "skewness":
                return pl.when(m2 != 0).then(count.cast(pl.Float64).sqrt() * moments[1] / (m2 * m2 * m2).sqrt())
            case "kurtosis":
                return pl.when(m2 != 0).then(count * moments[2] / (m2 * m2) - 3.0)
            case "sum_of_squares":
                return pl.when(count > 0).then(m2)
            case function:
                divisor = count - 1 if function in SAMPLE else count
                variance = pl.when(divisor > 0).then(m2 / divisor)
                return variance.sqrt() if function.startswith("std") else variance


def common_mean(values: pl.Expr, mean: pl.Expr) -> pl.Expr:
    """The mean; of equal values exactly that value, so that they have no spread at all: there Spark's results are null."""
    return pl.when(values.min() == values.max()).then(values.min()).otherwise(mean)


def _moved(count: pl.Expr, by: pl.Expr, moments: list[pl.Expr]) -> list[pl.Expr]:
    """Central moments about another centre, ``by`` away from the mean."""
    m2, *higher = moments
    moved = [m2 + count * by * by]
    if higher:
        moved.append(higher[0] + 3 * by * m2 + count * by**3)
    if len(higher) > 1:
        moved.append(higher[1] + 4 * by * higher[0] + 6 * by * by * m2 + count * by**4)
    return moved
