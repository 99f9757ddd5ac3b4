"""A pipeline on its way from a request to a start: checked as far as that goes without its location, then with it."""

from __future__ import annotations

import logging
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec
from pyspark.sql import SparkSession

from tidegate.api.active import ACTIVE
from tidegate.api.event_time import refuse_far_assigners
from tidegate.api.explain import explain_query
from tidegate.api.foreach_batch import BatchCaller, refuse_starvation
from tidegate.api.location import StartFrom, check_store, newest_claim, open_pipeline
from tidegate.api.preflight import checking_sources, refuse_unrestorable
from tidegate.api.query import StreamingQuery
from tidegate.api.reports import QueryIdentity, describe_sink, promised
from tidegate.api.requests import PipelineRequest, QueryRequest
from tidegate.api.screen import show_progress
from tidegate.api.session_settings import session_fields, session_storage
from tidegate.api.settings import QueryOptions, to_config
from tidegate.api.static_tables import TableSweep, store_tables, with_partitioned_tables
from tidegate.api.structured_streaming import refuse_structured_streaming
from tidegate.api.views import keep_view
from tidegate.checkpoint.manifest import PipelineDocument
from tidegate.checkpoint.plan import plan_of
from tidegate.connectors.home import Home, RealConnectors
from tidegate.connectors.registry import parse_sink
from tidegate.model.config import CheckpointMode, QueryConfig
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId, PipelineId
from tidegate.plan.dead_letters import LETTERS, DeadLetters
from tidegate.plan.graph import JobGraph
from tidegate.plan.identity import pin_all
from tidegate.plan.relational import Sink
from tidegate.plan.stages import build_graph
from tidegate.ports.spec import ConnectorRequest
from tidegate.ports.store import BlobStore
from tidegate.spark.checks import choose_parallelism, task_slots
from tidegate.spark.driver import JobMaster
from tidegate.spark.letting_go import opened
from tidegate.spark.outside import remembered_by
from tidegate.storage.open import absolute_path, open_store
from tidegate.storage.options import StorageOptions
from tidegate.storage.output_directory import open_directory

log = logging.getLogger("tidegate")


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
        return graph_of(plans, self.config)

    def start(self) -> StreamingQuery:
        request, graph, config, connectors = self.request, self.graph, self.config, self.connectors
        callbacks = {
            plan.id: self._callback(one, plan) for one, plan in zip(request.requests, request.plans, strict=True)
        }
        committers = {sink.id: connectors.committer(sink, callbacks.get(sink.id)) for sink in graph.sinks()}
        checkpoint_plan = plan_of(graph, self.pipeline, config)
        refuse_unrestorable(
            checkpoint_plan,
            self.store,
            accept_duplicates=request.options.accept_duplicates,
            ask_targets=partial(remembered_by, committers),
        )
        identity = QueryIdentity(self.pipeline, str(uuid.uuid4()), request.name)
        description = ", ".join(map(describe_sink, graph.sinks(), self.guarantees))
        master = JobMaster(
            request.session,
            graph,
            config,
            checkpoint_plan,
            self.store,
            self.location,
            storage=self.storage,
            name=request.name or self.pipeline[:8],
            description=explain_query(request.plans, graph, config, description, extended=True),
            enumerators=lambda: {scan.id: connectors.enumerator(scan) for scan in graph.scans()},
            committers=committers,
            accept_duplicates=request.options.accept_duplicates,
        )
        for committer in committers.values():
            committer.open()
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

    def _callback(self, request: QueryRequest, plan: Sink) -> Callable[..., None] | None:
        """Who in this process gets the output of a query, if its sink gives it to somebody here."""
        if request.function is not None:
            return BatchCaller(
                request.df.sparkSession, request.function, plan, self.config.parallelism, self.location, self.storage
            )
        return partial(keep_view, request.df.sparkSession, request.name, plan.schema) if request.name else None


@dataclass(frozen=True, slots=True)
class CheckedPipeline:
    """All that can be seen of a pipeline without its location was found good."""

    request: PipelineRequest
    config: QueryConfig
    graph: JobGraph
    guarantees: tuple[str, ...]
    storage: StorageOptions
    tables: dict[str, bytes]
    """What has to be stored before it runs: names and contents."""


def check_pipeline(request: PipelineRequest) -> CheckedPipeline:
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
    connectors = RealConnectors(config, partial(open_directory, options=storage))
    ordered: set[OperatorId] = set()
    for scan in graph.scans():
        with opened(connectors.enumerator(scan)) as enumerator:
            if enumerator.ordered:
                ordered.add(scan.id)
            enumerator.check()
    refuse_far_assigners(graph, ordered, config)
    guarantees = tuple(promised(sink.spec.guarantee, config.checkpoint_mode) for sink in graph.sinks())
    return CheckedPipeline(request, config, graph, guarantees, storage, tables)


def prepare(request: PipelineRequest) -> PreparedPipeline:
    """Checks all of the pipeline: what it returns can be started."""
    checked = check_pipeline(request)
    options, config, graph, storage = request.options, checked.config, checked.graph, checked.storage
    location, temporary = choose_location(request.name, options, request.session)
    ACTIVE.refuse_duplicates(request.name, location)
    store = open_store(location, storage)
    refuse_structured_streaming(store, location)
    check_store(store, location)
    connectors = RealConnectors(config, partial(open_directory, options=storage))
    check_sources = checking_sources(graph, connectors)
    pipeline = open_pipeline(
        store,
        location,
        new_document(request, config),
        lambda name: plan_of(graph, name, config),
        parse_start_from(options, storage),
        check_sources,
    )
    ACTIVE.refuse_twins(pipeline.pipeline, location)
    # Targets are asked by start(): here nothing of them has been opened or made.
    refuse_unrestorable(
        plan_of(graph, pipeline.pipeline, config),
        store,
        accept_duplicates=options.accept_duplicates,
        check_sources=check_sources,
    )
    store_tables(store, checked.tables)
    return PreparedPipeline(
        checked.request,
        config,
        graph,
        replace(connectors, home=Home(pipeline.pipeline, store)),
        checked.guarantees,
        store,
        location,
        temporary,
        pipeline.pipeline,
        storage,
    )


def new_document(request: PipelineRequest, config: QueryConfig) -> PipelineDocument:
    """The identity of the pipeline if its location is new."""
    return PipelineDocument(
        pipeline=PipelineId(str(uuid.uuid4())), max_parallelism=config.max_parallelism, fingerprint=request.fingerprint
    )


def graph_of(plans: Sequence[Sink], config: QueryConfig) -> JobGraph:
    return build_graph(
        *plans,
        parallelism=config.parallelism,
        max_parallelism=config.max_parallelism,
        dead_letters=dead_letters_in(config.dead_letter) if config.dead_letter else None,
    )


def dead_letters_in(directory: str) -> DeadLetters:
    """JSON lines, whatever the query writes."""
    return DeadLetters(
        directory, parse_sink(ConnectorRequest(format="json", options={"path": directory}, schema=LETTERS))
    )


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


def choose_location(
    name: str | None, options: QueryOptions, session: SparkSession, *, make: bool = True
) -> tuple[str, bool]:
    """As Spark does: the option, else a place under ``spark.sql.streaming.checkpointLocation``, else a temporary one.

    The second value says whether it is temporary. ``make``: whether a temporary one is made.
    """
    if options.checkpoint_location is not None:
        return absolute_path(options.checkpoint_location), False
    root = session.conf.get("spark.sql.streaming.checkpointLocation", None)
    if root:
        return absolute_path(f"{root.rstrip('/')}/{name or uuid.uuid4()}"), False
    return tempfile.mkdtemp(prefix="tidegate-checkpoints-") if make else "", True


def parse_start_from(options: QueryOptions, storage: StorageOptions) -> StartFrom | None:
    if options.start_from is None:
        return None
    source = absolute_path(options.start_from)
    return StartFrom(source, options.claim_savepoint, partial(open_store, options=storage, make=False))
