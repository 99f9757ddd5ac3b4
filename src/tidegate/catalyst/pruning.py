"""Columns that nobody reads are not read: narrows a plan from the sink down to the scans.

Catalyst leaves that to physical planning, which never happens here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegate.model import types as t
from tidegate.model.types import Field, Schema
from tidegate.plan.expressions import Column, Named, columns_of
from tidegate.plan.keyed import (
    Deduplicate,
    JoinSide,
    PartialDeduplicate,
    SessionAggregate,
    StatefulProcess,
    StreamJoin,
    StreamJoinKind,
)
from tidegate.plan.ordering import Limit, PartialLimit, Sort
from tidegate.plan.relational import (
    Aggregate,
    AssignWatermark,
    Expand,
    Filter,
    Generate,
    JoinKind,
    MapBatches,
    PartialAggregate,
    Plan,
    Project,
    PythonEval,
    Repartition,
    Scan,
    Sink,
    StampTime,
    StaticJoin,
    Union,
)

Wanted = frozenset[str]


def prune(plan: Plan, wanted: Wanted | None = None) -> Plan:
    """The plan without columns that are not ``wanted``; all columns that are stay, others may. At least one column is left."""
    need: Wanted = _names(plan.schema) if wanted is None else wanted
    match plan:
        case Scan():
            keep = _kept(plan.schema, need)
            columns = tuple(column for column, one in zip(plan.columns, plan.schema, strict=True) if one in keep)
            return replace(plan, schema=keep, columns=columns)
        case Sink():
            return replace(plan, inputs=(prune(plan.inputs[0], frozenset(name for name, _ in plan.columns)),))
        case Sort():
            child = prune(plan.inputs[0], need.union(key.column for key in plan.order))
            return replace(plan, schema=child.schema, inputs=(child,))
        case Limit() | PartialLimit():
            child = prune(plan.inputs[0], need)
            return replace(plan, schema=child.schema, inputs=(child,))
        case Filter():
            child = prune(plan.inputs[0], need | columns_of(plan.condition))
            return replace(plan, schema=child.schema, inputs=(child,))
        case StampTime():
            if plan.column not in need:
                return prune(plan.inputs[0], need)
            child = prune(plan.inputs[0], need - {plan.column})
            return replace(plan, schema=(*child.schema, plan.schema[-1]), inputs=(child,))
        case Repartition():
            child = prune(plan.inputs[0], need.union(plan.keys))
            return replace(plan, schema=child.schema, inputs=(child,))
        case AssignWatermark():
            child = prune(plan.inputs[0], need | {plan.column})
            return replace(plan, schema=child.schema, inputs=(child,))
        case Project():
            return _project(plan, need)
        case Expand():
            keep = _kept(plan.schema, need)
            positions = [index for index, one in enumerate(plan.schema) if one in keep]
            projections = tuple(tuple(branch[index] for index in positions) for branch in plan.projections)
            child = prune(
                plan.inputs[0], frozenset().union(*(columns_of(one) for branch in projections for one in branch))
            )
            return replace(plan, projections=projections, schema=keep, inputs=(child,))
        case Aggregate():
            child = prune(plan.inputs[0], frozenset(plan.keys).union(*(call.reads for call in plan.calls)))
            return replace(plan, input_schema=child.schema, inputs=(child,))
        case SessionAggregate():
            child = prune(
                plan.inputs[0], frozenset((*plan.keys, plan.session)).union(*(call.reads for call in plan.calls))
            )
            return replace(plan, input_schema=child.schema, inputs=(child,))
        case Deduplicate():
            own = plan.keys if plan.event_time is None else (*plan.keys, plan.event_time.column)
            child = prune(plan.inputs[0], need.union(own))
            return replace(plan, schema=child.schema, inputs=(child,))
        case StreamJoin():
            return _stream_join(plan, need)
        case Generate():
            below = frozenset().union(need - _names(plan.generated), *(columns_of(arg) for arg in plan.args))
            child = prune(plan.inputs[0], below)
            carried = tuple(one for one in child.schema if one.name in need)
            return replace(plan, schema=(*carried, *plan.generated), inputs=(child,))
        case Union():
            keep = _kept(plan.schema, need)
            positions = [index for index, one in enumerate(plan.schema) if one in keep]
            return replace(plan, schema=keep, inputs=tuple(_exactly(child, positions) for child in plan.inputs))
        case PythonEval():
            below = frozenset().union(
                need - {udf.name for udf in plan.udfs}, *(columns_of(arg) for udf in plan.udfs for arg in udf.args)
            )
            child = prune(plan.inputs[0], below)
            made = tuple(Field(udf.name, udf.type) for udf in plan.udfs)
            return replace(plan, schema=(*child.schema, *made), inputs=(child,))
        case MapBatches() | StatefulProcess():
            child = plan.inputs[0]
            return replace(plan, inputs=(_exactly(child, range(len(child.schema))),))
        case StaticJoin():
            return _static_join(plan, need)
        case PartialAggregate() | PartialDeduplicate():
            return plan


def _project(plan: Project, need: Wanted) -> Plan:
    keep = _names(_kept(plan.schema, need))
    columns = tuple(named for named in plan.columns if named.name in keep)
    child = prune(plan.inputs[0], frozenset().union(*(columns_of(named.expression) for named in columns)))
    if all(_is_same(named) for named in columns) and _names(child.schema) == keep:
        return child  # It only chose columns, and now nothing is left to choose.
    return replace(plan, columns=columns, schema=tuple(one for one in plan.schema if one.name in keep), inputs=(child,))


def _static_join(plan: StaticJoin, need: Wanted) -> StaticJoin:
    expressions = plan.stream_keys if plan.condition is None else (*plan.stream_keys, plan.condition)
    used = frozenset().union(need, *(columns_of(one) for one in expressions)) - _names(plan.static_schema)
    child = prune(plan.inputs[0], used)
    if plan.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return replace(plan, schema=child.schema, inputs=(child,))
    static = plan.schema[len(plan.inputs[0].schema) :]
    return replace(plan, schema=(*child.schema, *static), inputs=(child,))


def _stream_join(plan: StreamJoin, need: Wanted) -> StreamJoin:
    used = need if plan.condition is None else need | columns_of(plan.condition)
    if plan.within is not None:
        used |= {plan.within.left, plan.within.right}
    left, one = _side(plan.left, plan.inputs[0], used)
    right, other = _side(plan.right, plan.inputs[1], used)
    semi = plan.kind is StreamJoinKind.SEMI
    seen = {field.name: field for field in plan.schema}
    schema = left.schema if semi else tuple(seen[field.name] for field in (*left.schema, *right.schema))
    return replace(plan, left=left, right=right, schema=schema, inputs=(one, other))


def _side(side: JoinSide, child: Plan, used: Wanted) -> tuple[JoinSide, Plan]:
    times = [moment.column for moment in (side.event_time, side.expires) if moment is not None]
    pruned = prune(child, used.union(side.keys, times))
    return replace(side, schema=pruned.schema), pruned


def _exactly(child: Plan, positions: Iterable[int]) -> Plan:
    """The columns at ``positions``, in that order and no others: for consumers that match by position."""
    chosen = [child.schema[index] for index in positions]
    pruned = prune(child, _names(chosen))
    if [one.name for one in pruned.schema] == [one.name for one in chosen]:
        return pruned
    columns = tuple(Named(one.name, Column(one.name, one.type)) for one in chosen)
    return Project(columns=columns, schema=tuple(chosen), inputs=(pruned,))


def _kept(schema: Schema, need: Wanted) -> Schema:
    keep = tuple(one for one in schema if one.name in need)
    return keep or (min(schema, key=_width),)


def _width(field: Field) -> int:
    """Smaller is cheaper to read."""
    if field.type in (t.STRING, t.BINARY):
        return 1
    return 0 if isinstance(field.type, t.Atomic) else 2


def _is_same(named: Named) -> bool:
    return isinstance(named.expression, Column) and named.expression.name == named.name


def _names(schema: Iterable[Field]) -> Wanted:
    return frozenset(one.name for one in schema)
