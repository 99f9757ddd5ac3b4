"""``sequence``: arrays that count from one value to another."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.model import types as t
from tidegate.model.types import Array
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import lists, zones
from tidegate.operators.expressions.calendar import zoned
from tidegate.operators.expressions.civil import US_PER_DAY
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import arity, function
from tidegate.plan.expressions import Call, Literal

_LENGTH_MAX = 10_000_000
"""Longer arrays than this would not fit a batch."""


def _countable(call: Call) -> str | None:
    of = call.args[0].type
    if of in t.INTEGRAL:
        return None
    if of not in (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ):
        return f"sequence is not supported for {t.simple_string(of)}"
    if len(call.args) < 3 or call.args[2].type != t.DAY_TIME_INTERVAL:
        return "sequence of dates needs a step in days, hours, minutes or seconds"
    if of == t.TIMESTAMP and zones.fixed_offset_us(call.zone) is None and not _within_days(call):
        return "sequence of timestamps by days is supported only in time zones without daylight saving"
    return zoned(call)


def _within_days(call: Call) -> bool:
    """Hours and less have one length; days have not."""
    step = call.args[2]
    return isinstance(step, Literal) and hasattr(step.value, "total_seconds") and step.value.days == 0  # type: ignore[union-attr]


@function("sequence", supports=arity(2, 3, also=_countable))
def sequence(call: Call, start: pl.Expr, stop: pl.Expr, step: pl.Expr | None = None) -> Built:
    """Both ends belong to it; without a step it counts by one, up or down."""
    kind = call.type
    assert isinstance(kind, Array)
    element = polars_type(kind.element)
    is_date = kind.element == t.DATE
    first, last = (one.to_physical().cast(pl.Int64) for one in (start, stop))
    if step is None:
        by = pl.when(first <= last).then(1).otherwise(-1).cast(pl.Int64)
    else:
        by = step.to_physical().cast(pl.Int64)
        by = by // US_PER_DAY if is_date else by
    present = start.is_not_null() & stop.is_not_null() & by.is_not_null()
    wrong = ((by == 0) & (first != last)) | ((by > 0) & (first > last)) | ((by < 0) & (first < last))
    span = (last.cast(pl.Int128) - first.cast(pl.Int128)) // pl.when(by == 0).then(1).otherwise(by)
    long = span >= _LENGTH_MAX

    def run(rows: pl.Series) -> pl.Series:
        missing = rows.struct.field("count").is_null().to_numpy()
        lengths = rows.struct.field("count").fill_null(0).to_numpy()
        places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        starts = np.repeat(rows.struct.field("begin").fill_null(0).to_numpy(), lengths)
        strides = np.repeat(rows.struct.field("stride").fill_null(0).to_numpy(), lengths)
        values = pl.Series(starts + places * strides, dtype=pl.Int64)
        physical = values.cast(pl.Int32) if is_date else values
        return lists.gathered(physical.cast(element), lengths, missing)

    usable = present & ~wrong & ~long
    columns = pl.struct(begin=first, count=pl.when(usable).then(span + 1).cast(pl.Int64), stride=by)
    value = columns.map_batches(run, return_dtype=polars_type(kind), is_elementwise=True)
    checks = (
        Check(present & wrong, "_LEGACY_ERROR_TEMP_3243", always=True),
        Check(present & ~wrong & long, "COLLECTION_SIZE_LIMIT_EXCEEDED", always=True),
    )
    return Checked(value, checks)
