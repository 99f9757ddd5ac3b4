"""Ends of a query: rows, windows, running and whole results, each with the answer a run without failures gives."""

from __future__ import annotations

import random
from dataclasses import replace

import polars as pl

from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import LONG, TIMESTAMP_NTZ, Field
from tidegate.plan.expressions import Column, Expression
from tidegate.plan.ordering import Sort, SortKey
from tidegate.plan.relational import Aggregate, AggregateCall, EventTimeKey, Expand, Plan
from tidegate.testing.simulation.keyed import (
    deduplicated,
    forever_deduplicated,
    limited,
    patient,
    sessions,
    stateful,
)
from tidegate.testing.simulation.query import SimulatedQuery, sink
from tidegate.testing.simulation.relations import (
    WINDOW_US,
    Relation,
    end_of_window,
    long,
    micros,
    project,
    window_end,
)

FUNCTIONS = ("count", "sum", "min", "max")


def _rows(of: Relation, chance: random.Random) -> SimulatedQuery:
    """No state but the positions: every row appears once."""
    del chance
    last = project(
        of.plan,
        {
            "id": (of.column("id"), LONG),
            "key": (of.column("key"), LONG),
            "value": (of.column("value"), LONG),
            "at": (micros(of.column("ts")), LONG),
        },
    )
    return SimulatedQuery("rows", sink(last), of.rows.rename({"ts": "at"}))


def _windows(of: Relation, chance: random.Random) -> SimulatedQuery:
    """Tumbling windows in append mode, closed by watermarks and by the drain at the end."""
    assigned = project(
        of.plan,
        {
            "end#w": (window_end(of, 0), TIMESTAMP_NTZ),
            "key#w": (of.column("key"), LONG),
            "value#w": (of.column("value"), LONG),
        },
    )
    return _closed("tumbling windows", assigned, of.rows.with_columns(end=end_of_window(0)), chance)


def _sliding_windows(of: Relation, chance: random.Random) -> SimulatedQuery:
    """Every row belongs to two windows that overlap by half."""
    schema = (Field("end#w", TIMESTAMP_NTZ), Field("key#w", LONG), Field("value#w", LONG))
    halves = (0, WINDOW_US // 2)
    both = Expand(
        projections=tuple((window_end(of, shift), of.column("key"), of.column("value")) for shift in halves),
        schema=schema,
        inputs=(of.plan,),
    )
    rows = pl.concat([of.rows.with_columns(end=end_of_window(shift)) for shift in halves])
    return _closed("sliding windows", both, rows, chance)


def _closed(name: str, assigned: Plan, rows: pl.DataFrame, chance: random.Random) -> SimulatedQuery:
    functions = _random_functions(chance)
    aggregate = _aggregate("aggregate-0", assigned, ("end#w", "key#w"), functions, "value#w", append=True)
    answer = rows.group_by("end", "key").agg(*_answers(functions, pl.col("value")))
    last = _public(aggregate, {"end": micros(Column("end#w", TIMESTAMP_NTZ)), "key": Column("key#w", LONG)}, functions)
    return SimulatedQuery(name, sink(last), answer, counts=True, groups=("end", "key"), windowed=True)


def _nested_windows(of: Relation, chance: random.Random) -> SimulatedQuery:
    """An aggregate of an aggregate: windows per key, then per window the sum over the keys."""
    del chance
    assigned = project(
        of.plan,
        {
            "end#w": (window_end(of, 0), TIMESTAMP_NTZ),
            "key#w": (of.column("key"), LONG),
            "value#w": (of.column("value"), LONG),
        },
    )
    inner = _aggregate("aggregate-0", assigned, ("end#w", "key#w"), ("count", "sum"), "value#w", append=True)
    again = project(inner, {"end#v": (Column("end#w", TIMESTAMP_NTZ), TIMESTAMP_NTZ), "n#v": (Column("n", LONG), LONG)})
    calls = (AggregateCall("n", "sum", ("n#v",), LONG, input_types=(LONG,)), AggregateCall("keys", "count", (), LONG))
    outer = Aggregate(
        id=OperatorId("aggregate-1"),
        keys=("end#v",),
        calls=calls,
        event_time=EventTimeKey("end#v", None),
        mode=OutputMode.APPEND,
        schema=(Field("end#v", TIMESTAMP_NTZ), Field("n", LONG), Field("keys", LONG)),
        input_schema=again.schema,
        inputs=(again,),
    )
    last = project(
        outer,
        {
            "end": (micros(Column("end#v", TIMESTAMP_NTZ)), LONG),
            "n": (Column("n", LONG), LONG),
            "keys": (Column("keys", LONG), LONG),
        },
    )
    rows = of.rows.with_columns(end=end_of_window(0))
    answer = rows.group_by("end").agg(n=pl.len().cast(pl.Int64), keys=pl.col("key").n_unique().cast(pl.Int64))
    return SimulatedQuery("nested windows", sink(last), answer, counts=True, groups=("end",), windowed=True)


def _running(of: Relation, chance: random.Random) -> SimulatedQuery:
    """A keyed aggregate in update mode: the last row of each key is its total."""
    functions = _random_functions(chance)
    plain = project(of.plan, {"key#k": (of.column("key"), LONG), "value#k": (of.column("value"), LONG)})
    aggregate = _aggregate("aggregate-0", plain, ("key#k",), functions, "value#k", append=False)
    answer = of.rows.group_by("key").agg(*_answers(functions, pl.col("value")))
    last = _public(aggregate, {"key": Column("key#k", LONG)}, functions)
    return SimulatedQuery(
        "running aggregate", sink(last, OutputMode.UPDATE), answer, keys=("key",), counts=True, groups=("key",)
    )


def whole_groups(of: Relation, chance: random.Random) -> SimulatedQuery:
    """A keyed aggregate in complete mode, now and then its largest groups only: each checkpoint's result replaces the one before."""
    functions = _random_functions(chance)
    plain = project(of.plan, {"key#k": (of.column("key"), LONG), "value#k": (of.column("value"), LONG)})
    aggregate = replace(
        _aggregate("aggregate-0", plain, ("key#k",), functions, "value#k", append=False), mode=OutputMode.COMPLETE
    )
    answer = of.rows.group_by("key").agg(*_answers(functions, pl.col("value")))
    rows: Plan = aggregate
    if chance.random() < 0.4:
        order = (SortKey("n", ascending=False, nulls_first=False), SortKey("key#k"))
        rows = Sort(order=order, limit=2, schema=aggregate.schema, inputs=(aggregate,))
        answer = answer.sort("n", "key", descending=[True, False]).head(2)
    last = _public(rows, {"key": Column("key#k", LONG)}, functions)
    return SimulatedQuery(
        "whole result", sink(last, OutputMode.COMPLETE), answer, counts=True, groups=("key",), whole=True
    )


def _overall(of: Relation, chance: random.Random) -> SimulatedQuery:
    """No key at all: one group, one subtask has all of it."""
    functions = _random_functions(chance)
    plain = project(of.plan, {"value#k": (of.column("value"), LONG)})
    aggregate = _aggregate("aggregate-0", plain, (), functions, "value#k", append=False)
    answer = of.rows.select(pl.lit(0, pl.Int64).alias("all"), *_answers(functions, pl.col("value")))
    last = _public(aggregate, {"all": long(0)}, functions)
    answer = answer.head(1 if of.rows.height else 0)
    return SimulatedQuery(
        "overall aggregate", sink(last, OutputMode.UPDATE), answer, keys=("all",), counts=True, groups=("all",)
    )


# --- aggregates ---------------------------------------------------------------------------------------------------------


def _random_functions(chance: random.Random) -> tuple[str, ...]:
    return ("count", *sorted(chance.sample(FUNCTIONS[1:], chance.randint(1, 3))))


def _aggregate(
    name: str, rows: Plan, keys: tuple[str, ...], functions: tuple[str, ...], value: str, *, append: bool
) -> Aggregate:
    calls = tuple(
        AggregateCall("n", "count", (), LONG)
        if function == "count"
        else AggregateCall(function, function, (value,), LONG, input_types=(LONG,))
        for function in functions
    )
    types = {field.name: field.type for field in rows.schema}
    return Aggregate(
        id=OperatorId(name),
        keys=keys,
        calls=calls,
        event_time=EventTimeKey("end#w", None) if append else None,
        mode=OutputMode.APPEND if append else OutputMode.UPDATE,
        schema=(*(Field(key, types[key]) for key in keys), *(Field(call.name, LONG) for call in calls)),
        input_schema=rows.schema,
        inputs=(rows,),
    )


def _answers(functions: tuple[str, ...], value: pl.Expr) -> list[pl.Expr]:
    known = {"count": pl.len().cast(pl.Int64).alias("n"), "sum": value.sum().alias("sum")}
    known |= {"min": value.min().alias("min"), "max": value.max().alias("max")}
    return [known[function] for function in functions]


def _public(below: Plan, keys: dict[str, Expression], functions: tuple[str, ...]) -> Plan:
    results = ["n" if function == "count" else function for function in functions]
    return project(
        below, {name: (key, LONG) for name, key in keys.items()} | {n: (Column(n, LONG), LONG) for n in results}
    )


ENDINGS = (
    _rows,
    _windows,
    _windows,
    _sliding_windows,
    _nested_windows,
    _running,
    _running,
    _overall,
    sessions,
    sessions,
    deduplicated,
    forever_deduplicated,
    stateful,
    stateful,
    limited,
)
CROWDED_ENDINGS = (_running, forever_deduplicated, patient, patient, patient)
"""Of which state grows with the number of keys; timers of the stateful code come and go."""
