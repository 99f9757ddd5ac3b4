"""``foreach`` as the registry sees it."""

from __future__ import annotations

from tidegate.connectors.foreach.sink import ForeachSink
from tidegate.connectors.noop.sink import NoopCommitter
from tidegate.plan.relational import Sink


def sink(_: Sink) -> ForeachSink:
    return ForeachSink()


def committer(_: Sink) -> NoopCommitter:
    return NoopCommitter()
