"""The formats ``parquet json csv text`` as the registry sees them."""

from __future__ import annotations

from tidegate.connectors.files.committer import FileSinkCommitter
from tidegate.connectors.files.config import parse_source
from tidegate.connectors.files.discovery import FileEnumerator
from tidegate.connectors.files.sink import FileSink
from tidegate.connectors.files.sink_config import parse_sink
from tidegate.connectors.files.source import FileSource
from tidegate.connectors.legacy import Scan, Sink
from tidegate.model.config import QueryConfig


def source(scan: Scan) -> FileSource:
    return FileSource(scan)


def enumerator(scan: Scan, config: QueryConfig) -> FileEnumerator:
    return FileEnumerator(parse_source(scan, warn=True), bounded=config.bounded, slots=config.parallelism)


def sink(node: Sink) -> FileSink:
    parse_sink(node)
    return FileSink()


def committer(node: Sink) -> FileSinkCommitter:
    return FileSinkCommitter(node)
