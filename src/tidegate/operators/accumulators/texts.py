"""listagg, string_agg: strings or bytes put together, in order of arrival or as WITHIN GROUP (ORDER BY …) says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.model.types import BINARY, Array, Field, Schema, Struct
from tidegate.operators.accumulators.lists import ROW, flat
from tidegate.operators.accumulators.protocol import column, new, old, result
from tidegate.plan.relational import AggregateCall


@dataclass(frozen=True, slots=True)
class Joined:
    """``args``: the value, then the columns it is ordered by. ``params``: the delimiter, then ``asc`` or ``desc`` with
    ``nulls first`` or ``nulls last`` for each of those. Values that are null are left out; without any the result is null."""

    call: AggregateCall

    @property
    def fields(self) -> Schema:
        return tuple(Field(f"a{i}", of) for i, of in enumerate(self.call.input_types))

    @property
    def columns(self) -> Schema:
        return (column(self.call, "pieces", Array(Struct(self.fields), contains_null=False)),)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        among = pl.col(self.call.args[0]).is_not_null()
        if self.call.filter is not None:
            among = among & pl.col(self.call.filter)
        pieces = pl.struct(pl.col(arg).alias(f"a{i}") for i, arg in enumerate(self.call.args))
        return [pieces.filter(among)]

    def combine(self) -> list[pl.Expr]:
        return [old(self.columns[0]).list.explode().drop_nulls()]

    def merge(self) -> list[pl.Expr]:
        before, added = old(self.columns[0]), new(self.columns[0])
        return [pl.coalesce(pl.concat_list(before, added), before, added)]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        lists = accumulators[self.columns[0].name]
        pieces = self._ordered(flat(lists, self.fields))
        joined = pieces.group_by(ROW, maintain_order=True).agg(text=self._joined())
        rows = pl.DataFrame({ROW: np.arange(len(lists))}).join(joined, on=ROW, how="left", maintain_order="left")
        return result(rows.get_column("text"), self.call)

    def _ordered(self, pieces: pl.DataFrame) -> pl.DataFrame:
        orders = [str(order) for order in self.call.params[1:]]
        if not orders:
            return pieces
        return pieces.sort(
            ROW,
            *(f"a{i}" for i in range(1, len(orders) + 1)),
            descending=[False, *(order.startswith("desc") for order in orders)],
            nulls_last=[False, *(order.endswith("nulls last") for order in orders)],
            maintain_order=True,
        )

    def _joined(self) -> pl.Expr:
        delimiter = self.call.params[0]
        if self.call.input_types[0] != BINARY:
            return pl.col("a0").str.join(str(delimiter or ""))
        assert isinstance(delimiter, bytes | None)
        # Polars joins text only; in hexadecimal, bytes are text.
        return pl.col("a0").bin.encode("hex").str.join((delimiter or b"").hex()).str.decode("hex")
