"""What can be said about event time before anything runs."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId
from tidegate.plan.graph import JobGraph
from tidegate.plan.meaning import plain
from tidegate.plan.streams import far_assigners


def refuse_far_assigners(graph: JobGraph, ordered: Collection[OperatorId], config: QueryConfig) -> None:
    """``ordered``: sources whose splits are logs. The time of such a source is that of its slowest partition, and behind an exchange
    nobody knows partitions. Of a bounded run all input is read before time moves."""
    if config.bounded:
        return
    for assigner in far_assigners(graph):
        for source in assigner.sources:
            if source in ordered:
                raise InvalidQuery(
                    f"withWatermark({plain(assigner.node.column)!r}, …) stands behind an exchange (dropDuplicates, groupBy, join, "
                    f"limit, explode or a function over a union): rows of {source} do not know there which partition they come "
                    "from, and one that is far behind would lose its rows",
                    hint="call withWatermark() before that, on the rows as they are read, on each side of a union or join",
                )
