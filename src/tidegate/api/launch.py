"""From a request to a running query: everything is checked here, in an order in which the first complaint is the most useful one."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from functools import partial

from pyspark.sql import SparkSession

from tidegate.api.checking import check_unstarted
from tidegate.api.foreach_batch import FORMAT as FOREACH_BATCH
from tidegate.api.preparing import prepare
from tidegate.api.query import StreamingQuery
from tidegate.api.requests import PipelineRequest, QueryRequest
from tidegate.api.settings import QueryOptions, sort_options
from tidegate.catalyst.data_sources import registered
from tidegate.catalyst.naming import Names
from tidegate.catalyst.static_joins import forget_listings
from tidegate.catalyst.together import together
from tidegate.catalyst.translate import SinkRequest, Translation, read_query
from tidegate.connectors.python_source.payload import pack
from tidegate.connectors.registry import sink_kind, unknown_sink
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.plan.relational import Sink
from tidegate.spark.checks import check_session, refuse_connect
from tidegate.storage.rocksdb_entries import check_backend

log = logging.getLogger("tidegate")


def launch(request: QueryRequest) -> StreamingQuery:
    """Raises InvalidQuery for whatever is wrong; nothing runs and no output is touched before all of it is checked."""
    return prepare(_alone(request)).start()


def check(request: QueryRequest) -> None:
    """Raises what ``launch`` would refuse, except for what only the sink's target could tell. Starts nothing, writes nothing."""
    check_unstarted(_alone(request))


def _alone(request: QueryRequest) -> PipelineRequest:
    options = sort_options(request.options)
    check_request(request, options)
    found = read_request(request, options, Names())
    (component,) = together((found.plan,))
    return PipelineRequest(
        (request,),
        options,
        request.trigger,
        request.name,
        component.plans,
        fingerprint_of((found,)),
        partial(reread, (request,), (options,), component.positions),
    )


def check_request(request: QueryRequest, options: QueryOptions) -> None:
    """What can be said about a query before it is read."""
    refuse_connect(request.df)
    session = request.df.sparkSession
    check_session(session)
    parse_mode(request.mode)
    if request.format == "memory" and not request.name:
        raise InvalidQuery(
            "the memory sink needs a name", hint='call .queryName("results"): it becomes the view to query'
        )
    refuse_early(request, options, session)


def read_request(request: QueryRequest, options: QueryOptions, names: Names) -> Translation:
    """The query's plan, raw; its warnings are logged. ``names`` is the same for all queries that run together."""
    payload = request.payload or python_writer(request, options)
    sink = SinkRequest(request.format, options.sink, request.partition_by, payload, request.query)
    found = read_query(request.df, mode=parse_mode(request.mode), sink=sink, names=names)
    for warning in found.warnings:
        log.warning("%s", warning)
    return found


def python_writer(request: QueryRequest, options: QueryOptions) -> bytes:
    """The user's data source that the query writes with; empty for a sink of ours."""
    known = sink_kind(request.format)
    kind = None if known is not None else registered(request.df.sparkSession, request.format)
    return b"" if kind is None else pack(kind, options.sink, request.df.schema)


def reread(
    requests: Sequence[QueryRequest], options: Sequence[QueryOptions], positions: tuple[int, ...]
) -> tuple[Sink, ...]:
    """The plans of the queries at ``positions``, which make one pipeline, over static data as it is now.

    All queries that were read together are read again, so that columns get the same names.
    """
    for request in requests:
        forget_listings(request.df)
    names = Names()
    found = [read_request(*both, names) for both in zip(requests, options, strict=True)]
    return next(one.plans for one in together([one.plan for one in found]) if one.positions == positions)


def fingerprint_of(found: Sequence[Translation]) -> str:
    return hashlib.sha256("\n".join(one.text for one in found).encode()).hexdigest()[:16]


def parse_mode(text: str) -> OutputMode:
    match str(text).lower():
        case "append":
            return OutputMode.APPEND
        case "update":
            return OutputMode.UPDATE
        case "complete":
            return OutputMode.COMPLETE
        case other:
            raise InvalidQuery(f"there is no output mode {other!r}", hint="the modes are append, update and complete")


def refuse_early(request: QueryRequest, options: QueryOptions, session: SparkSession) -> None:
    """What can be seen without the query itself: reading it computes its static sides, and those are Spark jobs."""
    kind = sink_kind(request.format)
    if kind is None and registered(session, request.format) is None:
        raise unknown_sink(request.format)
    if request.format == FOREACH_BATCH and request.function is None:
        raise InvalidQuery(
            "format foreachBatch has no function", hint="call .foreachBatch(function) instead of .format(…)"
        )
    check_backend(str(options.config.get("state_backend", "memory")))
    named = options.checkpoint_location or session.conf.get("spark.sql.streaming.checkpointLocation", None)
    if not named and (kind is None or kind.OUTLIVES_QUERY):
        raise InvalidQuery(
            f"a query that writes {request.format} needs a checkpoint location",
            hint='set .option("checkpointLocation", "/a/durable/place"): what the query has read and written is kept there',
        )
