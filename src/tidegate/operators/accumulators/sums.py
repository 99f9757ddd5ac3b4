"""count, count_if, sum, avg and the bitwise aggregates: one associative operation per column."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import polars as pl
import pyarrow as pa

from tidegate.model.types import (
    DAY_TIME_INTERVAL,
    DOUBLE,
    INTEGRAL,
    LONG,
    DataType,
    Decimal,
    Schema,
)
from tidegate.operators.accumulators.protocol import column, filtered, new, old, overflow, result
from tidegate.operators.columns import polars_type
from tidegate.plan.relational import AggregateCall


def _added(before: pl.Expr, more: pl.Expr) -> pl.Expr:
    """The sum, with null for "nothing yet" on either side."""
    return pl.coalesce(before + more, before, more)


def _sum_or_null(values: pl.Expr) -> pl.Expr:
    """Spark's sum of nothing is null, Polars' is zero."""
    return pl.when(values.count() > 0).then(values.sum())


def _sum(values: pl.Expr, rows: pl.DataFrame, call: AggregateCall) -> pl.Expr:
    nothing_missing = call.filter is None and rows[call.args[0]].null_count() == 0
    return values.sum() if nothing_missing else _sum_or_null(values)


def _sums_fit(values: pl.Series) -> bool:
    """Whether no subset of these integers can leave 64 bits."""
    if not values.dtype.is_integer():
        return False
    low, high = values.min(), values.max()
    if not isinstance(low, int) or not isinstance(high, int):
        return True
    return max(-low, high) * len(values) < 1 << 63


@dataclass(frozen=True, slots=True)
class Count:
    """``count(*)``, ``count(a, b)`` (rows where none is null), ``count_if(c)``."""

    call: AggregateCall

    @property
    def columns(self) -> Schema:
        return (column(self.call, "count", LONG),)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        args, condition = self.call.args, self.call.filter
        if self.call.function == "count_if":
            counted = filtered(pl.col(args[0]), self.call).sum()
        elif not args:
            counted = pl.len() if condition is None else pl.col(condition).sum()
        elif len(args) == 1:
            counted = filtered(pl.col(args[0]), self.call).count()
        else:
            counted = filtered(reduce(pl.Expr.and_, [pl.col(arg).is_not_null() for arg in args]), self.call).sum()
        return [counted.cast(pl.Int64)]

    def combine(self) -> list[pl.Expr]:
        return [old(self.columns[0]).sum()]

    def merge(self) -> list[pl.Expr]:
        (count,) = self.columns
        return [_added(old(count), new(count))]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        counts = accumulators[self.columns[0].name]
        return result(counts.fill_null(0) if counts.null_count() else counts, self.call)


def sum_type(of: DataType) -> DataType:
    """What a sum is kept in: Spark's own buffer types."""
    match of:
        case Decimal(precision, scale):
            return Decimal(min(38, precision + 10), scale)
        case _ if of in INTEGRAL:
            return LONG
        case _ if of == DAY_TIME_INTERVAL:
            return DAY_TIME_INTERVAL
        case _:
            return DOUBLE


def widened(values: pl.Expr, kept_in: DataType, *, ansi: bool) -> pl.Expr:
    """The type to add in. Long sums get 128 bits, so that an overflow can be seen; without ANSI they wrap around as in Java."""
    match kept_in:
        case Decimal(_, scale):
            return values.cast(pl.Decimal(38, scale))
        case _ if kept_in == DOUBLE:
            return values.cast(pl.Float64)
        case _ if kept_in == DAY_TIME_INTERVAL:
            return values.to_physical().cast(pl.Int128)
        case _:
            return values.cast(pl.Int128 if ansi else pl.Int64)


@dataclass(frozen=True, slots=True)
class Sum:
    """``try_sum``, and sums of decimals without ANSI: null where the whole does not fit, whatever its parts did on the way."""

    call: AggregateCall
    _partial: dict[tuple[bool, bool], list[pl.Expr]] = field(default_factory=dict, compare=False, repr=False)
    """Expressions by whether the sums fit and whether nothing is missing: building them costs as much as a small batch."""

    @property
    def columns(self) -> Schema:
        kept_in = sum_type(self.call.input_types[0])
        if gives_null(self.call) and kept_in not in (DOUBLE, DAY_TIME_INTERVAL):
            kept_in = Decimal(38, kept_in.scale if isinstance(kept_in, Decimal) else 0)
        return (column(self.call, "sum", kept_in),)

    def _widened(self, values: pl.Expr) -> pl.Expr:
        return widened(values, self.columns[0].type, ansi=self.call.ansi)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        values = rows[self.call.args[0]]
        case = (_sums_fit(values), values.null_count() == 0)
        if case not in self._partial:
            column = pl.col(self.call.args[0])
            # That no sum can overflow is the common case, at half the cost.
            addends = column.cast(pl.Int64) if case[0] else self._widened(column)
            self._partial[case] = [_sum(filtered(addends, self.call), rows, self.call)]
        return self._partial[case]

    def combine(self) -> list[pl.Expr]:
        return [_sum_or_null(self._widened(old(self.columns[0])))]

    def merge(self) -> list[pl.Expr]:
        (total,) = self.columns
        return [_added(self._widened(old(total)), self._widened(new(total)))]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        total = accumulators[self.columns[0].name]
        if gives_null(self.call):
            return total.cast(polars_type(self.call.type), strict=False).alias(self.call.name)
        return result(total, self.call)


def gives_null(call: AggregateCall) -> bool:
    """What to do with a result that does not fit: null, or an error (long sums without ANSI wrap around before that)."""
    return call.function.startswith("try_") or (not call.ansi and isinstance(call.input_types[0], Decimal))


@dataclass(frozen=True, slots=True)
class Average:
    """Numbers are summed as doubles, decimals and intervals exactly; their quotient is rounded half up to the result's scale."""

    call: AggregateCall

    @property
    def columns(self) -> Schema:
        of = self.call.input_types[0]
        total = sum_type(of) if isinstance(of, Decimal) or of == DAY_TIME_INTERVAL else DOUBLE
        return (column(self.call, "sum", total), column(self.call, "count", LONG))

    def _widened(self, values: pl.Expr) -> pl.Expr:
        return widened(values, self.columns[0].type, ansi=True)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        values = filtered(self._widened(pl.col(self.call.args[0])), self.call)
        return [_sum(values, rows, self.call), values.count().cast(pl.Int64)]

    def combine(self) -> list[pl.Expr]:
        total, count = self.columns
        return [_sum_or_null(self._widened(old(total))), old(count).sum()]

    def merge(self) -> list[pl.Expr]:
        total, count = self.columns
        return [_added(self._widened(old(total)), self._widened(new(total))), _added(old(count), new(count))]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        total, count = (pl.col(field.name) for field in self.columns)
        kept_in = self.columns[0].type
        if isinstance(kept_in, Decimal):
            quotient = accumulators.select(_quotient(total, count, _scale(self.call.type) - kept_in.scale)).to_series()
            return _as_decimal(quotient, self.call)
        if kept_in == DAY_TIME_INTERVAL:
            quotient = accumulators.select(_quotient(total, count, 0).cast(pl.Int64)).to_series()
            return result(quotient, self.call)
        return result(accumulators.select(pl.when(count > 0).then(total / count)).to_series(), self.call)


def _scale(of: DataType) -> int:
    assert isinstance(of, Decimal)
    return of.scale


def _quotient(total: pl.Expr, count: pl.Expr, more_digits: int) -> pl.Expr:
    """``total / count`` with ``more_digits`` further digits, half away from zero, in whole 128-bit numbers."""
    unscaled = total.to_physical().cast(pl.Int128)
    divisor = pl.when(count > 0).then(count).cast(pl.Int128)
    power = pl.lit(10**more_digits, pl.Int128)
    two = pl.lit(2, pl.Int128)
    size = unscaled.abs()
    whole = size // divisor
    # The remainder is below a row count: scaling it cannot overflow, scaling the total could.
    fraction = (two * (size - whole * divisor) * power + divisor) // (two * divisor)
    return unscaled.sign() * (whole * power + fraction)


def _as_decimal(unscaled: pl.Series, call: AggregateCall) -> pl.Series:
    """The same 128 bits under the result's scale."""
    scale = _scale(call.type)
    array = unscaled.cast(pl.Decimal(38, 0), strict=False)
    if array.null_count() != unscaled.null_count():
        raise overflow(call)
    whole = array.rechunk().to_arrow()
    assert isinstance(whole, pa.Array)
    scaled = pa.Array.from_buffers(pa.decimal128(38, scale), len(whole), whole.buffers(), offset=whole.offset)
    series = pl.Series(scaled)
    fitting = series.cast(pl.Decimal(call.type.precision, scale), strict=False)  # pyright: ignore[reportAttributeAccessIssue]
    if fitting.null_count() != series.null_count() and not gives_null(call):
        raise overflow(call)
    return fitting.alias(call.name)


@dataclass(frozen=True, slots=True)
class Bits:
    """bit_and, bit_or, bit_xor of integers; bool_and, bool_or likewise."""

    call: AggregateCall

    @property
    def columns(self) -> Schema:
        return (column(self.call, "bits", self.call.input_types[0]),)

    def _reduced(self, values: pl.Expr) -> pl.Expr:
        present = values.drop_nulls()
        match self.call.function:
            case "bit_and" | "bool_and" | "every":
                reduced = present.bitwise_and()
            case "bit_or" | "bool_or" | "some" | "any":
                reduced = present.bitwise_or()
            case _:
                reduced = present.bitwise_xor()
        return pl.when(values.count() > 0).then(reduced)

    def partial(self, rows: pl.DataFrame) -> list[pl.Expr]:
        return [self._reduced(filtered(pl.col(self.call.args[0]), self.call))]

    def combine(self) -> list[pl.Expr]:
        return [self._reduced(old(self.columns[0]))]

    def merge(self) -> list[pl.Expr]:
        (bits,) = self.columns
        match self.call.function:
            case "bit_and" | "bool_and" | "every":
                both = old(bits) & new(bits)
            case "bit_or" | "bool_or" | "some" | "any":
                both = old(bits) | new(bits)
            case _:
                both = old(bits) ^ new(bits)
        # Three-valued logic makes `false and null` false, which is the answer here too; `true and null` is null.
        return [pl.coalesce(both, old(bits), new(bits))]

    def finish(self, accumulators: pl.DataFrame) -> pl.Series:
        return result(accumulators[self.columns[0].name], self.call)
