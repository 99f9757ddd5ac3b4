"""First phase of an aggregation: the rows of one batch become one row of accumulators per key. Keeps nothing."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tidegate.model.elements import Batch, Output
from tidegate.model.types import INTEGER, Field, Schema
from tidegate.operators.accumulators.protocol import (
    Accumulator,
    Settling,
    overflow_as_data_error,
    partial_expressions,
)
from tidegate.operators.accumulators.registry import accumulator_of
from tidegate.operators.canonical import normalised
from tidegate.operators.protocol import Operator
from tidegate.plan.relational import Aggregate, PartialAggregate
from tidegate.state.leaves import leaf_expression, leaves_of, put_together

_ONE_KEY = pl.lit(True).alias("k")

ROWS = Field(".rows", INTEGER, nullable=False)
"""Rows of the input that an accumulator row stands for."""


def key_schema(aggregate: Aggregate) -> Schema:
    fields = {field.name: field for field in aggregate.input_schema}
    return tuple(fields[key] for key in aggregate.keys)


def accumulators_of(aggregate: Aggregate) -> tuple[Accumulator, ...]:
    return tuple(accumulator_of(call) for call in aggregate.calls)


def partial_schema(aggregate: Aggregate) -> Schema:
    """What the first phase sends to the second: the keys, then the accumulator columns of every call, then the number of
    rows they stand for where the second phase may drop them as late and no call counts them anyway."""
    accumulators = accumulators_of(aggregate)
    columns = (field for accumulator in accumulators for field in accumulator.columns)
    counted = (ROWS,) if aggregate.event_time is not None and rows_column(accumulators) == ROWS.name else ()
    return (*key_schema(aggregate), *columns, *counted)


def rows_column(accumulators: tuple[Accumulator, ...]) -> str:
    """The column of accumulator rows that says how many rows of the input each of them stands for."""
    for accumulator in accumulators:
        call = accumulator.call
        if call.function == "count" and not call.args and not call.distinct and call.filter is None:
            return accumulator.columns[0].name
    return ROWS.name


class PartialAggregateOperator(Operator):
    """Output: ``partial_schema``, one row per key of the batch, in no particular order."""

    def __init__(self, node: PartialAggregate) -> None:
        super().__init__()
        self._keys = key_schema(node.aggregate)
        self._accumulators = accumulators_of(node.aggregate)
        schema = partial_schema(node.aggregate)
        self._names = [field.name for field in schema[len(self._keys) :]]
        self._counting = [pl.len().cast(pl.Int32).alias(ROWS.name)] if ROWS in schema else []
        self._settling = Settling(self._accumulators)
        self._grouping = [
            normalised(leaf_expression(leaf), leaf.type).alias(f"k{i}") for i, leaf in enumerate(leaves_of(self._keys))
        ]

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        if batch.rows.height:
            yield batch.with_rows(self._aggregated(batch.rows))

    def _aggregated(self, rows: pl.DataFrame) -> pl.DataFrame:
        with overflow_as_data_error(self._accumulators):
            aggregations = partial_expressions(self._accumulators, rows) + self._counting
            grouped = rows.group_by(self._grouping or [_ONE_KEY]).agg(aggregations)
        grouped = self._settling.apply(grouped)
        if not self._keys:
            return grouped.drop("k")
        return put_together(grouped, self._keys, self._names)
