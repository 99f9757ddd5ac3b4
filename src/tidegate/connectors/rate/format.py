"""The format ``rate`` as the registry sees it."""

from __future__ import annotations

from tidegate.connectors.rate.source import RateSource, rate_enumerator
from tidegate.model.config import QueryConfig
from tidegate.plan.relational import Scan
from tidegate.ports.source import SplitEnumerator


def source(scan: Scan) -> RateSource:
    return RateSource(scan)


def enumerator(scan: Scan, config: QueryConfig) -> SplitEnumerator:
    return rate_enumerator(scan, config)
