"""A Python data source of the user as the registry sees it, when it is written to."""

from __future__ import annotations

from tidegate.connectors.python_sink.sink import PythonSink, PythonSinkCommitter, check_sink
from tidegate.plan.relational import Sink


def sink(node: Sink) -> PythonSink:
    check_sink(node)
    return PythonSink()


def committer(node: Sink) -> PythonSinkCommitter:
    return PythonSinkCommitter(node)
