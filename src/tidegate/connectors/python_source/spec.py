"""A streaming data source of the user, to read from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from tidegate.connectors.python_source.enumerator import RangeEnumerator
from tidegate.connectors.python_source.options import asked_of, place_of, shown_options
from tidegate.connectors.python_source.payload import unpack
from tidegate.connectors.python_source.readers import stream_reader
from tidegate.connectors.python_source.source import PythonSource
from tidegate.ports.context import EnumeratorContext, ReaderContext
from tidegate.ports.spec import ConnectorRequest, Place, SourceSpec


@dataclass(frozen=True, kw_only=True)
class PythonSourceSpec(SourceSpec):
    """Its options are the data source's own. Exactly once as long as the source gives the same rows for the same offsets."""

    payload: bytes = field(repr=False)
    where: Place
    asked: str = field(repr=False)
    """What the options say about the beginning."""

    @classmethod
    def parse(cls, asked: ConnectorRequest) -> Self:
        return cls(
            format=asked.format,
            schema=asked.schema,
            shown=shown_options(asked.options),
            payload=asked.payload,
            where=place_of(asked.options),
            asked=asked_of(asked.options),
        )

    @property
    def place(self) -> Place:
        return self.where

    @property
    def runs_user_code(self) -> bool:
        return True

    def enumerator(self, context: EnumeratorContext) -> RangeEnumerator:
        reader = stream_reader(*unpack(self.payload, self.schema))
        return RangeEnumerator(reader, self.format, bounded=context.bounded, asked=self.asked)

    def reader(self, context: ReaderContext) -> PythonSource:
        return PythonSource(stream_reader(*unpack(self.payload, self.schema)), self.format, self.schema, context)


SOURCE = PythonSourceSpec
