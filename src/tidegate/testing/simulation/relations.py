"""Relational plans and what they mean, built side by side: every step adds a plan node, and the same step to plain Polars rows.

Columns are always id, key, value and ts. In the plan ``ts`` is a timestamp, in the rows it is microseconds.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

import polars as pl

from tidegate.model.ids import OperatorId
from tidegate.model.types import BOOLEAN, LONG, TIMESTAMP_NTZ, Array, DataType, Field, Schema
from tidegate.plan.expressions import Call, Column, Expression, Literal, Named
from tidegate.plan.relational import (
    AssignWatermark,
    Expand,
    Filter,
    Generate,
    JoinKind,
    MapBatches,
    Plan,
    Project,
    Repartition,
    Scan,
    StaticJoin,
    UdfKind,
    Union,
)
from tidegate.testing.simulation.sources import JITTER_US, Script, ScriptSpec, all_rows
from tidegate.testing.simulation.user_code import ARROW_FUNCTION, PANDAS_FUNCTION

COLUMNS = ("id", "key", "value", "ts")
WINDOW_US = 10_000_000


LETTERS = {"function": pl.String(), "id": pl.Int64()}
"""What of a dead letter is compared: who refused which row."""


@dataclass(frozen=True, slots=True)
class Relation:
    plan: Plan
    rows: pl.DataFrame
    refused: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LETTERS))
    """Rows that user functions have raised for on the way here."""

    def column(self, name: str) -> Column:
        own = self.plan.schema[COLUMNS.index(name)]
        return Column(own.name, own.type)


class Names:
    """Plan names are unique in the whole plan; operator ids too."""

    def __init__(self) -> None:
        self._numbers = count()

    def columns(self) -> Schema:
        number = next(self._numbers)
        return tuple(Field(f"{name}#{number}", TIMESTAMP_NTZ if name == "ts" else LONG) for name in COLUMNS)

    def fresh(self, what: str) -> str:
        return f"{what}{next(self._numbers)}"


def long(value: int) -> Literal:
    return Literal(value, LONG)


def micros(timestamp: Expression) -> Call:
    return Call("precisetimestampconversion", (timestamp,), LONG)


def moment(of: Expression) -> Call:
    return Call("precisetimestampconversion", (of,), TIMESTAMP_NTZ)


def scan(names: Names, number: int, script: Script, read: dict[int, int] | None = None) -> Relation:
    """The source, its time column, and the watermark that follows it. ``read``: rows per split, if not all of them."""
    numbers: Schema = tuple(Field(f"{name}#s{number}", LONG) for name in COLUMNS)
    source = Scan(
        id=OperatorId(f"source-{number}"),
        spec=ScriptSpec(format="scripted", schema=tuple(Field(name, LONG) for name in COLUMNS), script=script),
        schema=numbers,
        columns=COLUMNS,
    )
    schema = names.columns()
    values: list[Expression] = [Column(field.name, LONG) for field in numbers]
    values[3] = moment(values[3])
    timed = _project(source, schema, values)
    watermark = AssignWatermark(
        id=OperatorId(f"watermark-{number}"),
        column=schema[3].name,
        delay_us=JITTER_US,
        schema=schema,
        inputs=(timed,),
    )
    return Relation(watermark, all_rows(script, read))


def filtered(names: Names, of: Relation, divisor: int) -> Relation:
    del names
    rest = Call("remainder", (of.column("value"), long(divisor)), LONG)
    condition = Call("not", (Call("equalto", (rest, long(0)), BOOLEAN),), BOOLEAN)
    plan = Filter(condition=condition, schema=of.plan.schema, inputs=(of.plan,))
    return Relation(plan, of.rows.filter(pl.col("value") % divisor != 0))


def projected(names: Names, of: Relation, keys: int) -> Relation:
    doubled = Call("add", (Call("multiply", (of.column("value"), long(2)), LONG), long(1)), LONG)
    key = Call("pmod", (of.column("key"), long(keys)), LONG)
    plan = _project(of.plan, names.columns(), (of.column("id"), key, doubled, of.column("ts")))
    return Relation(plan, of.rows.with_columns(key=pl.col("key") % keys, value=pl.col("value") * 2 + 1))


def expanded(names: Names, of: Relation, _: int) -> Relation:
    """Every row twice, the second time under another id and key."""
    same = tuple(of.column(name) for name in COLUMNS)
    other = (
        Call("add", (of.column("id"), long(1_000_000_000)), LONG),
        Call("add", (of.column("key"), long(1)), LONG),
        of.column("value"),
        of.column("ts"),
    )
    plan = Expand(projections=(same, other), schema=names.columns(), inputs=(of.plan,))
    again = of.rows.with_columns(id=pl.col("id") + 1_000_000_000, key=pl.col("key") + 1)
    return Relation(plan, pl.concat([of.rows, again]))


def mapped(names: Names, of: Relation, number: int) -> Relation:
    """A user function over Arrow batches or pandas frames."""
    pandas = number % 2 == 0
    plan = MapBatches(
        kind=UdfKind.PANDAS if pandas else UdfKind.ARROW,
        label="simulated",
        command=PANDAS_FUNCTION if pandas else ARROW_FUNCTION,
        input_names=COLUMNS,
        schema=names.columns(),
        output_names=COLUMNS,
        input_schema=of.plan.schema,
        inputs=(of.plan,),
    )
    if pandas:
        return Relation(plan, of.rows.filter(pl.col("id") % 5 != 0))
    return Relation(plan, of.rows.with_columns(value=pl.col("value") + 7))


def joined(names: Names, of: Relation, number: int) -> Relation:
    """With a small static table: of every kind that Spark lets a stream take part in."""
    kind = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)[number % 4]
    match_key, factor = names.fresh("match#t"), names.fresh("factor#t")
    table = pl.DataFrame({match_key: [0, 1, 2, 2], factor: [10, 20, 30, 40]})
    buffer = io.BytesIO()
    table.write_ipc_stream(buffer)
    static = (Field(match_key, LONG), Field(factor, LONG))
    narrow = kind in (JoinKind.SEMI, JoinKind.ANTI)
    join = StaticJoin(
        kind=kind,
        stream_keys=(of.column("key"),),
        static_keys=(Column(match_key, LONG),),
        null_safe=(False,),
        condition=None,
        table=buffer.getvalue(),
        static_schema=static,
        schema=of.plan.schema if narrow else (*of.plan.schema, *static),
        inputs=(of.plan,),
    )
    if narrow:
        how = "semi" if kind is JoinKind.SEMI else "anti"
        return Relation(join, of.rows.join(table, left_on="key", right_on=match_key, how=how))
    found = Call("coalesce", (Column(factor, LONG), long(0)), LONG)
    value = Call("add", (of.column("value"), found), LONG)
    plan = _project(join, names.columns(), (of.column("id"), of.column("key"), value, of.column("ts")))
    rows = of.rows.join(table, left_on="key", right_on=match_key, how="inner" if kind is JoinKind.INNER else "left")
    total = pl.col("value") + pl.col(factor).fill_null(0)
    return Relation(plan, rows.select("id", "key", total.alias("value"), "ts"))


def generated(names: Names, of: Relation, number: int) -> Relation:
    """Two rows of each, under ids of their own."""
    made = Field(names.fresh("made#g"), LONG)
    second = Call("add", (of.column("value"), long(number)), LONG)
    plan = Generate(
        function="explode",
        args=(Call("array", (of.column("value"), second), Array(LONG)),),
        outer=False,
        generated=(made,),
        schema=(*of.plan.schema, made),
        inputs=(of.plan,),
    )
    apart = Call(
        "multiply", (Call("subtract", (Column(made.name, LONG), of.column("value")), LONG), long(1_000_000_000)), LONG
    )
    values = (Call("add", (of.column("id"), apart), LONG), of.column("key"), Column(made.name, LONG), of.column("ts"))
    again = of.rows.with_columns(id=pl.col("id") + number * 1_000_000_000, value=pl.col("value") + number)
    return Relation(_project(plan, names.columns(), values), pl.concat([of.rows, again]))


def repartitioned(names: Names, of: Relation, number: int) -> Relation:
    """By key, in turn, or all to one subtask: other subtasks, the same rows."""
    del names
    keys = (of.column("key").name,) if number % 3 == 0 else ()
    plan = Repartition(keys=keys, single=number % 3 == 1, schema=of.plan.schema, inputs=(of.plan,))
    return Relation(plan, of.rows)


STEPS: tuple[Callable[[Names, Relation, int], Relation], ...] = (
    filtered,
    projected,
    expanded,
    mapped,
    joined,
    generated,
    repartitioned,
)
"""What may stand anywhere between a source and an aggregate or sink; the number picks a variant, from 2 up."""


def united(names: Names, left: Relation, right: Relation) -> Relation:
    """Two inputs with watermarks of their own: the slower one decides."""
    plan = Union(schema=names.columns(), inputs=(left.plan, right.plan))
    return Relation(plan, pl.concat([left.rows, right.rows]), pl.concat([left.refused, right.refused]))


def _project(below: Plan, schema: Schema, values: tuple[Expression, ...] | list[Expression]) -> Project:
    columns = tuple(Named(field.name, value) for field, value in zip(schema, values, strict=True))
    return Project(columns=columns, schema=schema, inputs=(below,))


def project(below: Plan, columns: Mapping[str, tuple[Expression, DataType]]) -> Project:
    return Project(
        columns=tuple(Named(name, value) for name, (value, _) in columns.items()),
        schema=tuple(Field(name, kind) for name, (_, kind) in columns.items()),
        inputs=(below,),
    )


def window_end(of: Relation, shift_us: int) -> Call:
    """The end of the window of ``WINDOW_US`` that a row falls into, the windows being ``shift_us`` early."""
    at = Call("add", (micros(of.column("ts")), long(shift_us)), LONG)
    start = Call("subtract", (at, Call("pmod", (at, long(WINDOW_US)), LONG)), LONG)
    return moment(Call("add", (start, long(WINDOW_US - shift_us)), LONG))


def end_of_window(shift_us: int) -> pl.Expr:
    at = pl.col("ts") + shift_us
    return at - at % WINDOW_US + WINDOW_US - shift_us
