"""The format ``noop`` as the registry sees it."""

from __future__ import annotations

from tidegate.connectors.noop.sink import NoopCommitter, NoopSink
from tidegate.plan.relational import Sink


def sink(_: Sink) -> NoopSink:
    return NoopSink()


def committer(_: Sink) -> NoopCommitter:
    return NoopCommitter()
