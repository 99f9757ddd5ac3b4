"""From a plan node to the operator that runs it: the one place that knows them all."""

from __future__ import annotations

from tidegate.model.config import QueryConfig
from tidegate.model.errors import Bug
from tidegate.operators.assign_watermark import AssignWatermarkOperator
from tidegate.operators.dead_letters import DeadLetterOperator
from tidegate.operators.ports import Connectors, LoadTable
from tidegate.operators.protocol import Operator, OperatorContext
from tidegate.operators.repartition import RepartitionOperator
from tidegate.operators.sink import SinkOperator
from tidegate.operators.source import SourceOperator
from tidegate.operators.union import UnionOperator
from tidegate.operators.user_functions import Load
from tidegate.plan.keyed import Deduplicate, PartialDeduplicate, SessionAggregate, StatefulProcess, StreamJoin
from tidegate.plan.ordering import Limit, PartialLimit, Sort
from tidegate.plan.relational import (
    Aggregate,
    AssignWatermark,
    Expand,
    Filter,
    Generate,
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
    chunks: LoadTable | None = None,
) -> Operator:
    """The running instance of ``node`` in the subtask that ``context`` describes. ``load`` unpickles user functions; ``chunks`` reads
    stored ones, here parts of static tables."""
    # Imported where they are used: a slot without user functions need not load pandas.
    match node:
        case Scan():
            return SourceOperator(node, context, connectors.source(node), config, now_ms)
        case Sink():
            kind = DeadLetterOperator if node.dead_letters else SinkOperator
            return kind(node, context, connectors.writer(node, context.attempt, context.subtask))
        case AssignWatermark():
            return AssignWatermarkOperator(node, context)
        case Union():
            return UnionOperator(node)
        case Repartition():
            return RepartitionOperator()
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
        case SessionAggregate():
            from tidegate.operators.sessions import SessionAggregateOperator

            return SessionAggregateOperator(node, context)
        case Deduplicate():
            from tidegate.operators.deduplicate import DeduplicateOperator

            return DeduplicateOperator(node, context)
        case Sort():
            from tidegate.operators.sort import SortOperator

            return SortOperator(node, context)
        case Limit():
            from tidegate.operators.limit import LimitOperator

            return LimitOperator(node, context)
        case PartialLimit():
            from tidegate.operators.limit import PartialLimitOperator

            return PartialLimitOperator(node)
        case PartialDeduplicate():
            from tidegate.operators.partial_deduplicate import PartialDeduplicateOperator

            return PartialDeduplicateOperator(node)
        case StreamJoin():
            from tidegate.operators.stream_join import StreamJoinOperator

            return StreamJoinOperator(node, context)
        case StatefulProcess():
            from tidegate.operators.stateful_process import StatefulProcessOperator

            return StatefulProcessOperator(node, context, load)
        case Generate():
            from tidegate.operators.generate import GenerateOperator

            return GenerateOperator(node)
        case StampTime():
            from tidegate.operators.stamp_time import StampTimeOperator

            return StampTimeOperator(node)
        case PythonEval():
            from tidegate.operators.python_eval import PythonEvalOperator

            return PythonEvalOperator(node, load, tolerant=bool(config.dead_letter))
        case MapBatches():
            from tidegate.operators.map_batches import MapBatchesOperator

            return MapBatchesOperator(node, load, tolerant=bool(config.dead_letter))
        case StaticJoin():
            from tidegate.operators.static_join import StaticJoinOperator

            return StaticJoinOperator(node, context.groups, chunks)
