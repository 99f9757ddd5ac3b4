"""Small queries with known answers, over scripted rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random

import polars as pl

from tidegate.model import types as t
from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field, Schema, Struct
from tidegate.plan.expressions import Call, Column, Literal, MakeStruct, Named
from tidegate.plan.keyed import SessionAggregate
from tidegate.plan.relational import (
    Aggregate,
    AggregateCall,
    AssignWatermark,
    EventTimeKey,
    Filter,
    Plan,
    Project,
    Scan,
    Sink,
    Union,
)
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink, ScriptedSource, ScriptedSplit
from tidegate.testing.stand_ins import scripted_sink, scripted_source

SECOND_US = 1_000_000
WINDOW_S = 10
DELAY_S = 5
GAP_S = 2

Rows = list[tuple[object, ...]]


@dataclass(frozen=True)
class Pipeline:
    plan: Sink
    connectors: ScriptedConnectors
    expected: Rows

    @property
    def sink(self) -> ScriptedSink:
        return self.connectors.sinks[OperatorId("sink-0")]


def schema(suffix: str) -> Schema:
    return (
        Field(f"ts{suffix}", t.TIMESTAMP),
        Field(f"w{suffix}", t.TIMESTAMP),
        Field(f"k{suffix}", t.LONG),
        Field(f"v{suffix}", t.LONG),
    )


def scan(number: int, suffix: str) -> Scan:
    columns = schema(suffix)
    return Scan(
        id=OperatorId(f"source-{number}"),
        spec=scripted_source(),
        schema=columns,
        columns=tuple(column.name for column in columns),
    )


def rows(random: Random, count: int, suffix: str, *, keys: int = 5, start_s: int = 0) -> pl.DataFrame:
    """Times rise by about a second per row and jitter by less than the watermark's delay. ``w``: end of the row's window."""
    return at(random, [(start_s + i + random.randrange(DELAY_S)) * SECOND_US for i in range(count)], suffix, keys=keys)


def untidy(random: Random, count: int, suffix: str, *, keys: int = 5, start_s: int = 0) -> pl.DataFrame:
    """Rows of a file as a shuffle may have written it: the order in it tells nothing, and times are not whole seconds."""
    span_us = max(count, 1) * SECOND_US
    shape = random.choice(("shuffled", "falling", "equal", "at the edges", "with one of the future"))
    times = [start_s * SECOND_US + random.randrange(span_us) for _ in range(count)]
    match shape:
        case "falling":
            times.sort(reverse=True)
        case "equal":
            times = times[:1] * count
        case "at the edges":
            edges = [us // (WINDOW_S * SECOND_US) * (WINDOW_S * SECOND_US) for us in times]
            times = [max(us + random.choice((-1_000, -999, -1, 0, 1, 300, 999, 1_000)), 0) for us in edges]
        case "with one of the future" if count:
            times[random.randrange(count)] += 1_000_000 * SECOND_US
        case _:
            pass
    return at(random, times, suffix, keys=keys)


def at(random: Random, times_us: Sequence[int], suffix: str, *, keys: int) -> pl.DataFrame:
    """A row at each of the times, in that order."""
    window_us = WINDOW_S * SECOND_US
    data = {
        f"ts{suffix}": times_us,
        f"w{suffix}": [(us // window_us + 1) * window_us for us in times_us],
        f"k{suffix}": [random.randrange(keys) for _ in times_us],
        f"v{suffix}": [random.randrange(100) for _ in times_us],
    }
    kind = pl.Datetime("us", "UTC")
    return pl.DataFrame(data, schema=dict.fromkeys(data, pl.Int64())).cast({f"ts{suffix}": kind, f"w{suffix}": kind})


def source(
    random: Random, suffix: str, *, splits: int, rows_max: int, keys: int = 5, nulls: bool = False
) -> ScriptedSource:
    """Untidy splits, many of them of the same time; some are empty. ``nulls``: some rows, and all of some splits, have no event time."""
    made: list[ScriptedSplit] = []
    for _ in range(splits):
        frame = untidy(
            random,
            random.choice((0, random.randrange(rows_max + 1), random.randrange(rows_max + 1))),
            suffix,
            keys=keys,
            start_s=random.choice((0, 50, random.randrange(100))),
        )
        if nulls and (share := random.choice((0, 0, 3, 1))):
            none = pl.int_range(pl.len()) % share == 0
            frame = frame.with_columns(pl.when(~none).then(pl.col(f"ts{suffix}")))
        made.append(ScriptedSplit(frame))
    return ScriptedSource(made, batch_rows=random.randint(1, 20), hiccup=random.choice([0, 2, 3]))


def all_rows(of: ScriptedSource) -> pl.DataFrame:
    return pl.concat([split.rows for split in of.splits])


def sink(plan: Plan, *, mode: OutputMode = OutputMode.APPEND) -> Sink:
    columns = tuple((column.name, column.name.rstrip("0123456789").rstrip("#")) for column in plan.schema)
    return Sink(
        id=OperatorId("sink-0"),
        spec=scripted_sink(
            tuple(Field(public, c.type) for (_, public), c in zip(columns, plan.schema, strict=True)), mode
        ),
        columns=columns,
        inputs=(plan,),
    )


def watermark(plan: Plan, column: str, number: int = 0) -> AssignWatermark:
    return AssignWatermark(
        id=OperatorId(f"watermark-{number}"),
        column=column,
        delay_us=DELAY_S * 1_000_000,
        schema=plan.schema,
        inputs=(plan,),
    )


def count_and_sum(plan: Plan, keys: tuple[str, ...], value: str, *, number: int, window: str | None) -> Aggregate:
    """``groupBy(keys).agg(count(*), sum(value))``, closed by ``window``; without one, updated at every change."""
    known = {column.name: column for column in plan.schema}
    calls = (
        AggregateCall(f"n{number}#9", "count", (), t.LONG),
        AggregateCall(f"s{number}#9", "sum", (value,), t.LONG, (t.LONG,)),
    )
    return Aggregate(
        id=OperatorId(f"aggregate-{number}"),
        keys=keys,
        calls=calls,
        event_time=EventTimeKey(window, None) if window else None,
        mode=OutputMode.APPEND if window else OutputMode.UPDATE,
        schema=(*(known[key] for key in keys), *(Field(call.name, call.type) for call in calls)),
        input_schema=plan.schema,
        inputs=(plan,),
    )


def as_rows(frame: pl.DataFrame) -> Rows:
    return sorted(frame.rows(), key=repr)


def grouped(frame: pl.DataFrame, keys: list[str], value: str) -> pl.DataFrame:
    return frame.group_by(keys).agg(pl.len().cast(pl.Int64).alias("n"), pl.col(value).sum().alias("s"))


def passing(random: Random) -> Pipeline:
    """Rows pass, half of them: no state but positions and committables."""
    read = source(random, "#1", splits=random.randrange(5), rows_max=60)
    kept = Filter(
        condition=Call("greaterthan", (Column("v#1", t.LONG), Literal(50, t.LONG)), t.BOOLEAN),
        schema=schema("#1"),
        inputs=(scan(0, "#1"),),
    )
    expected = all_rows(read).filter(pl.col("v#1") > 50) if read.splits else rows(random, 0, "#1")
    return _pipeline(sink(kept), [read], as_rows(expected))


def windowed(random: Random) -> Pipeline:
    """Count and sum per window and key."""
    read = source(random, "#1", splits=random.randint(1, 6), rows_max=60, nulls=True)
    counted = count_and_sum(watermark(scan(0, "#1"), "ts#1"), ("w#1", "k#1"), "v#1", number=0, window="w#1")
    return _pipeline(sink(counted), [read], as_rows(grouped(all_rows(read), ["w#1", "k#1"], "v#1")))


def union_of_two(random: Random) -> Pipeline:
    """Two sources, one watermark above their union, windows over both."""
    both = Union(schema=schema("#3"), inputs=(scan(0, "#1"), scan(1, "#2")))
    return _windows_of_two(random, watermark(both, "ts#3"))


def two_streams(random: Random) -> Pipeline:
    """Two sources, a watermark above each, windows over both: the slower one counts."""
    streams = watermark(scan(0, "#1"), "ts#1"), watermark(scan(1, "#2"), "ts#2", 1)
    return _windows_of_two(random, Union(schema=schema("#3"), inputs=streams))


def one_without_time(random: Random) -> Pipeline:
    """Two sources, a watermark above one of them only, windows over both."""
    streams = watermark(scan(0, "#1"), "ts#1"), scan(1, "#2")
    return _windows_of_two(random, Union(schema=schema("#3"), inputs=streams))


def _windows_of_two(random: Random, both: Plan) -> Pipeline:
    reads = [source(random, suffix, splits=random.randint(1, 4), rows_max=40, nulls=True) for suffix in ("#1", "#2")]
    counted = count_and_sum(both, ("w#3", "k#3"), "v#3", number=0, window="w#3")
    frames = [all_rows(read).rename(lambda name: name.split("#")[0]) for read in reads]
    return _pipeline(sink(counted), reads, as_rows(grouped(pl.concat(frames), ["w", "k"], "v")))


def twice_aggregated(random: Random) -> Pipeline:
    """Per window and key, then per window: two exchanges in a row."""
    read = source(random, "#1", splits=random.randint(1, 4), rows_max=60, nulls=True)
    first = count_and_sum(watermark(scan(0, "#1"), "ts#1"), ("w#1", "k#1"), "v#1", number=0, window="w#1")
    second = count_and_sum(first, ("w#1",), "s0#9", number=1, window="w#1")
    per_key = grouped(all_rows(read), ["w#1", "k#1"], "v#1")
    return _pipeline(sink(second), [read], as_rows(grouped(per_key, ["w#1"], "s")))


def sessions(random: Random) -> Pipeline:
    """Count and sum per key and session of a gap of two seconds."""
    read = source(random, "#1", splits=random.randint(1, 4), rows_max=60)
    times = Struct((Field("start", t.TIMESTAMP, nullable=False), Field("end", t.TIMESTAMP, nullable=False)))
    start = Column("ts#1", t.TIMESTAMP)
    gap = Literal(timedelta(seconds=GAP_S), t.DAY_TIME_INTERVAL)
    end = Call("timestampaddinterval", (start, gap), t.TIMESTAMP)
    below = watermark(scan(0, "#1"), "ts#1")
    interval = Field("session#1", times, nullable=False)
    made = Project(
        columns=(
            Named("k#1", Column("k#1", t.LONG)),
            Named("v#1", Column("v#1", t.LONG)),
            Named("session#1", MakeStruct((("start", start), ("end", end)), times)),
        ),
        schema=(Field("k#1", t.LONG), Field("v#1", t.LONG), interval),
        inputs=(below,),
    )
    calls = (
        AggregateCall("n#9", "count", (), t.LONG),
        AggregateCall("s#9", "sum", ("v#1",), t.LONG, (t.LONG,)),
    )
    merged = SessionAggregate(
        id=OperatorId("sessions-0"),
        keys=("k#1",),
        session="session#1",
        calls=calls,
        event_time=True,
        mode=OutputMode.APPEND,
        schema=(Field("k#1", t.LONG), interval, *(Field(call.name, call.type) for call in calls)),
        input_schema=made.schema,
        inputs=(made,),
    )
    ordered = all_rows(read).sort("k#1", "ts#1")
    new = (pl.col("ts#1").diff().over("k#1") > timedelta(seconds=GAP_S)).fill_null(True)
    numbered = ordered.with_columns(new.cum_sum().over("k#1").alias("number"))
    expected = numbered.group_by("k#1", "number").agg(
        pl.struct(pl.col("ts#1").min().alias("start"), (pl.col("ts#1").max() + timedelta(seconds=GAP_S)).alias("end")),
        pl.len().cast(pl.Int64),
        pl.col("v#1").sum(),
    )
    return _pipeline(sink(merged), [read], as_rows(expected.drop("number")))


PIPELINES: tuple[Callable[[Random], Pipeline], ...] = (
    passing,
    windowed,
    union_of_two,
    two_streams,
    one_without_time,
    twice_aggregated,
    sessions,
)


def _pipeline(plan: Sink, sources: list[ScriptedSource], expected: Rows) -> Pipeline:
    connectors = ScriptedConnectors(
        {OperatorId(f"source-{number}"): one for number, one in enumerate(sources)},
        {OperatorId("sink-0"): ScriptedSink()},
    )
    return Pipeline(plan, connectors, expected)
