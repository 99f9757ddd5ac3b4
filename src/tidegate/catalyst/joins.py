"""Joins of the stream with static data. Spark computes the static side once, before the stream starts."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException

from tidegate.catalyst.checks import refused_operator
from tidegate.catalyst.context import Context, attributes, output_of
from tidegate.catalyst.java import Java, class_name, one_line, present
from tidegate.catalyst.naming import Relation, fields_of
from tidegate.catalyst.printing import sql_text
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Field, Schema
from tidegate.plan.expressions import Call, Column, Expression, columns_of
from tidegate.plan.relational import JoinKind, StaticJoin

_STREAM_LEFT = {
    "Inner": JoinKind.INNER,
    "Cross": JoinKind.CROSS,
    "LeftOuter": JoinKind.LEFT,
    "LeftSemi": JoinKind.SEMI,
    "LeftAnti": JoinKind.ANTI,
}
_STREAM_RIGHT = {"Inner": JoinKind.INNER, "Cross": JoinKind.CROSS, "RightOuter": JoinKind.LEFT}


def join_sides(plan: Java) -> tuple[Java, Java, JoinKind]:
    """(stream, static, kind as seen from the stream). Refuses two streams, and joins that keep static rows without a partner."""
    left, right = plan.left(), plan.right()
    kind = class_name(plan.joinType()).rstrip("$")
    if left.isStreaming() and right.isStreaming():
        raise refused_operator("StreamJoin")
    on_left = bool(left.isStreaming())
    known = (_STREAM_LEFT if on_left else _STREAM_RIGHT).get(kind)
    if kind == "ExistenceJoin":
        raise InvalidQuery(
            "an IN or EXISTS subquery beside OR is not supported",
            hint="left join with the static DataFrame and test the joined column: WHERE s.id IS NOT NULL OR …",
        )
    if known is None:
        side = "left" if on_left else "right"
        raise InvalidQuery(
            f"a {str(plan.joinType().sql()).lower()} join with the stream on the {side} is not supported: "
            "static rows without a partner can never be known to have none",
            hint="keep the stream on the preserved side: stream.join(static, …, 'left'), or use an inner join",
        )
    return (left, right, known) if on_left else (right, left, known)


def static_join(context: Context, plan: Java, stream: Relation, static: Java, kind: JoinKind) -> Relation:
    static_schema, columns = _static_columns(context, static)
    table, rows = _collect(context, static, static_schema)
    both = stream.scope.plus(columns)
    condition = present(plan.condition())
    parts = [] if condition is None else _conjuncts(context.expressions.convert(condition, both, "JOIN … ON"))
    stream_names = {one.name for one in stream.plan.schema}
    static_names = {one.name for one in static_schema}
    keys: list[tuple[Expression, Expression, bool]] = []
    residual: list[Expression] = []
    for part in parts:
        key = _equi_key(part, stream_names, static_names)
        if key is None:
            residual.append(part)
        else:
            keys.append(key)
    if kind is JoinKind.CROSS and parts:
        kind = JoinKind.INNER
    elif kind is JoinKind.INNER and not parts:
        kind = JoinKind.CROSS
    kept = (
        stream.plan.schema
        if kind in (JoinKind.SEMI, JoinKind.ANTI)
        else (*stream.plan.schema, *_seen(static_schema, kind))
    )
    context.warn(
        f"the static side of a join was read once, at the start ({rows:,} rows): later changes of its data are not seen "
        "(Spark reads it again for every micro-batch)"
    )
    node = StaticJoin(
        kind=kind,
        stream_keys=tuple(key[0] for key in keys),
        static_keys=tuple(key[1] for key in keys),
        null_safe=tuple(key[2] for key in keys),
        condition=_all(residual),
        table=table,
        static_schema=static_schema,
        schema=tuple(kept),
        inputs=(stream.plan,),
    )
    return Relation(node, stream.scope if kind in (JoinKind.SEMI, JoinKind.ANTI) else both)


def _static_columns(context: Context, static: Java) -> tuple[Schema, dict[int, Column]]:
    shown = output_of(static)
    columns = {
        node.expr_id: context.names.column(one.name, one.type)
        for node, one in zip(attributes(static), shown, strict=True)
    }
    if len(columns) != len(shown):
        raise InvalidQuery(
            "the static side of a join has the same column twice", hint="select each column once before the join"
        )
    return fields_of(
        columns.values(), dict(zip((c.name for c in columns.values()), (one.nullable for one in shown), strict=True))
    ), columns


def _collect(context: Context, static: Java, schema: Schema) -> tuple[bytes, int]:
    """The static rows as an Arrow IPC stream under the plan's names."""
    try:
        rows = context.expressions.run(static).toArrow()
    except PySparkException as error:
        raise InvalidQuery(
            f"the static side of a join could not be computed: {one_line(error)}",
            hint="run the static DataFrame on its own to see the whole error",
        ) from error
    rows = rows.rename_columns([one.name for one in schema])
    rows = rows.cast(pa.schema([_in_utc(one) for one in rows.schema]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes(), rows.num_rows


def _in_utc(field: pa.Field) -> pa.Field:
    zoned = pa.types.is_timestamp(field.type) and field.type.tz is not None
    return field.with_type(pa.timestamp("us", "UTC")) if zoned else field


def _seen(static: Schema, kind: JoinKind) -> Schema:
    """Static columns as the stream sees them: null where a left join found no partner."""
    return tuple(Field(one.name, one.type, one.nullable or kind is JoinKind.LEFT) for one in static)


def _equi_key(part: Expression, stream: set[str], static: set[str]) -> tuple[Expression, Expression, bool] | None:
    match part:
        case Call("equalto" | "equalnullsafe" as function, (left, right)):
            for one, other in ((left, right), (right, left)):
                mine, theirs = columns_of(one), columns_of(other)
                if mine and theirs and mine <= stream and theirs <= static:
                    return one, other, function == "equalnullsafe"
    return None


def _conjuncts(condition: Expression) -> list[Expression]:
    match condition:
        case Call("and", (left, right)):
            return _conjuncts(left) + _conjuncts(right)
        case _:
            return [condition]


def _all(parts: list[Expression]) -> Expression | None:
    if not parts:
        return None
    first, *rest = parts
    for part in rest:
        both = Call("and", (first, part), t.BOOLEAN)
        first = Call("and", (first, part), t.BOOLEAN, sql=sql_text(both))
    return first
