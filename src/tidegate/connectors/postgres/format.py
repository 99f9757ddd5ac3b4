"""The format ``postgres`` as the registry sees it."""

from __future__ import annotations

from tidegate.connectors.legacy import Sink
from tidegate.connectors.postgres.committer import PostgresCommitter
from tidegate.connectors.postgres.config import parse_sink
from tidegate.connectors.postgres.writer import PostgresSink


def sink(node: Sink) -> PostgresSink:
    parse_sink(node)
    return PostgresSink()


def committer(node: Sink) -> PostgresCommitter:
    return PostgresCommitter(node)
