"""percentile, percentile_cont, percentile_disc, median, mode: how often each value was seen. The cost grows with the distinct values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tidegate.model.errors import DataError
from tidegate.model.types import DAY_TIME_INTERVAL, LONG, Array, Field, Schema
from tidegate.model.types import Struct as StructType
from tidegate.operators.accumulators.lists import ROW, flat, merged_lists
from tidegate.operators.accumulators.protocol import column, filtered, old, result
from tidegate.operators.canonical import normalised
from tidegate.operators.columns import polars_type
from tidegate.plan.relational import AggregateCall

TALLIES = ("percentile", "percentile_disc", "mode")


@dataclass(frozen=True, slots=True)
class Tally:
    """Values that are not null, each with the times it was seen; a value may stand in it twice until the next merge."""

    call: AggregateCall

    @property
    def fields(self) -> Schema:
        return (Field("value", self.call.input_types[0]), Field("n", LONG))

    @property
    def columns(self) -> Schema:
        return (column(self.call, "tally", Array(StructType(self.fields), contains_null=False)),)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        value = normalised(pl.col(self.call.args[0]), self.call.input_types[0])
        if len(self.call.args) == 1:
            counted = filtered(value, self.call).drop_nulls().value_counts(name="n")
            return [counted.struct.rename_fields(["value", "n"])]
        times = pl.col(self.call.args[1])
        self._refuse_negative(rows)
        among = value.is_not_null() & (times > 0)
        if self.call.filter is not None:
            among = among & pl.col(self.call.filter)
        return [pl.struct(value.alias("value"), times.cast(pl.Int64).alias("n")).filter(among)]

    def combine(self) -> list[pl.Expr]:
        return [old(self.columns[0]).list.explode().drop_nulls()]

    def merge(self) -> list[pl.Expr]:
        return [merged_lists(self.columns[0], self.fields, _counted)]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        tally = accumulators[self.columns[0].name]
        items = _counted(flat(tally, self.fields))
        found = self._most_frequent(items) if self.call.function == "mode" else self._percentiles(items)
        rows = pl.DataFrame({ROW: np.arange(len(tally))}).join(found, on=ROW, how="left", maintain_order="left")
        return result(rows.get_column("found"), self.call)

    def _refuse_negative(self, rows: pl.DataFrame) -> None:
        times = rows.get_column(self.call.args[1])
        if (times < 0).any():
            raise DataError(
                f"{self.call.sql}: the frequency {times.min()} is negative",
                hint="pass how often a value counts: 0, 1 …",
            )

    def _most_frequent(self, items: pl.DataFrame) -> pl.DataFrame:
        # Ties: the largest value if the call says so (its parameter is False), else the smallest.
        largest = self.call.params[:1] == (False,)
        ordered = items.sort(ROW, "n", "value", descending=[False, True, largest], maintain_order=True)
        return ordered.group_by(ROW, maintain_order=True).agg(found=pl.col("value").first())

    def _percentiles(self, items: pl.DataFrame) -> pl.DataFrame:
        percentages, descending = self.call.params
        ordered = items.sort(ROW, "value", descending=[False, bool(descending)])
        ranks = Ranks.of(ordered)
        wanted = percentages if isinstance(percentages, tuple) else (percentages,)
        columns = [self._percentile(ranks, float(one)) for one in wanted]  # pyright: ignore[reportArgumentType]
        frame = pl.DataFrame([pl.Series(ROW, ranks.rows), *(one.alias(f"p{i}") for i, one in enumerate(columns))])
        names = [pl.col(f"p{i}") for i in range(len(columns))]
        return frame.select(ROW, found=pl.concat_list(names) if isinstance(percentages, tuple) else names[0])

    def _percentile(self, ranks: Ranks, percentage: float) -> pl.Series:
        if self.call.function == "percentile_disc":
            return ranks.values_at(np.maximum(np.ceil(ranks.totals * percentage).astype(np.int64) - 1, 0))
        position = (ranks.totals - 1) * percentage
        low, high = np.floor(position), np.ceil(position)
        lower, higher = (_numbers(ranks.values_at(at.astype(np.int64))) for at in (low, high))
        same = (low == high) | (lower == higher)
        with np.errstate(invalid="ignore"):
            between = lower + (position - low) * (higher - lower)
        found = pl.Series(np.where(same, lower, between))
        if self.call.input_types[0] == DAY_TIME_INTERVAL:
            return found.cast(pl.Int64).cast(polars_type(DAY_TIME_INTERVAL))
        return found


@dataclass(frozen=True, slots=True)
class Ranks:
    """Values of every group in order, each standing for as many ranks as it was seen."""

    rows: NDArray[np.int64]
    """The groups that have any."""
    totals: NDArray[np.int64]
    values: pl.Series
    _ends: NDArray[np.int64]
    _starts: NDArray[np.int64]

    @classmethod
    def of(cls, ordered: pl.DataFrame) -> Ranks:
        """Items ordered by ``row`` and value, with their ``n``."""
        rows, first = np.unique(ordered.get_column(ROW).to_numpy(), return_index=True)
        ends = np.cumsum(ordered.get_column("n").to_numpy())
        starts = np.concatenate([[0], ends])[first]
        totals = np.diff(np.append(starts, ends[-1:]))
        return cls(rows, totals, ordered.get_column("value"), ends, starts)

    def values_at(self, ranks: NDArray[np.int64]) -> pl.Series:
        """The value at a rank of each group, from 0."""
        return self.values.gather(np.searchsorted(self._ends, self._starts + ranks, side="right"))


def _numbers(values: pl.Series) -> NDArray[np.float64]:
    plain = values.to_physical() if values.dtype.is_temporal() else values
    return plain.cast(pl.Float64).to_numpy()


def _counted(items: pl.DataFrame) -> pl.DataFrame:
    return items.group_by(ROW, "value").agg(pl.col("n").sum()).sort(ROW)
