"""The Nexmark queries, over a few thousand generated events."""

from __future__ import annotations

from pyspark.sql import DataFrame
from tests.differential.corpus import query
from tests.differential.harness import Sources

from tidegate.nexmark import QUERIES, NexmarkQuery
from tidegate.nexmark.tables import Events, as_batch, as_stream

EVENTS = Events(4_000, seed=7, event_rate=200)
"""Twenty seconds of event time: windows close on the way; few enough rows for a second per query."""


def register(asked: NexmarkQuery) -> None:
    def build(s: Sources) -> DataFrame:
        return (as_stream if s.streaming else as_batch)(s.spark, asked, EVENTS)

    build.__name__ = f"nexmark_{asked.name}"
    query(mode=asked.mode, keys=asked.keys, partition_by=asked.partition_by)(build)  # type: ignore[arg-type]


for _asked in QUERIES:
    register(_asked)
