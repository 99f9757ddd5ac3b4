"""The format ``delta`` as the registry sees it."""

from __future__ import annotations

from tidegate.connectors.delta.committer import DeltaCommitter
from tidegate.connectors.delta.config import parse_sink
from tidegate.connectors.delta.sink import DeltaSink
from tidegate.connectors.legacy import Sink


def sink(node: Sink) -> DeltaSink:
    parse_sink(node)
    return DeltaSink()


def committer(node: Sink) -> DeltaCommitter:
    return DeltaCommitter(node)
