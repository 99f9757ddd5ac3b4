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
from tidegate.state.frames import renamed

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
    named, wanted = values.alias(call.name), polars_type(call.type)
    return named if named.dtype == wanted else named.cast(wanted)


def partial_expressions(accumulators: Iterable[Accumulator], rows: pl.DataFrame) -> list[pl.Expr]:
    return [e.alias(f.name) for a in accumulators for e, f in zip(a.partial(rows), a.columns, strict=True)]


class Merging:
    """How the accumulators of one aggregation are put together, compiled once."""

    def __init__(self, accumulators: tuple[Accumulator, ...]) -> None:
        self._accumulators = accumulators
        self.names = [field.name for a in accumulators for field in a.columns]
        self._new_names = [_NEW + name for name in self.names]
        self._combine = _named((a.combine() for a in accumulators), self.names)
        self._merge = _named((a.merge() for a in accumulators), self.names)
        self._settling = Settling(accumulators)

    def combined(self, rows: pl.DataFrame, by: str) -> pl.DataFrame:
        """Accumulator rows with equal ``by`` become one, oldest first; groups in the order of their first rows."""
        with overflow_as_data_error(self._accumulators):
            return self._settling.apply(rows.group_by(by, maintain_order=True).agg(self._combine))

    def merged(self, before: pl.DataFrame, added: pl.DataFrame) -> pl.DataFrame:
        """Accumulators of the same keys, row by row; both frames have the accumulators' columns in order."""
        both = before.hstack(renamed(added, self._new_names).get_columns())
        with overflow_as_data_error(self._accumulators):
            return self._settling.apply(both.select_seq(self._merge))


def _named(expressions: Iterable[list[pl.Expr]], names: list[str]) -> list[pl.Expr]:
    flat = [expression for of_one in expressions for expression in of_one]
    return [expression.alias(name) for expression, name in zip(flat, names, strict=True)]


class Settling:
    """Sums are computed wider than they are kept: back to the declared types, or DataError where one does not fit."""

    def __init__(self, accumulators: tuple[Accumulator, ...]) -> None:
        self._fields = [(field.name, polars_type(field.type), a.call) for a in accumulators for field in a.columns]

    def apply(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Columns that belong to no accumulator stay as they are."""
        result = rows
        for name, wanted, call in self._fields:
            wide = rows.get_column(name)
            if wide.dtype == wanted:
                continue
            fitting = narrowed(wide, wanted)
            if fitting.null_count() != wide.null_count():
                raise overflow(call)
            result = rows.clone() if result is rows else result
            result.replace_column(rows.get_column_index(name), fitting)
        return result


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
        suspects = [a.call for a in accumulators if a.call.function.removeprefix("try_") in ("sum", "avg", "mean")]
        if "overflow" not in str(error) or not suspects:
            raise
        raise overflow(suspects[0]) from error


def overflow(call: AggregateCall) -> DataError:
    return DataError(
        f"[ARITHMETIC_OVERFLOW] {call.sql or call.function} does not fit its type",
        hint="cast its argument to a wider type (decimal(38,0), double) before aggregating",
    )
