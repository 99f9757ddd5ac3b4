"""Spark's ``rate`` source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidegate.connectors.fixed_splits import FixedEnumerator
from tidegate.connectors.rate.config import RateConfig
from tidegate.connectors.rate.source import RateSource, rate_enumerator
from tidegate.ports.context import EnumeratorContext, ReaderContext
from tidegate.ports.options import group
from tidegate.ports.spec import NOWHERE, Place, SourceSpec


@dataclass(frozen=True, kw_only=True)
class RateSpec(SourceSpec):
    rate: RateConfig = group(RateConfig)

    IGNORED: ClassVar = frozenset({"path"})

    @property
    def place(self) -> Place:
        return NOWHERE

    def enumerator(self, context: EnumeratorContext) -> FixedEnumerator:
        return rate_enumerator(self.rate, context)

    def reader(self, context: ReaderContext) -> RateSource:
        return RateSource(self.rate, context)


SOURCE = RateSpec
