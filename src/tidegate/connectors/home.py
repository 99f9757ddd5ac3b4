"""Connectors of one pipeline, each with what the world gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.model.config import QueryConfig
from tidegate.model.errors import Bug
from tidegate.model.ids import Attempt, PipelineId, SlotIndex
from tidegate.plan.relational import Scan, Sink
from tidegate.ports.context import CommitterContext, EnumeratorContext, ReaderContext, WriterContext
from tidegate.ports.directory import OpenDirectory
from tidegate.ports.sink import SinkCommitter, SinkWriter
from tidegate.ports.source import SourceConnector, SplitEnumerator
from tidegate.ports.store import BlobStore


@dataclass(frozen=True, slots=True)
class Home:
    """Whose rows are written, and where its checkpoints are."""

    pipeline: PipelineId
    store: BlobStore


@dataclass(frozen=True, slots=True)
class RealConnectors:
    """Stateless: as many as one likes may exist, in any process. Without a home sources can be read and checked, and nothing written."""

    config: QueryConfig
    open_directory: OpenDirectory
    home: Home | None = None

    def source(self, scan: Scan) -> SourceConnector:
        return scan.spec.reader(
            ReaderContext(
                operator=scan.id, columns=scan.columns, schema=scan.schema, open_directory=self.open_directory
            )
        )

    def enumerator(self, scan: Scan) -> SplitEnumerator:
        return scan.spec.enumerator(
            EnumeratorContext(
                operator=scan.id,
                bounded=self.config.bounded,
                parallelism=self.config.parallelism,
                open_directory=self.open_directory,
                event_time=scan.event_time,
            )
        )

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter:
        home = self._at_home(sink)
        return sink.spec.writer(
            WriterContext(
                pipeline=home.pipeline,
                operator=sink.id,
                store=home.store,
                open_directory=self.open_directory,
                commit_within_ms=self.config.commit_within_ms,
                attempt=attempt,
                subtask=subtask,
            )
        )

    def committer(self, sink: Sink, callback: Callable[..., None] | None = None) -> SinkCommitter:
        home = self._at_home(sink)
        return sink.spec.committer(
            CommitterContext(
                pipeline=home.pipeline,
                operator=sink.id,
                store=home.store,
                open_directory=self.open_directory,
                commit_within_ms=self.config.commit_within_ms,
                callback=callback,
            )
        )

    def _at_home(self, sink: Sink) -> Home:
        if self.home is None:
            raise Bug(f"sink {sink.id} is to write before its pipeline has a checkpoint location")
        return self.home
