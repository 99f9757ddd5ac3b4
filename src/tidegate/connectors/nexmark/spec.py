"""The Nexmark generator as a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidegate.connectors.fixed_splits import FixedEnumerator
from tidegate.connectors.nexmark.config import IGNORED, WHAT, NexmarkConfig
from tidegate.connectors.nexmark.source import NexmarkSource, nexmark_enumerator
from tidegate.ports.context import EnumeratorContext, ReaderContext
from tidegate.ports.options import Options, group
from tidegate.ports.spec import ConnectorRequest, Place, SourceSpec


@dataclass(frozen=True, kw_only=True)
class NexmarkSpec(SourceSpec):
    nexmark: NexmarkConfig = group(NexmarkConfig)
    where: Place

    @classmethod
    def parse(cls, asked: ConnectorRequest) -> Self:
        options = Options(asked.options, WHAT)
        values = options.read_all(cls, {}, IGNORED)
        # As locations know it: a table that was named "type" is no place.
        where = Place(options.text("table") or "")
        return cls(format=asked.format, schema=asked.schema, shown=options.shown(cls), where=where, **values)

    @property
    def place(self) -> Place:
        return self.where

    def enumerator(self, context: EnumeratorContext) -> FixedEnumerator:
        return nexmark_enumerator(self.nexmark, context)

    def reader(self, context: ReaderContext) -> NexmarkSource:
        return NexmarkSource(self.nexmark, context)


SOURCE = NexmarkSpec
