"""Plans over sources in event time that show single rows: deduplication by id, sessions of one row, pairs of a join; and windows."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import BOOLEAN, LONG, TIMESTAMP_NTZ, DataType, Field, Struct
from tidegate.plan.expressions import Call, Column, Expression, MakeStruct
from tidegate.plan.keyed import Deduplicate, JoinSide, Moment, SessionAggregate, StreamJoin, StreamJoinKind, TimeRange
from tidegate.plan.relational import Aggregate, AggregateCall, AssignWatermark, EventTimeKey, Filter, Plan, Scan, Union
from tidegate.testing.simulation.keyed import near_in_time
from tidegate.testing.simulation.positions import ALL
from tidegate.testing.simulation.query import Read, SimulatedQuery, sink
from tidegate.testing.simulation.relations import COLUMNS, Names, Relation, long, micros, moment, project, window_end
from tidegate.testing.simulation.timed import TimedScript, TimedSpec
from tidegate.testing.simulation.timed_worlds import Meeting, Shown, TimedWorld

GAP_US = 1_000_000
APART_US = 2_000_000
STATEFUL = ("aggregate-0", "deduplicate-0", "sessions-0", "join-0")
"""Operators whose watermark decides what is late."""
OUTPUTS: dict[Shown, tuple[str, ...]] = {
    Shown.ROWS: ("id",),
    Shown.WINDOWS: ("end", "key", "n"),
    Shown.SESSIONS: ("id", "n"),
    Shown.PAIRS: ("id", "other"),
    Shown.LEFT_PAIRS: ("id", "other"),
}


@dataclass(frozen=True, slots=True)
class TimedQuery(SimulatedQuery):
    world: TimedWorld | None = None

    def all_read(self, read: Read) -> bool:
        assert self.world is not None
        return all(
            _read_to(script, number, read.get(script.source, {}))
            for script in self.world.scripts
            for number in range(len(script.splits))
        )


def _read_to(script: TimedScript, number: int, read: dict[int, int]) -> bool:
    # Numbers of splits are given in the order of discovery: as a whole they mean the same files.
    if script.ordered:
        return sum(read.values()) >= sum(len(split.times_us) for split in script.splits)
    return read.get(number) == ALL


def timed_query(world: TimedWorld) -> TimedQuery:
    names = Names()
    relations = [_below_watermark(names, script) for script in world.scripts]
    if world.meeting is Meeting.UNION_BELOW:
        delay_us = world.streams[0].delay_us
        rows = _assigned(_united(names, relations), "watermark-0", delay_us)
    else:
        timed = [
            one if script.delay_us is None else _assigned(one, f"watermark-{script.number}", script.delay_us)
            for one, script in zip(relations, world.scripts, strict=True)
        ]
        if world.meeting is Meeting.JOIN:
            return _query(world, _joined(timed[0], timed[1], world))
        rows = timed[0] if len(timed) == 1 else _united(names, timed)
    match world.shown:
        case Shown.WINDOWS:
            return _query(world, _windows(rows))
        case Shown.SESSIONS:
            return _query(world, _sessions(rows))
        case _:
            return _query(world, _deduplicated(rows))


def _query(world: TimedWorld, plan: Plan) -> TimedQuery:
    columns = OUTPUTS[world.shown]
    nothing = pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64()))
    return TimedQuery(
        f"{world.shown.value} over {world.meeting.value}", sink(plan), nothing, windowed=True, world=world
    )


# --- below the watermark ----------------------------------------------------------------------------------------------


def _below_watermark(names: Names, script: TimedScript) -> Relation:
    """The source, its time column, and the user's filter where Spark's optimiser puts it."""
    numbers = tuple(Field(f"{name}#s{script.number}", LONG) for name in COLUMNS)
    source = Scan(
        id=OperatorId(script.source),
        spec=TimedSpec(format="timed", schema=tuple(Field(name, LONG) for name in COLUMNS), script=script),
        schema=numbers,
        columns=COLUMNS,
    )
    schema = names.columns()
    values: list[Expression] = [Column(field.name, LONG) for field in numbers]
    values[3] = moment(values[3])
    plan = project(source, {field.name: (value, field.type) for field, value in zip(schema, values, strict=True)})
    wanted = Call("not", (Call("equalto", (Column(schema[2].name, LONG), long(0)), BOOLEAN),), BOOLEAN)
    return _relation(Filter(condition=wanted, schema=plan.schema, inputs=(plan,)))


def _relation(plan: Plan) -> Relation:
    return Relation(plan, pl.DataFrame())


def _assigned(of: Relation, name: str, delay_us: int) -> Relation:
    return _relation(
        AssignWatermark(
            id=OperatorId(name),
            column=of.column("ts").name,
            delay_us=delay_us,
            schema=of.plan.schema,
            inputs=(of.plan,),
        )
    )


def _united(names: Names, relations: list[Relation]) -> Relation:
    return _relation(Union(schema=names.columns(), inputs=tuple(one.plan for one in relations)))


def _with_time(of: Relation) -> Relation:
    """Spark's windows leave out rows without a time, and so do equal times in a join."""
    known = Call("isnotnull", (of.column("ts"),), BOOLEAN)
    return _relation(Filter(condition=known, schema=of.plan.schema, inputs=(of.plan,)))


# --- what the query shows ---------------------------------------------------------------------------------------------


def _deduplicated(of: Relation) -> Plan:
    plain = project(of.plan, {"id#w": (of.column("id"), LONG), "ts#w": (of.column("ts"), TIMESTAMP_NTZ)})
    distinct = Deduplicate(
        id=OperatorId("deduplicate-0"),
        keys=("id#w", "ts#w"),
        event_time=EventTimeKey("ts#w", None),
        schema=plain.schema,
        inputs=(plain,),
    )
    return _shown(distinct, {"id": Column("id#w", LONG)})


def _windows(of: Relation) -> Plan:
    rows = _with_time(of)
    assigned = project(rows.plan, {"end#w": (window_end(rows, 0), TIMESTAMP_NTZ), "key#w": (rows.column("key"), LONG)})
    aggregate = Aggregate(
        id=OperatorId("aggregate-0"),
        keys=("end#w", "key#w"),
        calls=(AggregateCall("n", "count", (), LONG),),
        event_time=EventTimeKey("end#w", None),
        mode=OutputMode.APPEND,
        schema=(*assigned.schema, Field("n", LONG)),
        input_schema=assigned.schema,
        inputs=(assigned,),
    )
    end = micros(Column("end#w", TIMESTAMP_NTZ))
    return _shown(aggregate, {"end": end, "key": Column("key#w", LONG), "n": Column("n", LONG)})


def _sessions(of: Relation) -> Plan:
    """Every id is a key: every row a session of its own."""
    rows = _with_time(of)
    interval = Struct((Field("start", TIMESTAMP_NTZ), Field("end", TIMESTAMP_NTZ)))
    end = moment(Call("add", (micros(rows.column("ts")), long(GAP_US)), LONG))
    assigned = project(
        rows.plan,
        {
            "session#w": (MakeStruct((("start", rows.column("ts")), ("end", end)), interval), interval),
            "id#w": (rows.column("id"), LONG),
        },
    )
    aggregate = SessionAggregate(
        id=OperatorId("sessions-0"),
        keys=("id#w",),
        session="session#w",
        calls=(AggregateCall("n", "count", (), LONG),),
        event_time=True,
        mode=OutputMode.APPEND,
        schema=(Field("id#w", LONG), Field("session#w", interval), Field("n", LONG)),
        input_schema=assigned.schema,
        inputs=(assigned,),
    )
    return _shown(aggregate, {"id": Column("id#w", LONG), "n": Column("n", LONG)})


def _joined(left: Relation, right: Relation, world: TimedWorld) -> Plan:
    """Of equal keys and about the same time; with a source without time: of the same window."""
    if world.scripts[1].delay_us is None:
        return _window_join(left, right)
    left, right = _with_time(left), _with_time(right)
    near = near_in_time(left, right, APART_US)
    sides = [
        JoinSide(
            keys=(one.column("key").name,),
            schema=one.plan.schema,
            event_time=Moment(one.column("ts").name),
            expires=Moment(one.column("ts").name, plus_us=APART_US),
            lag_us=APART_US,
        )
        for one in (left, right)
    ]
    join = StreamJoin(
        id=OperatorId("join-0"),
        kind=StreamJoinKind.LEFT if world.shown is Shown.LEFT_PAIRS else StreamJoinKind.INNER,
        left=sides[0],
        right=sides[1],
        null_safe=(False,),
        condition=near,
        within=TimeRange(left.column("ts").name, right.column("ts").name, -APART_US, APART_US),
        schema=(*left.plan.schema, *right.plan.schema),
        inputs=(left.plan, right.plan),
    )
    return _shown(join, {"id": left.column("id"), "other": right.column("id")})


def _window_join(left: Relation, right: Relation) -> Plan:
    plans: list[Plan] = []
    for one, name in ((_with_time(left), "l"), (_with_time(right), "r")):
        end = window_end(one, 0)
        columns: dict[str, tuple[Expression, DataType]] = {
            f"id#{name}": (one.column("id"), LONG),
            f"key#{name}": (one.column("key"), LONG),
            f"end#{name}": (end, TIMESTAMP_NTZ),
        }
        plans.append(project(one.plan, columns))
    sides = [
        JoinSide(
            keys=(f"key#{name}", f"end#{name}"),
            schema=plan.schema,
            event_time=Moment(f"end#{name}") if name == "l" else None,
            expires=Moment(f"end#{name}"),
            lag_us=0 if name == "l" else None,
        )
        for plan, name in zip(plans, "lr", strict=True)
    ]
    join = StreamJoin(
        id=OperatorId("join-0"),
        kind=StreamJoinKind.INNER,
        left=sides[0],
        right=sides[1],
        null_safe=(False, False),
        condition=None,
        schema=(*plans[0].schema, *plans[1].schema),
        inputs=tuple(plans),
    )
    return _shown(join, {"id": Column("id#l", LONG), "other": Column("id#r", LONG)})


def _shown(below: Plan, columns: dict[str, Expression]) -> Plan:
    return project(below, {name: (value, LONG) for name, value in columns.items()})
