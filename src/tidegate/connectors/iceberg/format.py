"""The format ``iceberg`` as the registry sees it."""

from __future__ import annotations

from tidegate.connectors.iceberg.committer import IcebergCommitter
from tidegate.connectors.iceberg.config import parse_sink
from tidegate.connectors.iceberg.sink import IcebergSink
from tidegate.connectors.legacy import Sink


def sink(node: Sink) -> IcebergSink:
    parse_sink(node)
    return IcebergSink()


def committer(node: Sink) -> IcebergCommitter:
    return IcebergCommitter(node)
