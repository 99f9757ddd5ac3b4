"""The format ``rate`` as the registry sees it."""

from __future__ import annotations

from tidegate.connectors.rate.source import RateSource, rate_enumerator
from tidegate.model.config import QueryConfig
from tidegate.operators.ports import SplitEnumerator
from tidegate.plan.relational import Scan


def source(scan: Scan) -> RateSource:
    return RateSource(scan)


def enumerator(scan: Scan, config: QueryConfig) -> SplitEnumerator:
    return rate_enumerator(scan, config)
