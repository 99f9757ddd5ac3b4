"""The format ``console`` as the registry sees it."""

from __future__ import annotations

from tidegate.connectors.console.sink import ConsoleCommitter, ConsoleSink, parse_console
from tidegate.plan.relational import Sink


def sink(node: Sink) -> ConsoleSink:
    parse_console(node)
    return ConsoleSink()


def committer(node: Sink) -> ConsoleCommitter:
    return ConsoleCommitter(node)
