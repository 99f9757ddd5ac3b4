"""From a request to a running query: everything is checked here, in an order in which the first complaint is the most useful one."""

from __future__ import annotations

import hashlib
import logging
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tidegate.api.active import ACTIVE
from tidegate.api.event_time import refuse_far_assigners
from tidegate.api.explain import explain_query
from tidegate.api.foreach_batch import FORMAT as FOREACH_BATCH
from tidegate.api.foreach_batch import BatchCaller, BatchFunction, refuse_starvation
from tidegate.api.location import StartFrom, check_store, newest_claim, open_pipeline
from tidegate.api.query import StreamingQuery
from tidegate.api.reports import QueryIdentity, describe_sink, promised
from tidegate.api.screen import show_progress
from tidegate.api.session_settings import session_fields, session_storage
from tidegate.api.settings import QueryOptions, sort_options, to_config
from tidegate.api.static_tables import TableSweep, store_tables, with_partitioned_tables
from tidegate.api.triggers import Trigger
from tidegate.api.views import keep_view
from tidegate.catalyst.data_sources import registered
from tidegate.catalyst.naming import Names
from tidegate.catalyst.static_joins import forget_listings
from tidegate.catalyst.together import together
from tidegate.catalyst.translate import SinkRequest, Translation, read_query
from tidegate.checkpoint.manifest import PipelineDocument
from tidegate.checkpoint.plan import plan_of
from tidegate.checkpoint.ports import BlobStore
from tidegate.connectors.foreach_batch.sink import ForeachBatchCommitter
from tidegate.connectors.memory.sink import MemoryCommitter
from tidegate.connectors.options import COMMIT_WITHIN, PIPELINE
from tidegate.connectors.python_source.payload import pack
from tidegate.connectors.registry import SINKS, RealConnectors, unknown_sink
from tidegate.model.config import CheckpointMode, QueryConfig
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId, PipelineId
from tidegate.operators.ports import CheckedEnumerator
from tidegate.plan.graph import JobGraph
from tidegate.plan.identity import pin_all
from tidegate.plan.relational import OutputMode, Plan, Scan, Sink
from tidegate.plan.stages import build_graph
from tidegate.spark.checks import check_session, choose_parallelism, refuse_connect, task_slots
from tidegate.spark.driver import JobMaster
from tidegate.storage.open import absolute_path, open_store
from tidegate.storage.options import StorageOptions
from tidegate.storage.output_directory import open_directory
from tidegate.storage.rocksdb_entries import check_backend

log = logging.getLogger("tidegate")

TEMPORARY_LOCATION_FORMATS = ("memory", "console", "noop", "foreach", FOREACH_BATCH)
"""Sinks that do not outlive the query, so that a checkpoint location may be made up for them, as Spark does."""


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
        return any(request.format in ("memory", FOREACH_BATCH) for request in self.requests)

    @property
    def calls_functions(self) -> bool:
        """Whether Spark jobs beside the slots are certain: the query stands still without them."""
        return any(request.function is not None for request in self.requests)


@dataclass(frozen=True, slots=True)
class PreparedPipeline:
    """A pipeline that was found good and does not run yet. One that is never started leaves an empty location behind."""

    request: PipelineRequest
    config: QueryConfig
    graph: JobGraph
    connectors: RealConnectors
    guarantees: tuple[str, ...]
    """Of the sinks, in the graph's order."""
    store: BlobStore
    location: str
    temporary: bool
    pipeline: PipelineId
    storage: StorageOptions
    """How its location, and savepoints elsewhere, are reached: from here and from the slots."""

    def reread(self) -> JobGraph:
        """The graph of the same query over static data as it is now. Raises InvalidQuery when Spark has no task slot to read it with."""
        session, parallelism = self.request.session, self.config.parallelism
        if parallelism >= task_slots(session):
            raise InvalidQuery(
                f"the query takes all {parallelism} task slots: none is left to read static data with",
                hint=f'leave one free: .option("parallelism", {max(1, parallelism - 1)}), or give Spark more cores',
            )
        plans = pin_all(self.request.reread(), self.request.options.uids)
        plans, tables = with_partitioned_tables(plans, self.config)
        store_tables(self.store, tables)
        return with_pipeline(graph_of(plans, self.config), self.pipeline, self.config)

    def start(self) -> StreamingQuery:
        request, graph, config, connectors = self.request, self.graph, self.config, self.connectors
        committers = {sink.id: connectors.committer(sink) for sink in graph.sinks()}
        identity = QueryIdentity(self.pipeline, str(uuid.uuid4()), request.name)
        description = ", ".join(map(describe_sink, graph.sinks(), self.guarantees))
        master = JobMaster(
            request.session,
            graph,
            config,
            plan_of(graph, self.pipeline, config),
            self.store,
            self.location,
            storage=self.storage,
            name=request.name or self.pipeline[:8],
            description=explain_query(request.plans, graph, config, description, extended=True),
            enumerators=lambda: {scan.id: connectors.enumerator(scan, config) for scan in graph.scans()},
            committers=committers,
            accept_duplicates=request.options.accept_duplicates,
        )
        for one, plan in zip(request.requests, request.plans, strict=True):
            committer = committers[plan.id]
            if isinstance(committer, MemoryCommitter) and one.name is not None:
                keep_view(request.session, one.name, plan, committer)
            if isinstance(committer, ForeachBatchCommitter) and one.function is not None:
                caller = BatchCaller(
                    request.session, one.function, plan, config.parallelism, self.location, self.storage
                )
                committer.call_with(caller)
        query = StreamingQuery(
            master,
            identity,
            graph,
            request.plans,
            config,
            self.location,
            description,
            temporary=self.temporary,
            storage=self.storage,
            reread=self.reread,
            tables=TableSweep(self.store, graph),
        )
        ACTIVE.add(query)
        master.start(newest_claim(self.store))
        show_progress(query, request.options.progress)
        return query


def launch(request: QueryRequest) -> StreamingQuery:
    """Raises InvalidQuery for whatever is wrong; nothing runs and no output is touched before all of it is checked."""
    options = sort_options(request.options)
    check_request(request, options)
    found = read_request(request, options, Names())
    (component,) = together((found.plan,))
    pipeline = PipelineRequest(
        (request,),
        options,
        request.trigger,
        request.name,
        component.plans,
        fingerprint_of((found,)),
        partial(reread, (request,), (options,), component.positions),
    )
    return prepare(pipeline).start()


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
    kind = None if request.format in SINKS else registered(request.df.sparkSession, request.format)
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


def graph_of(plans: Sequence[Sink], config: QueryConfig) -> JobGraph:
    return build_graph(
        *plans,
        parallelism=config.parallelism,
        max_parallelism=config.max_parallelism,
        dead_letter=config.dead_letter,
    )


def fingerprint_of(found: Sequence[Translation]) -> str:
    return hashlib.sha256("\n".join(one.text for one in found).encode()).hexdigest()[:16]


def prepare(request: PipelineRequest) -> PreparedPipeline:
    """Checks all of the pipeline: what it returns can be started."""
    options, session = request.options, request.session
    config = to_config({**session_fields(session), **options.config, **request.trigger.config_fields()})
    config = replace_parallelism(config, choose_parallelism(session, config.parallelism, spare=request.spare))
    if request.calls_functions:
        refuse_starvation(session, config.parallelism)
    if config.parallelism >= task_slots(session):
        log.warning(
            "the query takes all %s task slots: other Spark jobs wait until it ends (option parallelism leaves some free)",
            config.parallelism,
        )
    plans, tables = with_partitioned_tables(pin_all(request.plans, options.uids), config)
    request = replace(request, plans=plans)
    graph = graph_of(request.plans, config)
    check_whole_results(graph, config)
    storage = options.storage.over(session_storage(session))
    connectors = RealConnectors(open_directory=partial(open_directory, options=storage))
    ordered: set[OperatorId] = set()
    for scan in graph.scans():
        connectors.source(scan)
        enumerator = connectors.enumerator(scan, config)
        if getattr(enumerator, "ordered", False):
            ordered.add(scan.id)
        if isinstance(enumerator, CheckedEnumerator):
            enumerator.check()
    refuse_far_assigners(graph, ordered, config)
    guarantees = tuple(promised(connectors.sink(sink).guarantee, config.checkpoint_mode) for sink in graph.sinks())
    location, temporary = choose_location(request.name, options, session)
    ACTIVE.refuse_duplicates(request.name, location)
    store = open_store(location, storage)
    check_store(store, location)
    new = PipelineDocument(
        pipeline=PipelineId(str(uuid.uuid4())), max_parallelism=config.max_parallelism, fingerprint=request.fingerprint
    )
    pipeline = open_pipeline(
        store, location, new, lambda name: plan_of(graph, name, config), parse_start_from(options, storage)
    )
    ACTIVE.refuse_twins(pipeline.pipeline, location)
    store_tables(store, tables)
    return PreparedPipeline(
        request,
        config,
        with_pipeline(graph, pipeline.pipeline, config),
        RealConnectors(store, partial(open_directory, options=storage)),
        guarantees,
        store,
        location,
        temporary,
        pipeline.pipeline,
        storage,
    )


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


def check_whole_results(graph: JobGraph, config: QueryConfig) -> None:
    """A result that leaves whole at every barrier needs barriers that separate one from the next."""
    if not graph.has_whole_results:
        return
    if config.checkpoint_mode is not CheckpointMode.EXACTLY_ONCE:
        raise InvalidQuery(
            f"outputMode('complete') cannot run with checkpointMode {config.checkpoint_mode.value}: results of two checkpoints would mix",
            hint="leave the option out: exactly-once is the default",
        )
    if config.aligned_timeout_ms:
        log.warning("option alignedTimeout has no effect in output mode complete: no barrier overtakes a result")


def replace_parallelism(config: QueryConfig, parallelism: int) -> QueryConfig:
    if parallelism > config.max_parallelism:
        raise InvalidQuery(
            f"the cluster offers {parallelism} slots, more than maxParallelism {config.max_parallelism}",
            hint=f'set .option("parallelism", {config.max_parallelism}) or raise maxParallelism (for a new location)',
        )
    return msgspec.structs.replace(config, parallelism=parallelism)


def refuse_early(request: QueryRequest, options: QueryOptions, session: SparkSession) -> None:
    """What can be seen without the query itself: reading it computes its static sides, and those are Spark jobs."""
    if request.format not in SINKS and registered(session, request.format) is None:
        raise unknown_sink(request.format)
    if request.format == FOREACH_BATCH and request.function is None:
        raise InvalidQuery(
            "format foreachBatch has no function", hint="call .foreachBatch(function) instead of .format(…)"
        )
    check_backend(str(options.config.get("state_backend", "memory")))
    named = options.checkpoint_location or session.conf.get("spark.sql.streaming.checkpointLocation", None)
    if not named and request.format not in TEMPORARY_LOCATION_FORMATS:
        raise InvalidQuery(
            f"a query that writes {request.format} needs a checkpoint location",
            hint='set .option("checkpointLocation", "/a/durable/place"): what the query has read and written is kept there',
        )


def choose_location(name: str | None, options: QueryOptions, session: SparkSession) -> tuple[str, bool]:
    """As Spark does: the option, else a place under ``spark.sql.streaming.checkpointLocation``, else a temporary one.

    The second value says whether it is temporary.
    """
    if options.checkpoint_location is not None:
        return absolute_path(options.checkpoint_location), False
    root = session.conf.get("spark.sql.streaming.checkpointLocation", None)
    if root:
        return absolute_path(f"{root.rstrip('/')}/{name or uuid.uuid4()}"), False
    return tempfile.mkdtemp(prefix="tidegate-checkpoints-"), True


def parse_start_from(options: QueryOptions, storage: StorageOptions) -> StartFrom | None:
    if options.start_from is None:
        return None
    source = absolute_path(options.start_from)
    return StartFrom(source, options.claim_savepoint, partial(open_store, options=storage, make=False))


def with_pipeline(graph: JobGraph, pipeline: PipelineId, config: QueryConfig) -> JobGraph:
    """Connectors learn whose rows they write: staged output of another pipeline is never touched. And how long that may stay staged."""
    interval_ms = max(config.checkpoint_interval_ms, config.backlog_checkpoint_interval_ms)
    commit_within_ms = interval_ms + config.checkpoint_timeout_ms + config.restart_delay_max_ms
    own = {PIPELINE: str(pipeline), COMMIT_WITHIN: str(commit_within_ms)}

    def tagged(node: Plan) -> Plan:
        return replace(node, options={**node.options, **own}) if isinstance(node, Sink | Scan) else node

    stages = tuple(replace(stage, nodes=tuple(tagged(node) for node in stage.nodes)) for stage in graph.stages)
    return replace(graph, stages=stages)
