"""Ends of a query with operators that keep more than totals: sessions, deduplication, joins of two streams, stateful code, limits."""

from __future__ import annotations

import random

import polars as pl

from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import BOOLEAN, LONG, STRING, TIMESTAMP_NTZ, Field, Struct
from tidegate.plan.expressions import Call, Cast, Column, FieldOf, MakeStruct
from tidegate.plan.keyed import (
    Deduplicate,
    JoinSide,
    Moment,
    SessionAggregate,
    StatefulKind,
    StatefulProcess,
    StreamJoin,
    StreamJoinKind,
    TimeMode,
    TimeRange,
)
from tidegate.plan.ordering import Limit
from tidegate.plan.relational import AggregateCall, EventTimeKey
from tidegate.testing.processors import TALLY_OUTPUT
from tidegate.testing.simulation.query import SimulatedQuery, sink
from tidegate.testing.simulation.relations import (
    Names,
    Relation,
    end_of_window,
    long,
    micros,
    moment,
    project,
    window_end,
)
from tidegate.testing.simulation.user_code import TALLY

APART_US = 1_000_000
"""Rows of two streams meet when their times differ by no more."""
INNER = (StreamJoinKind.INNER, StreamJoinKind.INNER, StreamJoinKind.LEFT, StreamJoinKind.SEMI)
OUTER = (StreamJoinKind.RIGHT, StreamJoinKind.FULL)


def sessions(of: Relation, chance: random.Random) -> SimulatedQuery:
    """Rows of a key that follow each other closely, in append mode. A late row may part a session: only rows are counted then."""
    gap_us = chance.choice((500_000, 2_000_000))
    interval = Struct((Field("start", TIMESTAMP_NTZ), Field("end", TIMESTAMP_NTZ)))
    end = moment(Call("add", (micros(of.column("ts")), long(gap_us)), LONG))
    assigned = project(
        of.plan,
        {
            "session#w": (MakeStruct((("start", of.column("ts")), ("end", end)), interval), interval),
            "key#w": (of.column("key"), LONG),
            "value#w": (of.column("value"), LONG),
        },
    )
    calls = (AggregateCall("n", "count", (), LONG), AggregateCall("sum", "sum", ("value#w",), LONG, (LONG,)))
    aggregate = SessionAggregate(
        id=OperatorId("sessions-0"),
        keys=("key#w",),
        session="session#w",
        calls=calls,
        event_time=True,
        mode=OutputMode.APPEND,
        schema=(Field("key#w", LONG), Field("session#w", interval), Field("n", LONG), Field("sum", LONG)),
        input_schema=assigned.schema,
        inputs=(assigned,),
    )
    ends = {name: micros(FieldOf(Column("session#w", interval), name, TIMESTAMP_NTZ)) for name in ("start", "end")}
    last = project(
        aggregate,
        {"key": (Column("key#w", LONG), LONG)}
        | {name: (one, LONG) for name, one in ends.items()}
        | {call.name: (Column(call.name, LONG), LONG) for call in calls},
    )
    ordered = of.rows.sort("key", "ts")
    opens = (pl.col("ts") - pl.col("ts").shift().over("key") > gap_us).fill_null(True)
    answer = (
        ordered.with_columns(number=opens.cum_sum().over("key"))
        .group_by("key", "number")
        .agg(
            start=pl.col("ts").min(),
            end=pl.col("ts").max() + gap_us,
            n=pl.len().cast(pl.Int64),
            sum=pl.col("value").sum(),
        )
        .drop("number")
    )
    return SimulatedQuery("sessions", sink(last), answer, counts=True, groups=("key",), several=True, windowed=True)


def deduplicated(of: Relation, chance: random.Random) -> SimulatedQuery:
    """One row per key and window, forgotten when the watermark has passed it."""
    del chance
    assigned = project(of.plan, {"end#w": (window_end(of, 0), TIMESTAMP_NTZ), "key#w": (of.column("key"), LONG)})
    distinct = Deduplicate(
        id=OperatorId("deduplicate-0"),
        keys=("end#w", "key#w"),
        event_time=EventTimeKey("end#w", None),
        schema=assigned.schema,
        inputs=(assigned,),
    )
    last = project(
        distinct, {"end": (micros(Column("end#w", TIMESTAMP_NTZ)), LONG), "key": (Column("key#w", LONG), LONG)}
    )
    answer = of.rows.select(end_of_window(0).alias("end"), "key").unique()
    return SimulatedQuery("deduplication by time", sink(last), answer, windowed=True)


def forever_deduplicated(of: Relation, chance: random.Random) -> SimulatedQuery:
    """One row per value, remembered for ever: only what identifies it is looked at, since any of them may come first."""
    del chance
    assigned = project(of.plan, {"key#w": (of.column("key"), LONG), "value#w": (of.column("value"), LONG)})
    distinct = Deduplicate(
        id=OperatorId("deduplicate-0"),
        keys=("key#w", "value#w"),
        event_time=None,
        schema=assigned.schema,
        inputs=(assigned,),
    )
    last = project(distinct, {"key": (Column("key#w", LONG), LONG), "value": (Column("value#w", LONG), LONG)})
    return SimulatedQuery("deduplication for ever", sink(last), of.rows.select("key", "value").unique())


def stateful(of: Relation, chance: random.Random, delays_ms: tuple[int, ...] = (1_000, 4_000)) -> SimulatedQuery:
    """A user's code with variables and timers: a row for every row, numbered per key, and one for every timer, once."""
    delay_ms = chance.choice(delays_ms)
    assigned = project(
        of.plan,
        {
            "key#w": (of.column("key"), LONG),
            "ts#w": (of.column("ts"), TIMESTAMP_NTZ),
            "word#w": (Cast(of.column("value"), STRING), STRING),
        },
    )
    process = StatefulProcess(
        id=OperatorId("process-0"),
        kind=StatefulKind.TRANSFORM_ROW,
        label="Tally",
        command=TALLY + str(delay_ms).encode(),
        keys=("key#w",),
        time_mode=TimeMode.EVENT,
        event_time="ts#w",
        mode=OutputMode.APPEND,
        input_names=("key", "ts", "word"),
        output_names=tuple(field.name for field in TALLY_OUTPUT),
        schema=tuple(Field(f"{field.name}#p", field.type) for field in TALLY_OUTPUT),
        input_schema=assigned.schema,
        has_watermark=True,
        inputs=(assigned,),
    )
    shown = {field.name: (Column(f"{field.name}#p", field.type), field.type) for field in TALLY_OUTPUT}
    keyed = of.rows.select(pl.col("key").cast(pl.String), "ts")
    rows = keyed.select("key", pl.lit("row").alias("what"), pl.int_range(1, pl.len() + 1).over("key").alias("number"))
    timers = keyed.select("key", pl.lit("timer").alias("what"), (pl.col("ts") // 1_000 + delay_ms).alias("number"))
    answer = pl.concat([rows, timers.unique()])
    return SimulatedQuery("stateful code", sink(project(process, shown)), answer, windowed=True)


def patient(of: Relation, chance: random.Random) -> SimulatedQuery:
    """Stateful code with timers that stay for long: when they go, they have been in a chunk for many checkpoints."""
    return stateful(of, chance, (20_000, 60_000))


def limited(of: Relation, chance: random.Random) -> SimulatedQuery:
    """So many rows and no more, whichever they are: only their number is looked at."""
    count = chance.choice((1, 20, 10_000))
    limit = Limit(id=OperatorId("limit-0"), count=count, schema=of.plan.schema, inputs=(of.plan,))
    answer = pl.DataFrame({"one": [1] * min(count, of.rows.height)}, schema={"one": pl.Int64})
    return SimulatedQuery("limit", sink(project(limit, {"one": (long(1), LONG)})), answer)


def near_in_time(left: Relation, right: Relation, apart_us: int) -> Call:
    """Times of the two rows are at most that far apart."""
    later = Call("subtract", (micros(right.column("ts")), micros(left.column("ts"))), LONG)
    return Call(
        "and",
        (
            Call("greaterthanorequal", (later, long(-apart_us)), BOOLEAN),
            Call("lessthanorequal", (later, long(apart_us)), BOOLEAN),
        ),
        BOOLEAN,
    )


def joined_streams(
    names: Names,
    left: Relation,
    right: Relation,
    chance: random.Random,
    kinds: tuple[StreamJoinKind, ...] = INNER,
) -> SimulatedQuery:
    """Rows of equal keys and about the same time. A row whose partner came late may leave alone: rows of one side are counted then."""
    del names
    kind = chance.choice(kinds)
    near = near_in_time(left, right, APART_US)
    join = StreamJoin(
        id=OperatorId("join-0"),
        kind=kind,
        left=_side(left),
        right=_side(right),
        null_safe=(False,),
        condition=near,
        within=TimeRange(left.column("ts").name, right.column("ts").name, -APART_US, APART_US),
        schema=left.plan.schema if kind is StreamJoinKind.SEMI else (*left.plan.schema, *right.plan.schema),
        inputs=(left.plan, right.plan),
    )
    shown = {"id": (left.column("id"), LONG), "key": (left.column("key"), LONG), "value": (left.column("value"), LONG)}
    if kind is not StreamJoinKind.SEMI:
        shown["other"] = (right.column("id"), LONG)
    answer = _met(left.rows, right.rows, kind).select(*shown)
    return SimulatedQuery(
        f"{kind.value} join of streams",
        sink(project(join, shown)),
        answer,
        groups=("other",) if kind is StreamJoinKind.RIGHT else ("id",),
        several=True,
        windowed=True,
        nullable=kind is StreamJoinKind.FULL,
    )


def _side(of: Relation) -> JoinSide:
    time = of.column("ts").name
    return JoinSide(
        keys=(of.column("key").name,),
        schema=of.plan.schema,
        event_time=Moment(time),
        expires=Moment(time, plus_us=APART_US),
        lag_us=APART_US,
    )


def _met(left: pl.DataFrame, right: pl.DataFrame, kind: StreamJoinKind) -> pl.DataFrame:
    numbered = left.with_row_index("row")
    others = right.select("key", other="id", then="ts").with_row_index("partner")
    met = numbered.join(others, on="key").filter((pl.col("then") - pl.col("ts")).abs() <= APART_US)
    if kind is StreamJoinKind.INNER:
        return met
    if kind is StreamJoinKind.SEMI:
        return numbered.join(met, on="row", how="semi")
    parts = [met.select("id", "key", "value", "other")]
    nothing = pl.lit(None, pl.Int64)
    if kind in (StreamJoinKind.LEFT, StreamJoinKind.FULL):
        alone = numbered.join(met, on="row", how="anti")
        parts.append(alone.select("id", "key", "value", other=nothing))
    if kind in (StreamJoinKind.RIGHT, StreamJoinKind.FULL):
        alone = others.join(met, on="partner", how="anti")
        parts.append(alone.select(nothing.alias("id"), nothing.alias("key"), nothing.alias("value"), "other"))
    return pl.concat(parts)
