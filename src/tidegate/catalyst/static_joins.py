"""Joins of the stream with static data. Spark computes the static side once, before the stream starts."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidegate.catalyst.context import Context, attributes, output_of
from tidegate.catalyst.java import Java, class_name, present
from tidegate.catalyst.join_conditions import conjunction, split
from tidegate.catalyst.naming import Relation, fields_of
from tidegate.catalyst.static_rows import collected
from tidegate.catalyst.tree import read
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Field, Schema
from tidegate.plan.expressions import Column
from tidegate.plan.relational import JoinKind, StaticJoin

_STREAM_LEFT = {
    "Inner": JoinKind.INNER,
    "Cross": JoinKind.CROSS,
    "LeftOuter": JoinKind.LEFT,
    "LeftSemi": JoinKind.SEMI,
    "LeftAnti": JoinKind.ANTI,
    "ExistenceJoin": JoinKind.EXISTENCE,
}
"""An ``ExistenceJoin`` is an IN or EXISTS beside OR."""
_STREAM_RIGHT = {"Inner": JoinKind.INNER, "Cross": JoinKind.CROSS, "RightOuter": JoinKind.LEFT}


def join_sides(plan: Java) -> tuple[Java, Java, JoinKind]:
    """(stream, static, kind as seen from the stream). Refuses joins that keep static rows without a partner."""
    left, right = plan.left(), plan.right()
    kind = class_name(plan.joinType()).rstrip("$")
    on_left = bool(left.isStreaming())
    known = (_STREAM_LEFT if on_left else _STREAM_RIGHT).get(kind)
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
    if not static_schema:
        # Nothing of it is read but that its rows are there; a table without columns would have none.
        static_schema = (Field(context.names.column("any", t.BOOLEAN).name, t.BOOLEAN, nullable=False),)
    names = [one.name for one in static_schema]
    table, rows = collected(context, static, names, "the static side of a join", "the static DataFrame")
    both = stream.scope.plus(columns)
    condition = present(plan.condition())
    whole = None if condition is None else context.expressions.convert(condition, both, "JOIN … ON")
    keys, rest = split(whole, stream.plan.schema, static_schema)
    if kind is JoinKind.CROSS and whole is not None:
        kind = JoinKind.INNER
    elif kind is JoinKind.INNER and whole is None:
        kind = JoinKind.CROSS
    scope, added = both, _seen(static_schema, kind)
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        scope, added = stream.scope, ()
    elif kind is JoinKind.EXISTENCE:
        flag = read(plan.joinType().exists())
        exists = context.names.column("exists", t.BOOLEAN)
        scope, added = stream.scope.plus({flag.expr_id: exists}), (Field(exists.name, t.BOOLEAN, nullable=False),)
    context.warn(
        f"the static side of a join was read once, at the start ({rows:,} rows): query.refresh() reads it again "
        "(Spark does for every micro-batch)"
    )
    node = StaticJoin(
        kind=kind,
        stream_keys=tuple(key.left for key in keys),
        static_keys=tuple(key.right for key in keys),
        null_safe=tuple(key.null_safe for key in keys),
        condition=conjunction(rest),
        table=table,
        static_schema=static_schema,
        schema=(*stream.plan.schema, *added),
        inputs=(stream.plan,),
    )
    return Relation(node, scope)


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


def _seen(static: Schema, kind: JoinKind) -> Schema:
    """Static columns as the stream sees them: null where a left join found no partner."""
    return tuple(Field(one.name, one.type, one.nullable or kind is JoinKind.LEFT) for one in static)


def forget_listings(df: DataFrame) -> None:
    """Files that static sides read are listed anew when they are next read."""
    plan: Java = df._jdf
    plan.queryExecution().analyzed().refresh()
