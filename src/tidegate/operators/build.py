"""From a plan node to the operator that runs it: the one place that knows them all."""

from __future__ import annotations

from tidegate.model.config import QueryConfig
from tidegate.model.errors import Bug
from tidegate.operators.assign_watermark import AssignWatermarkOperator
from tidegate.operators.dead_letters import DeadLetterOperator
from tidegate.operators.ports import Connectors
from tidegate.operators.protocol import Operator, OperatorContext
from tidegate.operators.sink import SinkOperator
from tidegate.operators.source import SourceOperator
from tidegate.operators.union import UnionOperator
from tidegate.operators.user_functions import Load
from tidegate.plan.relational import (
    Aggregate,
    AssignWatermark,
    Expand,
    Filter,
    MapBatches,
    PartialAggregate,
    Plan,
    Project,
    PythonEval,
    Scan,
    Sink,
    StaticJoin,
    Union,
)


def refuse_user_functions(command: bytes) -> object:
    """The loader of a runtime that was given none: the core unpickles nothing by itself."""
    raise Bug(
        f"a user function of {len(command)} bytes arrived in a slot without a loader",
        hint="pass load= to SlotRuntime; with Spark that is tidegate.spark.functions.load",
    )


def build(
    node: Plan,
    context: OperatorContext,
    connectors: Connectors,
    config: QueryConfig,
    load: Load = refuse_user_functions,
    now_ms: float = 0.0,
) -> Operator:
    """The running instance of ``node`` in the subtask that ``context`` describes. ``load`` unpickles user functions."""
    # Imported where they are used: a slot without user functions need not load pandas.
    match node:
        case Scan():
            return SourceOperator(node, context, connectors.source(node), config, now_ms)
        case Sink():
            kind = DeadLetterOperator if node.dead_letters else SinkOperator
            return kind(node, context, connectors.sink(node))
        case AssignWatermark():
            return AssignWatermarkOperator(node, context)
        case Union():
            return UnionOperator(node)
        case Filter():
            from tidegate.operators.filter import FilterOperator

            return FilterOperator(node)
        case Project():
            from tidegate.operators.project import ProjectOperator

            return ProjectOperator(node)
        case Expand():
            from tidegate.operators.expand import ExpandOperator

            return ExpandOperator(node)
        case PartialAggregate():
            from tidegate.operators.partial_aggregate import PartialAggregateOperator

            return PartialAggregateOperator(node)
        case Aggregate():
            from tidegate.operators.aggregate import AggregateOperator

            return AggregateOperator(node, context)
        case PythonEval():
            from tidegate.operators.python_eval import PythonEvalOperator

            return PythonEvalOperator(node, load, tolerant=bool(config.dead_letter))
        case MapBatches():
            from tidegate.operators.map_batches import MapBatchesOperator

            return MapBatchesOperator(node, load, tolerant=bool(config.dead_letter))
        case StaticJoin():
            from tidegate.operators.static_join import StaticJoinOperator

            return StaticJoinOperator(node)
