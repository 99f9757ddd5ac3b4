"""``foreach``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from tidegate.connectors.foreach.sink import ForeachWriter
from tidegate.connectors.noop.sink import NoopCommitter
from tidegate.ports.context import CommitterContext, WriterContext
from tidegate.ports.spec import NOWHERE, ConnectorRequest, Place, SinkSpec


@dataclass(frozen=True, kw_only=True)
class ForeachSpec(SinkSpec):
    """At least once: rows since the last completed checkpoint come again after a restart."""

    handler: bytes = field(repr=False)
    """Pickled: a function of one row, or an object with ``process``."""

    IGNORED: ClassVar = frozenset({"path"})
    OUTLIVES_QUERY: ClassVar = False

    @classmethod
    def parse(cls, asked: ConnectorRequest) -> Self:
        return cls(handler=asked.payload, **cls.said(asked))

    @property
    def place(self) -> Place:
        return NOWHERE

    @property
    def guarantee(self) -> str:
        return "at_least_once"

    @property
    def runs_user_code(self) -> bool:
        return True

    def writer(self, context: WriterContext) -> ForeachWriter:
        return ForeachWriter(self.handler, self.schema, context.operator, context.subtask)

    def committer(self, context: CommitterContext) -> NoopCommitter:
        """Rows are out as soon as they are written."""
        return NoopCommitter()


SINK = ForeachSpec
