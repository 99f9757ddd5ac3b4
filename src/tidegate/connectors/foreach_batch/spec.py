"""``foreachBatch``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tidegate.connectors.batches import Batches
from tidegate.connectors.collected import whole_result
from tidegate.connectors.foreach_batch.sink import BatchWriter, ForeachBatchCommitter
from tidegate.model.errors import InvalidQuery
from tidegate.operators.columns import polars_type
from tidegate.ports.context import CommitterContext, WriterContext
from tidegate.ports.spec import NOWHERE, ConnectorRequest, Place, SinkSpec, SparkJobs


@dataclass(frozen=True, kw_only=True)
class ForeachBatchSpec(SinkSpec):
    """At least once per batch id, the same rows for the same id: Spark's contract."""

    IGNORED: ClassVar = frozenset({"path"})
    OUTLIVES_QUERY: ClassVar = False
    SPARK_JOBS: ClassVar = SparkJobs.ALWAYS

    @classmethod
    def said(cls, asked: ConnectorRequest) -> dict[str, Any]:
        if asked.partition_by:
            raise InvalidQuery(
                "partitionBy has no meaning for foreachBatch", hint="partition in the function, when it writes"
            )
        for column in asked.schema:
            polars_type(column.type)
        return super().said(asked)

    @property
    def place(self) -> Place:
        return NOWHERE

    @property
    def guarantee(self) -> str:
        return "at_least_once"

    def writer(self, context: WriterContext) -> BatchWriter:
        batches = Batches(context.store, context.operator)
        return BatchWriter(batches, context.attempt, context.subtask, whole_result(self))

    def committer(self, context: CommitterContext) -> ForeachBatchCommitter:
        return ForeachBatchCommitter(context)


SINK = ForeachBatchSpec
