"""The sink that keeps nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidegate.connectors.noop.sink import NoopCommitter, NoopWriter
from tidegate.ports.context import CommitterContext, WriterContext
from tidegate.ports.spec import NOWHERE, Place, SinkSpec


@dataclass(frozen=True, kw_only=True)
class NoopSpec(SinkSpec):
    IGNORED: ClassVar = frozenset({"path"})
    OUTLIVES_QUERY: ClassVar = False

    @property
    def place(self) -> Place:
        return NOWHERE

    @property
    def guarantee(self) -> str:
        return "at_least_once"

    def writer(self, context: WriterContext) -> NoopWriter:
        return NoopWriter()

    def committer(self, context: CommitterContext) -> NoopCommitter:
        return NoopCommitter()


SINK = NoopSpec
