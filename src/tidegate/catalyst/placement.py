"""``repartition``, ``coalesce``, hints: where rows go. Parallelism is the query's own, so the number of partitions only matters if it is one."""

from __future__ import annotations

from dataclasses import replace

from tidegate.catalyst.context import Context, project
from tidegate.catalyst.java import Java, class_name, items, present
from tidegate.catalyst.naming import Relation
from tidegate.catalyst.tree import read
from tidegate.plan.expressions import Column, Named
from tidegate.plan.relational import (
    AssignWatermark,
    Expand,
    Filter,
    Generate,
    MapBatches,
    Plan,
    Project,
    PythonEval,
    Repartition,
    StampTime,
    StaticJoin,
    Union,
)

PLACEMENT = ("Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint")
_ROW_BY_ROW = (Filter, Project, Expand, Generate, StampTime, PythonEval, MapBatches, StaticJoin, AssignWatermark)


def placement(context: Context, plan: Java, child: Relation) -> Relation:
    """The child behind the exchange the user asked for; hints and ``coalesce(n)`` ask for none."""
    match class_name(plan):
        case "Repartition":
            if int(plan.numPartitions()) == 1:
                return _placed(child, single=True)
            if plan.shuffle():
                context.warn(_number(plan.numPartitions()))
                return _placed(child)
            context.warn(
                "coalesce() has no effect, except coalesce(1): the query's parallelism says how many subtasks there are"
            )
            return child
        case "RepartitionByExpression":
            return _by_expressions(context, plan, child)
        case _:
            context.warn("hints have no effect: rows are placed by key, over the slots of the query")
            return child


def _by_expressions(context: Context, plan: Java, child: Relation) -> Relation:
    count = present(plan.optNumPartitions())
    if count == 1:
        return _placed(child, single=True)
    if count is not None:
        context.warn(_number(count))
    nodes = [read(expression) for expression in items(plan.partitionExpressions())]
    if any(node.kind == "SortOrder" for node in nodes):
        context.warn("repartitionByRange() spreads the rows evenly here: ranges of a stream are not known beforehand")
        return _placed(child)
    keys: list[Column] = []
    computed: list[Named] = []
    for node in nodes:
        value = context.expressions.from_node(node, child.scope, "repartition()")
        if not isinstance(value, Column):
            computed.append(Named(context.names.column("_key", value.type).name, value))
            value = Column(computed[-1].name, value.type)
        keys.append(value)
    if not computed:
        return _placed(child, keys)
    have = [Column(field.name, field.type) for field in child.plan.schema]
    made = [Column(named.name, named.expression.type) for named in computed]
    below = project(child.plan, [*(Named(one.name, one) for one in have), *computed], [*have, *made])
    return _placed(Relation(below, child.scope), keys)


def _placed(child: Relation, keys: list[Column] | None = None, *, single: bool = False) -> Relation:
    names = tuple(dict.fromkeys(key.name for key in keys or ()))
    node = Repartition(keys=names, single=single, schema=child.plan.schema, inputs=(child.plan,))
    return Relation(node, child.scope)


def _number(partitions: int) -> str:
    return f"repartition({partitions}, …) spreads the rows over all slots: set the option parallelism for another number of them"


def below_watermark(plan: Plan) -> tuple[Plan, Repartition | None]:
    """What a watermark is assigned to: the plan without its exchanges by ``repartition``, and the topmost of them, to be put above.

    Behind an exchange rows no longer know the split they came from, and the watermark could not be a minimum over splits.
    """
    match plan:
        case Repartition(inputs=(child,)):
            return below_watermark(child)[0], plan
        case Union(inputs=inputs):
            below = tuple(below_watermark(one)[0] for one in inputs)
            same = all(one is other for one, other in zip(below, inputs, strict=True))
            return (plan if same else replace(plan, inputs=below)), None
        case _ if isinstance(plan, _ROW_BY_ROW) and plan.inputs:
            child, moved = below_watermark(plan.inputs[0])
            return (plan if child is plan.inputs[0] else replace(plan, inputs=(child,))), moved
        case _:
            return plan, None


def above_watermark(plan: Plan, moved: Repartition | None) -> Plan:
    """``moved`` on top of ``plan``, if the columns it places rows by are still there."""
    if moved is None or not {field.name for field in plan.schema}.issuperset(moved.keys):
        return plan
    return replace(moved, schema=plan.schema, inputs=(plan,))
