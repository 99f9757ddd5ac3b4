"""Joins of two streams: keys become plain columns below the join; event time says when a row can find no more partner.

Rows of a side are later than the watermark, or dropped as late. So a row has expired when the condition bounds the event time of its
partners from above by a time that the watermark has reached: by equality of the event times themselves or of windows over them,
or by a range (``b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR``).
"""

from __future__ import annotations

from tidegate.catalyst.checks import LABELS
from tidegate.catalyst.context import Context, attributes, nullability, project
from tidegate.catalyst.java import Java, class_name, present
from tidegate.catalyst.join_conditions import EquiKey, conjunction, split, time_ranges
from tidegate.catalyst.naming import Relation
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Field, Schema
from tidegate.plan.expressions import Column, Expression, FieldOf, Named
from tidegate.plan.keyed import JoinSide, Moment, StreamJoin, StreamJoinKind, TimeRange
from tidegate.plan.relational import Plan

_WATERMARK = "spark.watermarkDelayMs"
_KINDS = {
    "Inner": StreamJoinKind.INNER,
    "LeftOuter": StreamJoinKind.LEFT,
    "RightOuter": StreamJoinKind.RIGHT,
    "FullOuter": StreamJoinKind.FULL,
    "LeftSemi": StreamJoinKind.SEMI,
}
_NULLABLE_LEFT = (StreamJoinKind.RIGHT, StreamJoinKind.FULL)
_NULLABLE_RIGHT = (StreamJoinKind.LEFT, StreamJoinKind.FULL)
_EXAMPLE = "join on equal columns as well: a.id = b.id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"


def stream_join(context: Context, plan: Java, left: Relation, right: Relation) -> Relation:
    kind = _KINDS.get(class_name(plan.joinType()).rstrip("$"))
    if kind is None:
        raise InvalidQuery(
            f"a {str(plan.joinType().sql()).lower()} join of two streams is not supported",
            hint="inner, left, right, full outer and left semi joins are",
        )
    both = left.scope.plus(right.scope.columns)
    condition = present(plan.condition())
    whole = None if condition is None else context.expressions.convert(condition, both, LABELS["Join"])
    keys, rest = split(whole, left.plan.schema, right.plan.schema)
    if not keys:
        raise InvalidQuery(
            "a join of two streams without an equality between their columns is not supported", hint=_EXAMPLE
        )
    times = (_event_times(plan.left(), left), _event_times(plan.right(), right))
    ranges = time_ranges(whole, left.plan.schema, right.plan.schema)
    one, left_keys = _with_keys(context, left.plan, [key.left for key in keys])
    other, right_keys = _with_keys(context, right.plan, [key.right for key in keys])
    expires = _expiry(keys, left_keys, right_keys, times, ranges)
    semi = kind is StreamJoinKind.SEMI
    node = StreamJoin(
        id=context.names.operator("join"),
        kind=kind,
        left=_side(one.schema, left_keys, times[0], expires[0]),
        right=_side(other.schema, right_keys, times[1], expires[1]),
        null_safe=tuple(key.null_safe for key in keys),
        condition=conjunction(rest),
        within=_tightest(ranges),
        schema=one.schema if semi else (*_seen(one, kind in _NULLABLE_LEFT), *_seen(other, kind in _NULLABLE_RIGHT)),
        inputs=(one, other),
    )
    return Relation(node, left.scope if semi else both)


def _event_times(side: Java, relation: Relation) -> tuple[Moment, ...]:
    """The columns that carry a watermark, each once; of a window its end."""
    columns = [relation.scope[node.expr_id] for node in attributes(side) if node.java.metadata().contains(_WATERMARK)]
    moments = [Moment(one.name, "end" if isinstance(one.type, t.Struct) else None) for one in columns]
    return tuple(dict.fromkeys(moments))


def _with_keys(context: Context, plan: Plan, keys: list[Expression]) -> tuple[Plan, tuple[str, ...]]:
    """The plan with a column for every key that is not one already."""
    computed: dict[Expression, Column] = {}
    for key in keys:
        if not isinstance(key, Column) and key not in computed:
            computed[key] = context.names.column("_key", key.type)
    names = tuple(key.name if isinstance(key, Column) else computed[key].name for key in keys)
    if not computed:
        return plan, names
    passed = [Column(one.name, one.type) for one in plan.schema]
    named = [*(Named(one.name, one) for one in passed), *(Named(column.name, key) for key, column in computed.items())]
    return project(plan, named, [*passed, *computed.values()], nullability(plan)), names


def _expiry(
    keys: list[EquiKey],
    left_keys: tuple[str, ...],
    right_keys: tuple[str, ...],
    times: tuple[tuple[Moment, ...], tuple[Moment, ...]],
    ranges: list[TimeRange],
) -> tuple[Moment | None, Moment | None]:
    """When a row of the left and of the right side can find no more partner."""
    equal: tuple[Moment | None, Moment | None] = (None, None)
    for key, left_key, right_key in zip(keys, left_keys, right_keys, strict=True):
        if _timed(key.left, times[0]) or _timed(key.right, times[1]):
            # The watermark of one side holds for the other, too: whoever comes later than it finds no earlier partner.
            field = "end" if isinstance(key.left.type, t.Struct) else None
            equal = _own(key.left, Moment(left_key, field)), _own(key.right, Moment(right_key, field))
            break
    left = [
        Moment(one.left, None, one.high_us)
        for one in ranges
        if one.high_us is not None and Moment(one.right) in times[1]
    ]
    right = [
        Moment(one.right, None, -one.low_us)
        for one in ranges
        if one.low_us is not None and Moment(one.left) in times[0]
    ]
    # What is known of the partner's own event time comes first: equality may hold between times that are shifted.
    return min(left, key=_length, default=equal[0]), min(right, key=_length, default=equal[1])


def _timed(key: Expression, times: tuple[Moment, ...]) -> bool:
    """Whether a key is event time: the column itself, a window over it, or the end of one."""
    match key:
        case Column(name):
            return any(moment.column == name for moment in times)
        case FieldOf(Column(name), "end"):
            return Moment(name, "end") in times
        case _:
            return False


def _own(key: Expression, computed: Moment) -> Moment:
    match key:
        case FieldOf(Column(name), "end"):
            return Moment(name, "end")
        case _:
            return computed


def _length(moment: Moment) -> int:
    return moment.plus_us


def _side(schema: Schema, keys: tuple[str, ...], times: tuple[Moment, ...], expires: Moment | None) -> JoinSide:
    return JoinSide(
        keys=keys,
        schema=schema,
        event_time=times[0] if times else None,
        expires=expires,
        lag_us=_lag(times, expires),
    )


def _lag(times: tuple[Moment, ...], expires: Moment | None) -> int | None:
    """A row that has not expired has an event time later than the watermark minus this."""
    if expires is None or any((one.column, one.field) != (expires.column, expires.field) for one in times):
        return None
    return expires.plus_us


def _tightest(ranges: list[TimeRange]) -> TimeRange | None:
    """The range that leaves the fewest rows to look at."""
    return min(ranges, key=lambda one: (one.low_us is None or one.high_us is None, _width(one)), default=None)


def _width(one: TimeRange) -> int:
    return (one.high_us or 0) - (one.low_us or 0)


def _seen(plan: Plan, nullable: bool) -> Schema:
    """Columns as the output has them: null where an outer join found no partner."""
    return tuple(Field(one.name, one.type, one.nullable or nullable) for one in plan.schema)
