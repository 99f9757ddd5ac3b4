"""From a request to a running query: everything is checked here, in an order in which the first complaint is the most useful one."""

from __future__ import annotations

import hashlib
import logging
import secrets
import tempfile
import uuid
from dataclasses import dataclass, replace

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tidegate.api.active import ACTIVE
from tidegate.api.options import QueryOptions, sort_options, to_config
from tidegate.api.query import StreamingQuery
from tidegate.api.reports import QueryIdentity, describe_sink
from tidegate.api.screen import show_progress
from tidegate.api.triggers import Trigger
from tidegate.api.views import keep_view
from tidegate.catalyst.translate import SinkRequest, Translation, translate
from tidegate.checkpoint import layout
from tidegate.checkpoint.manifest import PipelineDocument, agree, decode_pipeline, encode_pipeline
from tidegate.checkpoint.plan import plan_of
from tidegate.checkpoint.ports import BlobStore, judge, probe
from tidegate.connectors.memory.sink import MemoryCommitter
from tidegate.connectors.options import PIPELINE
from tidegate.connectors.registry import SINKS, RealConnectors, unknown_sink
from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt, PipelineId
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import OutputMode, Plan, Scan, Sink
from tidegate.plan.stages import build_graph
from tidegate.spark.checks import check_session, choose_parallelism, refuse_connect, task_slots
from tidegate.spark.driver import JobMaster
from tidegate.storage.open import open_store

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


def launch(request: QueryRequest) -> StreamingQuery:
    """Raises InvalidQuery for whatever is wrong; nothing runs and no output is touched before all of it is checked."""
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
    for warning in translation.warnings:
        log.warning("%s", warning)
    graph = build_graph(translation.plan, parallelism=config.parallelism, max_parallelism=config.max_parallelism)
    connectors = RealConnectors()
    for scan in graph.scans():
        connectors.source(scan)
        connectors.enumerator(scan, config)
    guarantees = [connectors.sink(sink).guarantee for sink in graph.sinks()]
    location, temporary = choose_location(request, options, session)
    ACTIVE.refuse_duplicates(request.name, location)
    store = open_store(location)
    check_store(store, location)
    pipeline = open_pipeline(store, location, translation, config)
    graph = with_pipeline(graph, pipeline.pipeline)

    committers = {sink.id: connectors.committer(sink) for sink in graph.sinks()}
    identity = QueryIdentity(pipeline.pipeline, str(uuid.uuid4()), request.name)
    master = JobMaster(
        session,
        graph,
        config,
        plan_of(graph, pipeline.pipeline, config),
        store,
        location,
        name=request.name or pipeline.pipeline[:8],
        enumerators=lambda: {scan.id: connectors.enumerator(scan, config) for scan in graph.scans()},
        committers=committers,
        accept_duplicates=options.accept_duplicates,
    )
    for sink in graph.sinks():
        committer = committers[sink.id]
        if isinstance(committer, MemoryCommitter) and request.name is not None:
            keep_view(session, request.name, sink, committer)
    description = ", ".join(map(describe_sink, graph.sinks(), guarantees))
    query = StreamingQuery(
        master, identity, graph, translation.plan, config, location, description, temporary=temporary
    )
    ACTIVE.add(query)
    master.start(newest_claim(store))
    show_progress(query, options.progress)
    return query


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


def check_store(store: BlobStore, location: str) -> None:
    """Raises InvalidQuery for a store that would let two drivers own one pipeline."""
    question = probe(secrets.token_hex(16))
    first = store.create(question.key, question.first)
    second = store.create(question.key, question.second)
    store.delete(question.key)
    judge(location, first, second)


def open_pipeline(store: BlobStore, location: str, translation: Translation, config: QueryConfig) -> PipelineDocument:
    """The identity of the pipeline at this location, made at its first start."""
    wanted = PipelineDocument(
        pipeline=PipelineId(str(uuid.uuid4())),
        max_parallelism=config.max_parallelism,
        fingerprint=hashlib.sha256(translation.text.encode()).hexdigest()[:16],
    )
    stored = store.read(layout.PIPELINE_KEY)
    if stored is None:
        store.create(layout.PIPELINE_KEY, encode_pipeline(wanted))
        # Whoever made it, what stands there now is the truth.
        stored = store.read(layout.PIPELINE_KEY)
    return agree(decode_pipeline(stored), wanted, location) if stored is not None else wanted


def with_pipeline(graph: JobGraph, pipeline: PipelineId) -> JobGraph:
    """Connectors learn whose rows they write: staged output of another pipeline is never touched."""

    def tagged(node: Plan) -> Plan:
        return replace(node, options={**node.options, PIPELINE: pipeline}) if isinstance(node, Sink | Scan) else node

    stages = tuple(replace(stage, nodes=tuple(tagged(node) for node in stage.nodes)) for stage in graph.stages)
    return replace(graph, stages=stages)


def newest_claim(store: BlobStore) -> Attempt:
    """The highest attempt number in the location; 0: none."""
    keys = (layout.parse(key) for key in store.list(layout.ATTEMPTS_PREFIX))
    return max((key.attempt for key in keys if isinstance(key, layout.ClaimKey)), default=Attempt(0))
