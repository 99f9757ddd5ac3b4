"""From a request to a running query: everything is checked here, in an order in which the first complaint is the most useful one."""

from __future__ import annotations

import hashlib
import logging
import tempfile
import uuid
from dataclasses import dataclass, replace
from functools import partial

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tidegate.api.active import ACTIVE
from tidegate.api.explain import explain_query
from tidegate.api.location import StartFrom, check_store, newest_claim, open_pipeline
from tidegate.api.query import StreamingQuery
from tidegate.api.reports import QueryIdentity, describe_sink, promised
from tidegate.api.screen import show_progress
from tidegate.api.settings import QueryOptions, sort_options, to_config
from tidegate.api.triggers import Trigger
from tidegate.api.views import keep_view
from tidegate.catalyst.translate import SinkRequest, Translation, translate
from tidegate.checkpoint.manifest import PipelineDocument
from tidegate.checkpoint.plan import plan_of
from tidegate.checkpoint.ports import BlobStore
from tidegate.connectors.memory.sink import MemoryCommitter
from tidegate.connectors.options import PIPELINE
from tidegate.connectors.registry import SINKS, RealConnectors, unknown_sink
from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import PipelineId
from tidegate.plan.graph import JobGraph
from tidegate.plan.identity import pin
from tidegate.plan.relational import OutputMode, Plan, Scan, Sink
from tidegate.plan.stages import build_graph
from tidegate.spark.checks import check_session, choose_parallelism, refuse_connect, task_slots
from tidegate.spark.driver import JobMaster
from tidegate.storage.open import absolute_path, open_store

log = logging.getLogger("tidegate")

TEMPORARY_LOCATION_FORMATS = ("memory", "console", "noop", "foreach")
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


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query that was found good and does not run yet. One that is never started leaves an empty pipeline behind."""

    request: QueryRequest
    options: QueryOptions
    config: QueryConfig
    translation: Translation
    graph: JobGraph
    connectors: RealConnectors
    guarantees: tuple[str, ...]
    """Of the sinks, in the graph's order."""
    store: BlobStore
    location: str
    temporary: bool
    pipeline: PipelineId

    def start(self) -> StreamingQuery:
        request, graph, config, connectors = self.request, self.graph, self.config, self.connectors
        committers = {sink.id: connectors.committer(sink) for sink in graph.sinks()}
        identity = QueryIdentity(self.pipeline, str(uuid.uuid4()), request.name)
        description = ", ".join(map(describe_sink, graph.sinks(), self.guarantees))
        master = JobMaster(
            request.df.sparkSession,
            graph,
            config,
            plan_of(graph, self.pipeline, config),
            self.store,
            self.location,
            name=request.name or self.pipeline[:8],
            description=explain_query(self.translation.plan, graph, config, description, extended=True),
            enumerators=lambda: {scan.id: connectors.enumerator(scan, config) for scan in graph.scans()},
            committers=committers,
            accept_duplicates=self.options.accept_duplicates,
        )
        for sink in graph.sinks():
            committer = committers[sink.id]
            if isinstance(committer, MemoryCommitter) and request.name is not None:
                keep_view(request.df.sparkSession, request.name, sink, committer)
        query = StreamingQuery(
            master,
            identity,
            graph,
            self.translation.plan,
            config,
            self.location,
            description,
            temporary=self.temporary,
        )
        ACTIVE.add(query)
        master.start(newest_claim(self.store))
        show_progress(query, self.options.progress)
        return query


def launch(request: QueryRequest) -> StreamingQuery:
    """Raises InvalidQuery for whatever is wrong; nothing runs and no output is touched before all of it is checked."""
    return prepare(request).start()


def prepare(request: QueryRequest) -> PreparedQuery:
    """Checks all of the request: what it returns can be started."""
    refuse_connect(request.df)
    session = request.df.sparkSession
    check_session(session)
    options = sort_options(request.options)
    mode = parse_mode(request.mode)
    if request.format == "memory" and not request.name:
        raise InvalidQuery(
            "the memory sink needs a name", hint='call .queryName("results"): it becomes the view to query'
        )
    refuse_early(request, options, session)
    config = to_config({**options.config, **request.trigger.config_fields()})
    config = replace_parallelism(
        config, choose_parallelism(session, config.parallelism, spare=request.format == "memory")
    )
    if config.parallelism >= task_slots(session):
        log.warning(
            "the query takes all %s task slots: other Spark jobs wait until it ends (option parallelism leaves some free)",
            config.parallelism,
        )
    translation = translate(
        request.df, mode=mode, sink=SinkRequest(request.format, options.sink, request.partition_by, request.payload)
    )
    translation = replace(translation, plan=pin(translation.plan, options.uids))
    for warning in translation.warnings:
        log.warning("%s", warning)
    graph = build_graph(
        translation.plan,
        parallelism=config.parallelism,
        max_parallelism=config.max_parallelism,
        dead_letter=config.dead_letter,
    )
    connectors = RealConnectors()
    for scan in graph.scans():
        connectors.source(scan)
        connectors.enumerator(scan, config)
    guarantees = tuple(promised(connectors.sink(sink).guarantee, config.checkpoint_mode) for sink in graph.sinks())
    location, temporary = choose_location(request, options, session)
    ACTIVE.refuse_duplicates(request.name, location)
    store = open_store(location)
    check_store(store, location)
    new = PipelineDocument(
        pipeline=PipelineId(str(uuid.uuid4())),
        max_parallelism=config.max_parallelism,
        fingerprint=hashlib.sha256(translation.text.encode()).hexdigest()[:16],
    )
    pipeline = open_pipeline(store, location, new, lambda name: plan_of(graph, name, config), parse_start_from(options))
    ACTIVE.refuse_twins(pipeline.pipeline, location)
    return PreparedQuery(
        request,
        options,
        config,
        translation,
        with_pipeline(graph, pipeline.pipeline),
        connectors,
        guarantees,
        store,
        location,
        temporary,
        pipeline.pipeline,
    )


def parse_mode(text: str) -> OutputMode:
    match str(text).lower():
        case "append":
            return OutputMode.APPEND
        case "update":
            return OutputMode.UPDATE
        case "complete":
            raise InvalidQuery(
                "outputMode('complete') is not supported: it writes the whole result again at every step",
                hint="use 'update' for changed rows, or 'append' with a watermark for final ones",
            )
        case other:
            raise InvalidQuery(f"there is no output mode {other!r}", hint="the modes are append and update")


def replace_parallelism(config: QueryConfig, parallelism: int) -> QueryConfig:
    if parallelism > config.max_parallelism:
        raise InvalidQuery(
            f"the cluster offers {parallelism} slots, more than maxParallelism {config.max_parallelism}",
            hint=f'set .option("parallelism", {config.max_parallelism}) or raise maxParallelism (for a new location)',
        )
    return msgspec.structs.replace(config, parallelism=parallelism)


def refuse_early(request: QueryRequest, options: QueryOptions, session: SparkSession) -> None:
    """What can be seen without the query itself: reading it computes its static sides, and those are Spark jobs."""
    if request.format not in SINKS:
        raise unknown_sink(request.format)
    named = options.checkpoint_location or session.conf.get("spark.sql.streaming.checkpointLocation", None)
    if not named and request.format not in TEMPORARY_LOCATION_FORMATS:
        raise InvalidQuery(
            f"a query that writes {request.format} needs a checkpoint location",
            hint='set .option("checkpointLocation", "/a/durable/place"): what the query has read and written is kept there',
        )


def choose_location(request: QueryRequest, options: QueryOptions, session: SparkSession) -> tuple[str, bool]:
    """As Spark does: the option, else a place under ``spark.sql.streaming.checkpointLocation``, else a temporary one.

    The second value says whether it is temporary.
    """
    if options.checkpoint_location is not None:
        return options.checkpoint_location, False
    root = session.conf.get("spark.sql.streaming.checkpointLocation", None)
    if root:
        return f"{root.rstrip('/')}/{request.name or uuid.uuid4()}", False
    return tempfile.mkdtemp(prefix="tidegate-checkpoints-"), True


def parse_start_from(options: QueryOptions) -> StartFrom | None:
    if options.start_from is None:
        return None
    return StartFrom(absolute_path(options.start_from), options.claim_savepoint, partial(open_store, make=False))


def with_pipeline(graph: JobGraph, pipeline: PipelineId) -> JobGraph:
    """Connectors learn whose rows they write: staged output of another pipeline is never touched."""

    def tagged(node: Plan) -> Plan:
        return replace(node, options={**node.options, PIPELINE: pipeline}) if isinstance(node, Sink | Scan) else node

    stages = tuple(replace(stage, nodes=tuple(tagged(node) for node in stage.nodes)) for stage in graph.stages)
    return replace(graph, stages=stages)
