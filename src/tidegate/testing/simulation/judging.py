"""Whether the output that became visible is the one a run without failures gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum

import polars as pl

from tidegate.model.ids import OperatorId
from tidegate.plan.dead_letters import is_dead_letter_id
from tidegate.testing.simulation.location import FIRST
from tidegate.testing.simulation.query import SimulatedQuery
from tidegate.testing.simulation.relations import LETTERS
from tidegate.testing.simulation.sinks import Transaction


class Promise(Enum):
    EXACTLY_ONCE = "every row counts once"
    AT_LEAST_ONCE = "no row is lost, some may count twice"
    REPEATS = "no row is lost; rows of checkpoints that were lost come twice, as they were"
    LATE_ROWS_DROPPED = "no row counts twice; those that came after the windows had been closed for good may be missing"


def visible_rows(query: SimulatedQuery, visible: dict[Transaction, pl.DataFrame], family: str = FIRST) -> pl.DataFrame:
    """What a reader of the query's own target sees in the end. ``family``: of which pipeline of the job."""
    mine = [one for one in visible if one.sink == query.plan.id and one.pipeline.startswith(family)]
    order = sorted(mine, key=lambda one: (one.pipeline, one.checkpoint, one.attempt, one.subtask))
    if query.whole and order:
        newest = max((one.pipeline, one.attempt, one.checkpoint) for one in order)
        order = [one for one in order if (one.pipeline, one.attempt, one.checkpoint) == newest]
    rows = pl.concat([visible[one] for one in order]) if order else query.answer.clear()
    if query.keys:
        rows = rows.group_by(query.keys, maintain_order=True).last()
    return rows.select(query.answer.columns)


def visible_letters(visible: dict[Transaction, pl.DataFrame], family: str = FIRST) -> pl.DataFrame:
    """Which rows were refused, by whom, as a reader of all dead letters sees it."""
    mine = [
        rows
        for one, rows in visible.items()
        if is_dead_letter_id(OperatorId(one.sink)) and one.pipeline.startswith(family)
    ]
    letters = [
        (function, json.loads(row)["id"]) for rows in mine for row, function in rows.select("row", "function").rows()
    ]
    return pl.DataFrame(letters, schema=LETTERS, orient="row")


def judge_all(
    query: SimulatedQuery,
    visible: dict[Transaction, pl.DataFrame],
    family: str,
    promise_of: Callable[[SimulatedQuery], Promise | None],
) -> Iterator[str]:
    """What is wrong with the results and the dead letters of a query. ``promise_of``: what was promised about a result; None: nothing."""
    for result in query.results:
        promise = promise_of(result)
        if promise is not None:
            wrong = judge(result, result.answer, visible_rows(result, visible, family), promise)
            if wrong is not None:
                yield wrong if len(query.results) == 1 else f"{result.plan.id} ({result.name}): {wrong}"
    if query.refused is not None:
        # Functions stand before whatever knows of time: none of their rows is late.
        letters = replace(query, answer=query.refused, groups=(), counts=False, several=False, windowed=False)
        promise = promise_of(letters)
        wrong = None if promise is None else judge(letters, query.refused, visible_letters(visible, family), promise)
        if wrong is not None:
            yield f"dead letters: {wrong}"


def judge(query: SimulatedQuery, answer: pl.DataFrame, found: pl.DataFrame, promise: Promise) -> str | None:
    """What is wrong with ``found``, in words; None: nothing."""
    columns = answer.columns
    expected, found = answer.sort(columns), found.sort(columns)
    if found.equals(expected):
        return None
    if promise is Promise.EXACTLY_ONCE:
        return _difference(expected, found)
    if promise is Promise.REPEATS:
        return (
            _difference(expected.unique().sort(columns), found.unique().sort(columns))
            if differs(expected, found)
            else None
        )
    wanted, seen = _counted(query, expected), _counted(query, found)
    groups = wanted.columns[:-1]
    both = wanted.join(seen, on=groups, how="full", suffix="_seen", coalesce=True, nulls_equal=True)
    both = both.with_columns(pl.col("n", "n_seen").fill_null(0))
    if query.nullable and promise is Promise.LATE_ROWS_DROPPED:
        both = both.filter(pl.all_horizontal(pl.col(groups).is_not_null()))
    if promise is Promise.AT_LEAST_ONCE:
        wrong = both.filter(pl.col("n_seen") < pl.col("n"))
        return f"rows are lost: {wrong.head(3).rows()}" if wrong.height else None
    if query.counts and not query.several and seen.select(groups).is_duplicated().any():
        return f"a group appears twice: {seen.filter(seen.select(groups).is_duplicated()).head(3).rows()}"
    wrong = both.filter(pl.col("n_seen") > pl.col("n"))
    return f"rows count twice: {wrong.head(3).rows()}" if wrong.height else None


def differs(expected: pl.DataFrame, found: pl.DataFrame) -> bool:
    """Other rows than those expected, or fewer of some."""
    wanted, seen = (
        frame.group_by(expected.columns).len(times) for frame, times in ((expected, "#due"), (found, "#seen"))
    )
    both = wanted.join(seen, on=expected.columns, how="full", coalesce=True, nulls_equal=True)
    return both.filter(pl.col("#due").is_null() | (pl.col("#seen").fill_null(0) < pl.col("#due"))).height > 0


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
