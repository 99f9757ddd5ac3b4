"""A simulated query: its plan, the answer a run without failures gives, and how the two are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import polars as pl

from tidegate.model.ids import OperatorId
from tidegate.plan.graph import JobGraph, Partitioning
from tidegate.plan.relational import OutputMode, Plan, Sink
from tidegate.plan.stages import build_graph
from tidegate.testing.simulation.positions import ALL
from tidegate.testing.simulation.sources import Script

MAX_PARALLELISM = 16
Read: TypeAlias = dict[str, dict[int, int]]
"""Source → split → rows read."""


@dataclass(frozen=True, slots=True)
class SimulatedQuery:
    """``keys``: in update mode the last row per key counts; empty: all rows count, as a multiset."""

    name: str
    plan: Sink
    answer: pl.DataFrame
    keys: tuple[str, ...] = ()
    counts: bool = False
    """Column ``n`` says how many rows went into a row of the answer."""
    groups: tuple[str, ...] = ()
    """What rows of the answer are counted by when some may be lost or doubled; empty: by all their columns."""
    several: bool = False
    """A group may have several rows, and others than in the answer when rows came late: only their sum counts."""
    windowed: bool = False
    rebalanced: bool = False
    """Rows change slots at a union although nothing asks for it."""
    scripts: tuple[Script, ...] = ()
    recipe: Callable[[Read | None], SimulatedQuery] | None = None

    def answer_of(self, read: Read) -> pl.DataFrame:
        """The answer when no more than this was read."""
        return self.recipe(read).answer if self.recipe is not None else self.answer

    def all_read(self, read: Read) -> bool:
        return all(
            read.get(f"source-{number}", {}).get(split) in (ALL, script.rows_per_split)
            for number, script in enumerate(self.scripts)
            for split in range(script.splits)
        )

    def graph(self, parallelism: int) -> JobGraph:
        graph = build_graph(self.plan, parallelism=parallelism, max_parallelism=MAX_PARALLELISM)
        if not self.rebalanced:
            return graph
        dealt = tuple(
            replace(edge, partitioning=Partitioning.REBALANCE) if edge.partitioning is Partitioning.FORWARD else edge
            for edge in graph.edges
        )
        return replace(graph, edges=dealt)


def sink(rows: Plan, mode: OutputMode = OutputMode.APPEND) -> Sink:
    return Sink(
        id=OperatorId("sink-0"),
        format="simulated",
        options={},
        columns=tuple((field.name, field.name) for field in rows.schema),
        schema=rows.schema,
        mode=mode,
        inputs=(rows,),
    )
