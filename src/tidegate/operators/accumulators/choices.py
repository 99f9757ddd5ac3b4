"""min, max, first, last, any_value, min_by, max_by: one of the values seen is the result."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.types import BOOLEAN, FRACTIONAL, Array, DataType, Schema, Struct
from tidegate.operators.accumulators.protocol import column, filtered, new, old, result
from tidegate.plan.relational import AggregateCall


def _nested(of: DataType) -> bool:
    return isinstance(of, (Array, Struct))


def _beats(added: pl.Expr, before: pl.Expr, of: DataType, *, smaller: bool) -> pl.Expr:
    """Whether ``added`` is the better one; never true when it is null."""
    if not _nested(of):
        return added < before if smaller else added > before
    # Polars sorts arrays and structs (null first, as Spark does) but does not compare them.
    order = pl.concat_list(pl.struct(before.alias("v")), pl.struct(added.alias("v"))).list.eval(pl.element().arg_sort())
    return (order.list.first() == (1 if smaller else 0)) & added.is_not_null()


@dataclass(frozen=True, slots=True)
class Extreme:
    """Nulls do not count; NaN is greater than every number, as in Polars' comparisons but not in its ``max``."""

    call: AggregateCall

    @property
    def columns(self) -> Schema:
        return (column(self.call, self.call.function, self.call.input_types[0]),)

    def _reduced(self, values: pl.Expr) -> pl.Expr:
        if _nested(self.call.input_types[0]):
            ordered = values.drop_nulls().sort()
            return ordered.first() if self.call.function == "min" else ordered.last()
        if self.call.function == "min":
            return values.min()
        return values.nan_max() if self.call.input_types[0] in FRACTIONAL else values.max()

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        return [self._reduced(filtered(pl.col(self.call.args[0]), self.call))]

    def combine(self) -> list[pl.Expr]:
        return [self._reduced(old(self.columns[0]))]

    def merge(self) -> list[pl.Expr]:
        (extreme,) = self.columns
        before, added = old(extreme), new(extreme)
        better = _beats(added, before, self.call.input_types[0], smaller=self.call.function == "min")
        return [pl.when(better).then(added).otherwise(pl.coalesce(before, added))]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        return result(accumulators[self.columns[0].name], self.call)


@dataclass(frozen=True, slots=True)
class Arrival:
    """first, last, any_value by order of arrival. Null is a value to keep, unless the call ignores nulls: hence ``seen``."""

    call: AggregateCall

    @property
    def columns(self) -> Schema:
        return (column(self.call, "seen", BOOLEAN), column(self.call, "value", self.call.input_types[0]))

    @property
    def _newest(self) -> bool:
        return self.call.function in ("last", "last_value")

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        values = filtered(pl.col(self.call.args[0]), self.call)
        if self.call.ignore_nulls:
            values = values.drop_nulls()
        return [pl.when(values.len() > 0).then(True), values.last() if self._newest else values.first()]

    def combine(self) -> list[pl.Expr]:
        seen, value = (old(field) for field in self.columns)
        values = value.filter(seen)
        return [seen.first(ignore_nulls=True), values.last() if self._newest else values.first()]

    def merge(self) -> list[pl.Expr]:
        seen, value = self.columns
        preferred, other = (new, old) if self._newest else (old, new)
        return [
            pl.coalesce(old(seen), new(seen)),
            pl.when(preferred(seen).is_not_null()).then(preferred(value)).otherwise(other(value)),
        ]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        return result(accumulators[self.columns[1].name], self.call)


@dataclass(frozen=True, slots=True)
class ExtremeBy:
    """``min_by(value, order)``, ``max_by``: rows whose order is null do not count; among equals any may win."""

    call: AggregateCall

    @property
    def columns(self) -> Schema:
        value, order = self.call.input_types
        return (column(self.call, "order", order), column(self.call, "value", value))

    def _chosen(self, value: pl.Expr, order: pl.Expr, among: pl.Expr) -> list[pl.Expr]:
        # Sorting, unlike arg_max, puts NaN above all numbers.
        ordered = value.filter(among).sort_by(order.filter(among))
        orders = order.filter(among).sort()
        if self.call.function == "min_by":
            return [orders.first(), ordered.first()]
        return [orders.last(), ordered.last()]

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        value, order = (pl.col(arg) for arg in self.call.args)
        among = order.is_not_null()
        if self.call.filter is not None:
            among = among & pl.col(self.call.filter)
        return self._chosen(value, order, among)

    def combine(self) -> list[pl.Expr]:
        order, value = (old(field) for field in self.columns)
        return self._chosen(value, order, order.is_not_null())

    def merge(self) -> list[pl.Expr]:
        order, value = self.columns
        smaller = self.call.function == "min_by"
        better = _beats(new(order), old(order), self.call.input_types[1], smaller=smaller)
        take = (better | old(order).is_null()).fill_null(False) & new(order).is_not_null()
        return [
            pl.when(take).then(new(order)).otherwise(old(order)),
            pl.when(take).then(new(value)).otherwise(old(value)),
        ]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        return result(accumulators[self.columns[1].name], self.call)
