"""Whether the output that became visible is the one a run without failures gives."""

from __future__ import annotations

from enum import Enum

import polars as pl

from tidegate.testing.simulation.query import SimulatedQuery
from tidegate.testing.simulation.sinks import Transaction


class Promise(Enum):
    EXACTLY_ONCE = "every row counts once"
    AT_LEAST_ONCE = "no row is lost, some may count twice"
    LATE_ROWS_DROPPED = "no row counts twice; those that came after the windows had been closed for good may be missing"


def visible_rows(query: SimulatedQuery, visible: dict[Transaction, pl.DataFrame]) -> pl.DataFrame:
    """What a reader sees in the end."""
    order = sorted(visible, key=lambda one: (one.pipeline, one.checkpoint, one.attempt, one.subtask))
    rows = pl.concat([visible[one] for one in order]) if order else query.answer.clear()
    if query.keys:
        rows = rows.group_by(query.keys, maintain_order=True).last()
    return rows.select(query.answer.columns)


def judge(query: SimulatedQuery, answer: pl.DataFrame, found: pl.DataFrame, promise: Promise) -> str | None:
    """What is wrong with ``found``, in words; None: nothing."""
    columns = answer.columns
    expected, found = answer.sort(columns), found.sort(columns)
    if found.equals(expected):
        return None
    if promise is Promise.EXACTLY_ONCE:
        return _difference(expected, found)
    wanted, seen = _counted(query, expected), _counted(query, found)
    groups = wanted.columns[:-1]
    both = wanted.join(seen, on=groups, how="full", suffix="_seen", coalesce=True, nulls_equal=True)
    both = both.with_columns(pl.col("n", "n_seen").fill_null(0))
    if promise is Promise.AT_LEAST_ONCE:
        wrong = both.filter(pl.col("n_seen") < pl.col("n"))
        return f"rows are lost: {wrong.head(3).rows()}" if wrong.height else None
    if query.counts and not query.several and seen.select(groups).is_duplicated().any():
        return f"a group appears twice: {seen.filter(seen.select(groups).is_duplicated()).head(3).rows()}"
    wrong = both.filter(pl.col("n_seen") > pl.col("n"))
    return f"rows count twice: {wrong.head(3).rows()}" if wrong.height else None


def _counted(query: SimulatedQuery, rows: pl.DataFrame) -> pl.DataFrame:
    """Per group, how many input rows it stands for."""
    if query.several:
        return rows.group_by(query.groups).agg(
            pl.col("n").sum() if query.counts else pl.len().cast(pl.Int64).alias("n")
        )
    if query.counts:
        return rows.select(*query.groups, "n")
    return rows.group_by(rows.columns).len("n").cast({"n": pl.Int64})


def _difference(expected: pl.DataFrame, found: pl.DataFrame) -> str:
    columns = expected.columns
    counted = [frame.group_by(columns).len() for frame in (expected, found)]
    missing = counted[0].join(counted[1], on=[*columns, "len"], how="anti", nulls_equal=True)
    extra = counted[1].join(counted[0], on=[*columns, "len"], how="anti", nulls_equal=True)
    return (
        f"output differs: expected {expected.height} rows, found {found.height}; "
        f"missing or short {missing.sort(columns).head(3).rows()}, extra {extra.sort(columns).head(3).rows()}"
    )
