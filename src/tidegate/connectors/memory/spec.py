"""The memory sink: for tests and notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidegate.connectors.collected import CollectingWriter, whole_result
from tidegate.connectors.memory.committer import MemoryCommitter
from tidegate.ports.context import CommitterContext, WriterContext
from tidegate.ports.spec import NOWHERE, Place, SinkSpec, SparkJobs


@dataclass(frozen=True, kw_only=True)
class MemorySpec(SinkSpec):
    """Exactly once while the driver lives: a driver that starts again begins with an empty table."""

    IGNORED: ClassVar = frozenset({"path"})
    OUTLIVES_QUERY: ClassVar = False
    SPARK_JOBS: ClassVar = SparkJobs.PERHAPS

    @property
    def place(self) -> Place:
        return NOWHERE

    def writer(self, context: WriterContext) -> CollectingWriter:
        return CollectingWriter(whole=whole_result(self))

    def committer(self, context: CommitterContext) -> MemoryCommitter:
        return MemoryCommitter(self, context.callback)


SINK = MemorySpec
