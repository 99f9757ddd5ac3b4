"""The format ``tidegate-nexmark`` as the registry sees it: read directly, not through PySpark's interface."""

from __future__ import annotations

from tidegate.connectors.nexmark.source import NexmarkSource, nexmark_enumerator
from tidegate.model.config import QueryConfig
from tidegate.plan.relational import Scan
from tidegate.ports.source import SplitEnumerator


def source(scan: Scan) -> NexmarkSource:
    return NexmarkSource(scan)


def enumerator(scan: Scan, config: QueryConfig) -> SplitEnumerator:
    return nexmark_enumerator(scan, config)
