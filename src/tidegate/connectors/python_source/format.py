"""A Python data source of the user as the registry sees it."""

from __future__ import annotations

from tidegate.connectors.python_source.enumerator import python_enumerator
from tidegate.connectors.python_source.source import PythonSource
from tidegate.model.config import QueryConfig
from tidegate.plan.relational import Scan
from tidegate.ports.source import SplitEnumerator


def source(scan: Scan) -> PythonSource:
    return PythonSource(scan)


def enumerator(scan: Scan, config: QueryConfig) -> SplitEnumerator:
    return python_enumerator(scan, config)
