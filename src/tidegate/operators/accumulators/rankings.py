"""``max_by(value, order, k)``, ``min_by(value, order, k)``: the values of the k largest or smallest orders, best first."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.types import Array, Field, Schema, Struct
from tidegate.operators.accumulators.lists import ROW, flat, listed, merged_lists
from tidegate.operators.accumulators.protocol import column, old, result
from tidegate.operators.columns import polars_type
from tidegate.plan.relational import AggregateCall


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows whose order is null do not count; among equals any may win. The accumulator never holds more than k."""

    call: AggregateCall

    @property
    def fields(self) -> Schema:
        value, order = self.call.input_types
        return (Field("order", order), Field("value", value))

    @property
    def columns(self) -> Schema:
        return (column(self.call, "best", Array(Struct(self.fields), contains_null=False)),)

    @property
    def _descending(self) -> bool:
        return self.call.function == "max_by"

    @property
    def _k(self) -> int:
        (k,) = self.call.params
        assert isinstance(k, int)
        return k

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        value, order = (pl.col(arg) for arg in self.call.args)
        among = order.is_not_null()
        if self.call.filter is not None:
            among = among & pl.col(self.call.filter)
        pairs = pl.struct(order.alias("order"), value.alias("value")).filter(among)
        return [pairs.sort_by(order.filter(among), descending=self._descending).head(self._k)]

    def combine(self) -> list[pl.Expr]:
        return [old(self.columns[0]).list.explode().drop_nulls()]

    def merge(self) -> list[pl.Expr]:
        return [merged_lists(self.columns[0], self.fields, self._best)]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        lists = accumulators[self.columns[0].name]
        best = listed(self._best(flat(lists, self.fields)), self.fields, len(lists))
        values = pl.DataFrame({"best": best}).select(
            pl.col("best").list.eval(pl.element().struct.field("value")).cast(polars_type(self.call.type))
        )
        return result(values.to_series(), self.call)

    def _best(self, items: pl.DataFrame) -> pl.DataFrame:
        ordered = items.sort(ROW, "order", descending=[False, self._descending], maintain_order=True)
        return ordered.group_by(ROW, maintain_order=True).head(self._k)
