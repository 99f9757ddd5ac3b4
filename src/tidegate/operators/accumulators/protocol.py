"""What an aggregate function is to the engine: mergeable accumulator columns.

    rows ──partial──▶ accumulators of one batch ──merge──▶ accumulators in state ──finish──▶ result
                            └──combine──┘ (several of one key at once)

Null in an accumulator column means "nothing seen yet" and changes nothing when merged, so a new key starts with nulls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import polars as pl

from tidegate.model.errors import DataError
from tidegate.model.types import DataType, Field, Schema
from tidegate.operators.columns import polars_type
from tidegate.plan.relational import AggregateCall

_NEW = "new:"


class Accumulator(Protocol):
    """One call. Expressions give one column each for ``columns``, in order; the caller names them and settles their types."""

    @property
    def call(self) -> AggregateCall: ...

    @property
    def columns(self) -> Schema: ...

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        """Aggregations over rows of the input, in a ``group_by`` of these very ``rows``."""
        ...

    def combine(self) -> list[pl.Expr]:
        """Aggregations over accumulator rows of one key, in a ``group_by``, oldest first."""
        ...

    def merge(self) -> list[pl.Expr]:
        """Row by row: ``old(field)`` with ``new(field)``."""
        ...

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        """The results, of the call's own type."""
        ...


def column(call: AggregateCall, suffix: str, of: DataType) -> Field:
    return Field(f"{call.name}.{suffix}", of)


def old(field: Field) -> pl.Expr:
    return pl.col(field.name)


def new(field: Field) -> pl.Expr:
    return pl.col(_NEW + field.name)


def filtered(expression: pl.Expr, call: AggregateCall) -> pl.Expr:
    """Only rows that pass the call's FILTER clause."""
    return expression if call.filter is None else expression.filter(pl.col(call.filter))


def result(values: pl.Series, call: AggregateCall) -> pl.Series:
    return values.alias(call.name).cast(polars_type(call.type))


def partial_expressions(accumulators: Iterable[Accumulator], rows: pl.DataFrame) -> list[pl.Expr]:
    return [e.alias(f.name) for a in accumulators for e, f in zip(a.partial(rows), a.columns, strict=True)]


def combine_expressions(accumulators: Iterable[Accumulator]) -> list[pl.Expr]:
    return [e.alias(f.name) for a in accumulators for e, f in zip(a.combine(), a.columns, strict=True)]


def merged(accumulators: tuple[Accumulator, ...], before: pl.DataFrame, added: pl.DataFrame) -> pl.DataFrame:
    """Accumulators of the same keys, row by row; both frames have the accumulators' columns in order."""
    expressions = [e.alias(f.name) for a in accumulators for e, f in zip(a.merge(), a.columns, strict=True)]
    names = before.columns
    both = before.hstack([series.alias(_NEW + name) for name, series in zip(names, added.get_columns(), strict=True)])
    with overflow_as_data_error(accumulators):
        return settled(both.select(expressions), accumulators)


def settled(rows: pl.DataFrame, accumulators: tuple[Accumulator, ...]) -> pl.DataFrame:
    """Sums are computed wider than they are kept: back to the declared types, or DataError where one does not fit."""
    narrow: list[pl.Series] = []
    for accumulator in accumulators:
        for field in accumulator.columns:
            wide, wanted = rows[field.name], polars_type(field.type)
            if wide.dtype == wanted:
                continue
            fitting = narrowed(wide, wanted)
            if fitting.null_count() != wide.null_count():
                raise overflow(accumulator.call)
            narrow.append(fitting)
    return rows.with_columns(narrow) if narrow else rows


def narrowed(wide: pl.Series, wanted: pl.DataType) -> pl.Series:
    """Null where a value does not fit."""
    if wide.dtype == pl.Int128 and wanted == pl.Duration("us"):
        wide = wide.cast(pl.Int64, strict=False)
    return wide.cast(wanted, strict=False)


@contextmanager
def overflow_as_data_error(accumulators: tuple[Accumulator, ...]) -> Iterator[None]:
    """Polars itself raises when a decimal outgrows 38 digits, without saying whose it was."""
    try:
        yield
    except pl.exceptions.ComputeError as error:
        suspects = [a.call for a in accumulators if a.call.function in ("sum", "avg", "mean")]
        if "overflow" not in str(error) or not suspects:
            raise
        raise overflow(suspects[0]) from error


def overflow(call: AggregateCall) -> DataError:
    return DataError(
        f"[ARITHMETIC_OVERFLOW] {call.sql or call.function} does not fit its type",
        hint="cast its argument to a wider type (decimal(38,0), double) before aggregating",
    )
