"""A streaming data source of the user, to write with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from tidegate.connectors.batches import Batches
from tidegate.connectors.python_sink.sink import PythonSinkCommitter, PythonSinkWriter
from tidegate.connectors.python_sink.writers import UserSink
from tidegate.connectors.python_source.options import place_of, shown_options
from tidegate.model.errors import InvalidQuery
from tidegate.ports.context import CommitterContext, WriterContext
from tidegate.ports.spec import ConnectorRequest, Place, SinkSpec


@dataclass(frozen=True, kw_only=True)
class PythonSinkSpec(SinkSpec):
    """Its options are the data source's own."""

    payload: bytes = field(repr=False)
    where: Place

    @classmethod
    def parse(cls, asked: ConnectorRequest) -> Self:
        if asked.partition_by:
            raise InvalidQuery(
                f"partitionBy has no meaning for the data source {asked.format}",
                hint="leave it out: Spark ignores it, too",
            )
        return cls(
            format=asked.format,
            schema=asked.schema,
            shown=shown_options(asked.options),
            mode=asked.mode,
            payload=asked.payload,
            where=place_of(asked.options),
        )

    @property
    def place(self) -> Place:
        return self.where

    @property
    def guarantee(self) -> str:
        """Exactly once if ``commit`` twice with the same batch id is the same as once."""
        return "idempotent"

    @property
    def runs_user_code(self) -> bool:
        return True

    def writer(self, context: WriterContext) -> PythonSinkWriter:
        batches = Batches(context.store, context.operator)
        return PythonSinkWriter(UserSink.of(self.payload, self), batches, context.attempt, context.subtask)

    def committer(self, context: CommitterContext) -> PythonSinkCommitter:
        user = UserSink.of(self.payload, self)
        user.writer()
        return PythonSinkCommitter(user, context)


SINK = PythonSinkSpec
