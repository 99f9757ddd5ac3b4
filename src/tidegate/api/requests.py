"""What the user asked for, as the writer or the job collected it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from tidegate.api.foreach_batch import BatchFunction
from tidegate.api.settings import QueryOptions
from tidegate.api.triggers import Trigger
from tidegate.connectors.registry import sink_kind
from tidegate.plan.relational import Sink
from tidegate.ports.spec import SparkJobs


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """What the user asked for, as the writer collected it."""

    df: DataFrame
    format: str
    options: dict[str, object]
    mode: str
    name: str | None
    partition_by: tuple[str, ...]
    trigger: Trigger
    payload: bytes = b""
    query: str = ""
    """Its name among the queries of a job; empty: it is alone."""
    function: BatchFunction | None = None
    """Of ``foreachBatch``: it stays in this process."""


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """Queries that run as one pipeline, and what holds for all of them."""

    requests: tuple[QueryRequest, ...]
    options: QueryOptions
    trigger: Trigger
    name: str | None
    plans: tuple[Sink, ...]
    """Of the requests, in their order."""
    fingerprint: str
    reread: Callable[[], tuple[Sink, ...]]
    """The plans again, over static data as it is at the call."""

    @property
    def session(self) -> SparkSession:
        return self.requests[0].df.sparkSession

    @property
    def spare(self) -> bool:
        """Whether Spark jobs are to be expected beside the slots."""
        kinds = (sink_kind(request.format) for request in self.requests)
        return any(kind is not None and kind.SPARK_JOBS is not SparkJobs.NEVER for kind in kinds)

    @property
    def calls_functions(self) -> bool:
        """Whether Spark jobs beside the slots are certain: the query stands still without them."""
        return any(request.function is not None for request in self.requests)
