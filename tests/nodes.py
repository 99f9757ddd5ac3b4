"""Sources and sinks as they stand in a plan, and both sides of each, from options as a user writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tidegate.connectors import legacy
from tidegate.connectors.home import Home, RealConnectors
from tidegate.connectors.registry import parse_sink, parse_source
from tidegate.model.config import QueryConfig
from tidegate.model.ids import Attempt, OperatorId, PipelineId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field, Schema
from tidegate.plan.relational import Scan, Sink
from tidegate.ports.context import CommitterContext, EnumeratorContext, ReaderContext, WriterContext
from tidegate.ports.directory import OpenDirectory
from tidegate.ports.sink import SinkCommitter, SinkWriter
from tidegate.ports.source import SourceConnector, SplitEnumerator
from tidegate.ports.spec import ConnectorRequest, SinkSpec
from tidegate.ports.store import BlobStore
from tidegate.storage.local import LocalBlobStore
from tidegate.storage.options import NO_OPTIONS, StorageOptions
from tidegate.storage.output_directory import open_directory

PIPELINE = "p1"


def scan_node(
    form: str,
    options: Mapping[str, Any],
    schema: Schema,
    columns: tuple[str, ...] | None = None,
    *,
    payload: bytes = b"",
    zone: str = "UTC",
    operator: str = "source-0",
    event_time: str | None = None,
) -> Scan:
    """Reads ``columns`` (all by default) under plan names ``<name>#<position>``."""
    wanted = tuple(field.name for field in schema) if columns is None else columns
    kinds = {field.name: field.type for field in schema}
    given = {name: str(value) for name, value in options.items()}
    return Scan(
        id=OperatorId(operator),
        spec=parse_source(ConnectorRequest(format=form, options=given, schema=schema, payload=payload, zone=zone)),
        schema=tuple(Field(f"{name}#{n}", kinds[name]) for n, name in enumerate(wanted)),
        columns=wanted,
        event_time=event_time,
    )


def sink_node(
    form: str,
    options: Mapping[str, Any],
    schema: Schema,
    *,
    mode: OutputMode = OutputMode.APPEND,
    partition_by: tuple[str, ...] = (),
    payload: bytes = b"",
    zone: str = "UTC",
    operator: str = "sink-0",
    columns: tuple[tuple[str, str], ...] | None = None,
    **more: Any,
) -> Sink:
    """Writes all columns, which the plan calls as the result does."""
    asked = ConnectorRequest(
        format=form,
        options={name: str(value) for name, value in options.items()},
        schema=schema,
        mode=mode,
        partition_by=partition_by,
        zone=zone,
        payload=payload,
    )
    shown = tuple((field.name, field.name) for field in schema) if columns is None else columns
    return Sink(id=OperatorId(operator), spec=parse_sink(asked), columns=shown, **more)


def connectors_of(
    store: BlobStore | Path | None = None,
    config: QueryConfig | None = None,
    *,
    storage: StorageOptions = NO_OPTIONS,
    pipeline: str = PIPELINE,
) -> RealConnectors:
    """``store``: the checkpoint location; None: one that is nowhere, for sinks that keep nothing there."""
    home = LocalBlobStore(store) if isinstance(store, Path) else store
    return RealConnectors(
        config or QueryConfig(),
        partial(open_directory, options=storage),
        Home(PipelineId(pipeline), home if home is not None else LocalBlobStore("/nonexistent/location", make=False)),
    )


class ByNode:
    """Both sides of sources and sinks that are described by their options as text. It goes with ``connectors.legacy``."""

    def __init__(self, store: BlobStore | None = None, reach: OpenDirectory | None = None) -> None:
        self._store = store if store is not None else LocalBlobStore("/nonexistent/location", make=False)
        self._reach = reach or partial(open_directory, options=NO_OPTIONS)

    def source(self, scan: legacy.Scan) -> SourceConnector:
        context = ReaderContext(operator=scan.id, columns=scan.columns, schema=scan.schema, open_directory=self._reach)
        return planned_scan(scan).spec.reader(context)

    def enumerator(self, scan: legacy.Scan, config: QueryConfig) -> SplitEnumerator:
        context = EnumeratorContext(
            operator=scan.id,
            bounded=config.bounded,
            parallelism=config.parallelism,
            open_directory=self._reach,
            event_time=scan.event_time,
        )
        return planned_scan(scan).spec.enumerator(context)

    def sink(self, sink: legacy.Sink) -> Writers:
        return Writers(planned_sink(sink).spec, self)

    def committer(self, sink: legacy.Sink, callback: Callable[..., None] | None = None) -> SinkCommitter:
        return planned_sink(sink).spec.committer(CommitterContext(**self._context(sink), callback=callback))

    def _context(self, sink: legacy.Sink) -> dict[str, Any]:
        return {
            "pipeline": PipelineId(sink.options.get(legacy.PIPELINE, PIPELINE)),
            "operator": sink.id,
            "store": self._store,
            "open_directory": self._reach,
            "commit_within_ms": int(sink.options.get(legacy.COMMIT_WITHIN, "0")),
        }


class Writers:
    def __init__(self, spec: SinkSpec, by: ByNode) -> None:
        self.spec = spec
        self.guarantee = spec.guarantee
        self._by = by

    def writer(self, sink: legacy.Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter:
        return self.spec.writer(WriterContext(**self._by._context(sink), attempt=attempt, subtask=subtask))


def planned_scan(scan: legacy.Scan) -> Scan:
    asked = ConnectorRequest(format=scan.format, options=scan.options, schema=scan.source_schema, payload=scan.payload)
    return Scan(
        id=scan.id, spec=parse_source(asked), schema=scan.schema, columns=scan.columns, event_time=scan.event_time
    )


def planned_sink(sink: legacy.Sink) -> Sink:
    own = (legacy.PIPELINE, legacy.COMMIT_WITHIN)
    asked = ConnectorRequest(
        format=sink.format,
        options={name: value for name, value in sink.options.items() if name not in own},
        schema=sink.schema,
        mode=sink.mode,
        partition_by=sink.partition_by,
        payload=sink.payload,
    )
    return Sink(id=sink.id, spec=parse_sink(asked), columns=sink.columns)


def look_context(config: QueryConfig | None = None, operator: str = "source-0") -> EnumeratorContext:
    config = config or QueryConfig()
    return EnumeratorContext(
        operator=OperatorId(operator),
        bounded=config.bounded,
        parallelism=config.parallelism,
        open_directory=partial(open_directory, options=NO_OPTIONS),
    )


def read_context(scan: legacy.Scan) -> ReaderContext:
    return ReaderContext(
        operator=scan.id,
        columns=scan.columns,
        schema=scan.schema,
        open_directory=partial(open_directory, options=NO_OPTIONS),
    )
