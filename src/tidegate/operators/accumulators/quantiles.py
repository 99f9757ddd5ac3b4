"""percentile_approx: a summary of the values from which the value at any rank can be told within ``count / accuracy`` ranks.

The summary is a tally: values, each standing for ``n`` of them. Up to ``16 × accuracy`` distinct values it is exact. Beyond that, items are sorted
into levels by the power of two of their ``n``, and a level with more than ``k`` items is halved: neighbours become one, which stands for
both. That moves ranks by less than the larger ``n``, at most ``2 · 2^level``, and it happens at most ``count / (k · 2^level)`` times per
level; with ``L`` levels ranks are off by at most ``2 L · count / k``. Hence ``k = 2 · max(8, L) · accuracy``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.model.types import Schema
from tidegate.operators.accumulators.lists import ROW, flat, merged_lists
from tidegate.operators.accumulators.protocol import result
from tidegate.operators.accumulators.tallies import Ranks, Tally
from tidegate.plan.relational import AggregateCall

_LEVELS_MIN = 8


@dataclass(frozen=True, slots=True)
class Quantiles:
    """``params``: the percentage or percentages, then the accuracy. Nulls do not count; nothing seen: null."""

    call: AggregateCall

    @property
    def _tally(self) -> Tally:
        return Tally(self.call)

    @property
    def columns(self) -> Schema:
        return self._tally.columns

    @property
    def _accuracy(self) -> int:
        accuracy = self.call.params[1]
        assert isinstance(accuracy, int)
        return accuracy

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        return self._tally.partial(rows)

    def combine(self) -> list[pl.Expr]:
        return self._tally.combine()

    def merge(self) -> list[pl.Expr]:
        return [merged_lists(self.columns[0], self._tally.fields, self._reduced)]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        tally = accumulators[self.columns[0].name]
        ranks = Ranks.of(flat(tally, self._tally.fields).sort(ROW, "value"))
        percentages = self.call.params[0]
        wanted = percentages if isinstance(percentages, tuple) else (percentages,)
        found = [self._at(ranks, float(one)).alias(f"p{i}") for i, one in enumerate(wanted)]  # pyright: ignore[reportArgumentType]
        frame = pl.DataFrame([pl.Series(ROW, ranks.rows), *found])
        names = [one.name for one in found]
        chosen = frame.select(ROW, found=pl.concat_list(names) if isinstance(percentages, tuple) else pl.col(names[0]))
        rows = pl.DataFrame({ROW: np.arange(len(tally))}).join(chosen, on=ROW, how="left", maintain_order="left")
        return result(rows.get_column("found"), self.call)

    def _at(self, ranks: Ranks, percentage: float) -> pl.Series:
        """A percentage within the error of one end of the scale is that end, as Spark has it."""
        error = 1.0 / self._accuracy
        if percentage <= error:
            return ranks.values_at(np.zeros(len(ranks.totals), np.int64))
        if percentage >= 1.0 - error:
            return ranks.values_at(ranks.totals - 1)
        return ranks.values_at(np.maximum(np.ceil(percentage * ranks.totals).astype(np.int64), 1) - 1)

    def _reduced(self, items: pl.DataFrame) -> pl.DataFrame:
        counted = items.group_by(ROW, "value").agg(pl.col("n").sum())
        level_items_max = 2 * _LEVELS_MIN * self._accuracy
        if counted.height <= level_items_max:
            return counted.sort(ROW)
        totals = counted.group_by(ROW).agg(pl.col("n").sum())["n"].max()
        assert isinstance(totals, int)
        levels = math.ceil(math.log2(totals / level_items_max)) if totals > level_items_max else 0
        return _halved(counted, max(level_items_max, 2 * levels * self._accuracy))


def _halved(items: pl.DataFrame, level_items_max: int) -> pl.DataFrame:
    """Until no level of any row has more items than that. The smallest and the largest value of a row stay."""
    columns, level = items.columns, pl.col("n").log(2).floor().cast(pl.Int64)
    while True:
        levelled = items.with_columns(level=level).with_columns(crowded=pl.len().over(ROW, "level") > level_items_max)
        crowded = levelled.filter("crowded")
        if not crowded.height:
            return items.sort(ROW)
        at = pl.int_range(pl.len()).over(ROW, "level")
        pairs = crowded.sort(ROW, "level", "value").with_columns(pair=at // 2, last=pl.len().over(ROW, "level") // 2)
        # Now the smaller one stands for both, now the larger: their errors cancel.
        upper = (pl.col("pair") % 2 == 1) | (pl.col("pair") >= pl.col("last") - 1)
        merged = pairs.group_by(ROW, "level", "pair", maintain_order=True).agg(
            pl.when(upper.first()).then(pl.col("value").last()).otherwise(pl.col("value").first()).alias("value"),
            pl.col("n").sum(),
        )
        items = pl.concat([levelled.filter(~pl.col("crowded")).select(columns), merged.select(columns)])
