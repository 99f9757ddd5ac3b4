"""``foreachBatch`` as the registry sees it."""

from __future__ import annotations

from tidegate.connectors.foreach_batch.sink import ForeachBatchCommitter, ForeachBatchSink, check_schema
from tidegate.plan.relational import Sink


def sink(node: Sink) -> ForeachBatchSink:
    check_schema(node)
    return ForeachBatchSink()


def committer(node: Sink) -> ForeachBatchCommitter:
    return ForeachBatchCommitter(node)
