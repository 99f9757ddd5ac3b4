"""The queries the simulator runs, each with the answer a run without failures gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import polars as pl

from tidegate.model.ids import OperatorId
from tidegate.model.types import BOOLEAN, LONG, TIMESTAMP_NTZ, Field, Schema
from tidegate.plan.expressions import Call, Column, Literal, Named
from tidegate.plan.relational import (
    Aggregate,
    AggregateCall,
    AssignWatermark,
    EventTimeKey,
    Filter,
    OutputMode,
    Plan,
    Project,
    Scan,
    Sink,
    Union,
)
from tidegate.testing.simulation.sources import JITTER_US, Script, all_rows

WINDOW_US = 10_000_000

Answer = Callable[[tuple[Script, ...]], pl.DataFrame]


@dataclass(frozen=True, slots=True)
class SimulatedQuery:
    """``keys``: in update mode the last row per key counts; empty: all rows count, as a multiset."""

    name: str
    plan: Sink
    scripts: tuple[Script, ...]
    answer: pl.DataFrame
    keys: tuple[str, ...] = ()


def random_query(chance: random.Random) -> SimulatedQuery:
    scripts = tuple(_random_script(chance) for _ in range(2))
    return chance.choice((stateless, windows, running_totals, union_of_windows))(scripts)


def stateless(scripts: tuple[Script, ...]) -> SimulatedQuery:
    """Filter and projection: every row that passes appears once."""
    scan = _scan(0, scripts[0])
    even = Call("equalto", (Call("remainder", (_column("value", 0), _long(2)), LONG), _long(0)), BOOLEAN)
    kept = Filter(condition=even, schema=scan.schema, inputs=(scan,))
    columns = (Named("id", _column("id", 0)), Named("double", Call("add", (_column("value", 0),) * 2, LONG)))
    schema = (Field("id", LONG), Field("double", LONG))
    plan = Project(columns=columns, schema=schema, inputs=(kept,))
    rows = all_rows(scripts[0]).filter(pl.col("value") % 2 == 0)
    return SimulatedQuery("stateless", _sink(plan), scripts[:1], rows.select("id", double=pl.col("value") * 2))


def windows(scripts: tuple[Script, ...]) -> SimulatedQuery:
    """Tumbling windows in append mode, closed by watermarks and by the drain at the end."""
    plan = _windowed(_watermarked(_scan(0, scripts[0]), 0), 0)
    return SimulatedQuery("windows", _sink(plan), scripts[:1], _window_answer(all_rows(scripts[0])))


def union_of_windows(scripts: tuple[Script, ...]) -> SimulatedQuery:
    """Two sources with watermarks of their own: the slower one decides."""
    left = _watermarked(_scan(0, scripts[0]), 0)
    right = _watermarked(_scan(1, scripts[1]), 1)
    schema = tuple(
        Field(name, field.type) for name, field in zip(("id", "key", "value", "ts"), left.schema, strict=True)
    )
    both = Union(schema=tuple(Field(f"{f.name}#0", f.type) for f in schema), inputs=(left, right))
    rows = pl.concat([all_rows(scripts[0]), all_rows(scripts[1])])
    return SimulatedQuery("union of windows", _sink(_windowed(both, 0)), scripts, _window_answer(rows))


def running_totals(scripts: tuple[Script, ...]) -> SimulatedQuery:
    """A keyed aggregate in update mode: the last row of each key is its total."""
    scan = _scan(0, scripts[0])
    plan = _aggregate(scan, keys=("key#0",), mode=OutputMode.UPDATE, event_time=None, value="value#0")
    answer = all_rows(scripts[0]).group_by("key").agg(n=pl.len().cast(pl.Int64), total=pl.col("value").sum())
    return SimulatedQuery("running totals", _sink(plan, OutputMode.UPDATE), scripts[:1], answer, keys=("key",))


def _random_script(chance: random.Random) -> Script:
    return Script(
        splits=chance.randint(1, 4),
        rows_per_split=chance.randint(40, 200),
        keys=chance.choice((1, 3, 20)),
        rows_per_second=chance.choice((8, 15, 40)),
        seed=chance.randint(0, 1_000_000),
    )


def _scan(number: int, script: Script) -> Scan:
    schema: Schema = tuple(Field(f"{name}#{number}", LONG) for name in ("id", "key", "value", "ts"))
    return Scan(
        id=OperatorId(f"source-{number}"),
        format="scripted",
        options={"script": msgspec.json.encode(script).decode()},
        schema=schema,
        columns=("id", "key", "value", "ts"),
        source_schema=tuple(Field(name, LONG) for name in ("id", "key", "value", "ts")),
    )


def _watermarked(scan: Scan, number: int) -> AssignWatermark:
    """The scripted source has plain numbers: the time column is made here, then watched."""
    columns = (
        *(Named(f"{name}#{number}", _column(name, number)) for name in ("id", "key", "value")),
        Named(f"time#{number}", _timestamp(_column("ts", number))),
    )
    schema = (
        *(Field(f"{name}#{number}", LONG) for name in ("id", "key", "value")),
        Field(f"time#{number}", TIMESTAMP_NTZ),
    )
    timed = Project(columns=columns, schema=schema, inputs=(scan,))
    return AssignWatermark(
        id=OperatorId(f"watermark-{number}"),
        column=f"time#{number}",
        delay_us=JITTER_US,
        schema=schema,
        inputs=(timed,),
    )


def _timestamp(micros: Column) -> Call:
    return Call("precisetimestampconversion", (micros,), TIMESTAMP_NTZ)


def _windowed(rows: Plan, number: int) -> Project:
    """Window ends are grouped as plain timestamps: the key is the event-time column itself."""
    value, key, time = (field.name for field in (rows.schema[2], rows.schema[1], rows.schema[3]))
    micros = Call("precisetimestampconversion", (Column(time, TIMESTAMP_NTZ),), LONG)
    start = Call("subtract", (micros, Call("pmod", (micros, _long(WINDOW_US)), LONG)), LONG)
    end = Call("precisetimestampconversion", (Call("add", (start, _long(WINDOW_US)), LONG),), TIMESTAMP_NTZ)
    columns = (
        Named("end#w", end),
        Named("key#w", Column(key, LONG)),
        Named("value#w", Column(value, LONG)),
    )
    schema = (Field("end#w", TIMESTAMP_NTZ), Field("key#w", LONG), Field("value#w", LONG))
    assigned = Project(columns=columns, schema=schema, inputs=(rows,))
    aggregate = _aggregate(
        assigned,
        keys=("end#w", "key#w"),
        mode=OutputMode.APPEND,
        event_time=EventTimeKey("end#w", None),
        value="value#w",
    )
    del number
    back = Call("precisetimestampconversion", (Column("end#w", TIMESTAMP_NTZ),), LONG)
    named = (
        Named("end", back),
        Named("key", Column("key#w", LONG)),
        Named("n", Column("n", LONG)),
        Named("total", Column("total", LONG)),
    )
    return Project(columns=named, schema=tuple(Field(one.name, LONG) for one in named), inputs=(aggregate,))


def _window_answer(rows: pl.DataFrame) -> pl.DataFrame:
    end = pl.col("ts") - pl.col("ts") % WINDOW_US + WINDOW_US
    return rows.group_by(end.alias("end"), "key").agg(n=pl.len().cast(pl.Int64), total=pl.col("value").sum())


def _aggregate(
    rows: Plan, *, keys: tuple[str, ...], mode: OutputMode, event_time: EventTimeKey | None, value: str
) -> Aggregate:
    calls = (
        AggregateCall("n", "count", (), LONG),
        AggregateCall("total", "sum", (value,), LONG, input_types=(LONG,)),
    )
    types = {field.name: field.type for field in rows.schema}
    schema = (*(Field(key, types[key]) for key in keys), Field("n", LONG), Field("total", LONG))
    return Aggregate(
        id=OperatorId("aggregate-0"),
        keys=keys,
        calls=calls,
        event_time=event_time,
        mode=mode,
        schema=schema,
        input_schema=rows.schema,
        inputs=(rows,),
    )


def _sink(rows: Plan, mode: OutputMode = OutputMode.APPEND) -> Sink:
    public = tuple((field.name, field.name.split("#")[0]) for field in rows.schema)
    return Sink(
        id=OperatorId("sink-0"),
        format="simulated",
        options={},
        columns=public,
        schema=tuple(Field(name, field.type) for (_, name), field in zip(public, rows.schema, strict=True)),
        mode=mode,
        inputs=(rows,),
    )


def _column(name: str, number: int) -> Column:
    return Column(f"{name}#{number}", LONG)


def _long(value: int) -> Literal:
    return Literal(value, LONG)
