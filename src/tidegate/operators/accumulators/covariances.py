"""corr, covar_pop, covar_samp and the linear regressions: means, squared deviations and their product over pairs of values."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.types import DOUBLE, LONG, Schema
from tidegate.operators.accumulators.moments import common_mean
from tidegate.operators.accumulators.protocol import column, new, old, result
from tidegate.plan.relational import AggregateCall

COVARIANCES = ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_sxy")


@dataclass(frozen=True, slots=True)
class Covariance:
    """Pairs with a null do not count. ``y`` is the first argument, ``x`` the second, as in ``regr_slope(y, x)``.

    Nothing seen, or a division by no spread at all: null, as Spark has it.
    """

    call: AggregateCall

    @property
    def columns(self) -> Schema:
        sums = ("mean_y", "mean_x", "yy", "xx", "xy")
        return (column(self.call, "count", LONG), *(column(self.call, name, DOUBLE) for name in sums))

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        first, second = (pl.col(arg) for arg in self.call.args)
        counted = first.is_not_null() & second.is_not_null()
        if self.call.filter is not None:
            counted = counted & pl.col(self.call.filter)
        y, x = (one.cast(pl.Float64).filter(counted) for one in (first, second))
        mean_y, mean_x = (common_mean(one, one.mean()) for one in (y, x))
        count, dy, dx = y.len().cast(pl.Int64), y - mean_y, x - mean_x
        sums = [pl.when(count > 0).then(one.sum()) for one in (dy * dy, dx * dx, dx * dy)]
        return [count, mean_y, mean_x, *sums]

    def combine(self) -> list[pl.Expr]:
        count, mean_y, mean_x, *sums = (old(field) for field in self.columns)
        total = count.sum()
        centre_y, centre_x = (common_mean(mean, (count * mean).sum() / total) for mean in (mean_y, mean_x))
        moved = _moved(count, mean_y - centre_y, mean_x - centre_x, sums)
        parts = (centre_y, centre_x, *(one.sum() for one in moved))
        return [total, *(pl.when(total > 0).then(one) for one in parts)]

    def merge(self) -> list[pl.Expr]:
        count, *before = (old(field) for field in self.columns)
        count_2, *added = (new(field) for field in self.columns)
        total = count + count_2
        centres = [mean + (mean_2 - mean) * count_2 / total for mean, mean_2 in zip(before[:2], added[:2], strict=True)]
        first = _moved(count, before[0] - centres[0], before[1] - centres[1], before[2:])
        second = _moved(count_2, added[0] - centres[0], added[1] - centres[1], added[2:])
        merged = [*centres, *(one + other for one, other in zip(first, second, strict=True))]
        return [
            pl.coalesce(total, count, count_2),
            # One side without a pair has null sums; both: so has the whole.
            *(pl.coalesce(of) for of in zip(merged, before, added, strict=True)),
        ]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        return result(accumulators.select(self._result()).to_series(), self.call)

    def _result(self) -> pl.Expr:
        count, mean_y, mean_x, yy, xx, xy = (pl.col(field.name) for field in self.columns)
        match self.call.function:
            case "covar_pop":
                return pl.when(count > 0).then(xy / count)
            case "covar_samp":
                return pl.when(count > 1).then(xy / (count - 1))
            case "corr":
                return pl.when((count > 1) & (xx * yy != 0)).then(xy / (xx * yy).sqrt())
            case "regr_slope":
                return pl.when(xx != 0).then(xy / xx)
            case "regr_intercept":
                return pl.when(xx != 0).then(mean_y - xy / xx * mean_x)
            case "regr_r2":
                return pl.when(xx != 0).then(pl.when(yy == 0).then(1.0).otherwise(xy * xy / xx / yy))
            case _:
                return pl.when(count > 0).then(xy)


def _moved(count: pl.Expr, dy: pl.Expr, dx: pl.Expr, sums: list[pl.Expr]) -> list[pl.Expr]:
    """Sums of products of deviations from another centre, ``dy`` and ``dx`` away from the means."""
    yy, xx, xy = sums
    return [yy + count * dy * dy, xx + count * dx * dx, xy + count * dx * dy]
