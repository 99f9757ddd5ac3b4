"""The format ``memory`` as the registry sees it."""

from __future__ import annotations

from tidegate.connectors.memory.sink import MemoryCommitter, MemorySink
from tidegate.plan.relational import Sink


def sink(_: Sink) -> MemorySink:
    return MemorySink()


def committer(node: Sink) -> MemoryCommitter:
    return MemoryCommitter(node)
