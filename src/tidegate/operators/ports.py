"""How operators find what they need from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import polars as pl

from tidegate.model.ids import Attempt, SlotIndex
from tidegate.model.snapshot import ChunkHandle
from tidegate.plan.relational import Scan, Sink
from tidegate.ports.sink import SinkWriter
from tidegate.ports.source import SourceConnector

LoadTable: TypeAlias = Callable[[ChunkHandle], pl.DataFrame]
"""Reads a part of a static table that lies beside the checkpoints."""


class Connectors(Protocol):
    """How the core finds its connectors."""

    def source(self, scan: Scan) -> SourceConnector: ...

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SinkWriter: ...
