"""A simulated query: its plan, the answer a run without failures gives, and how the two are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import polars as pl

from tidegate.model.ids import OperatorId
from tidegate.model.output_mode import OutputMode
from tidegate.plan.graph import JobGraph, Partitioning
from tidegate.plan.relational import Plan, Sink
from tidegate.plan.stages import build_graph
from tidegate.testing.simulation.positions import ALL
from tidegate.testing.simulation.sources import Script
from tidegate.testing.simulation.traits import UNCHANGED, Change
from tidegate.testing.stand_ins import scripted_letters, scripted_sink

MAX_PARALLELISM = 16
LETTERS_PLACE = "letters"
MANY_KEYS = 1_000
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
    whole: bool = False
    """Output mode complete: the newest checkpoint's rows are the result."""
    nullable: bool = False
    """What rows are counted by may be missing: with a partner that was late it is, in more rows than the answer has."""
    others: tuple[SimulatedQuery, ...] = ()
    """Further results of the same input, in sinks of their own."""
    refused: pl.DataFrame | None = None
    """Rows that become dead letters; None: such a row would end the attempt."""
    recipe: Callable[[Read | None, Change], SimulatedQuery] | None = None

    @property
    def results(self) -> tuple[SimulatedQuery, ...]:
        """One per sink."""
        return (self, *self.others)

    @property
    def kinds(self) -> Iterator[str]:
        """What about it is worth counting."""
        if len(self.results) > 1:
            yield "several sinks"
        if self.refused is not None and self.refused.height:
            yield "dead letters"
        if any(one.whole for one in self.results):
            yield "a whole result"
        if self.name.startswith(("right join", "full join")):
            yield self.name.partition(" beside ")[0]
        if any(script.keys >= MANY_KEYS for script in self.scripts):
            yield "thousands of keys"

    def of(self, read: Read) -> SimulatedQuery:
        """What it is when no more than this was read."""
        return self.recipe(read, UNCHANGED) if self.recipe is not None else self

    def changed(self, change: Change) -> SimulatedQuery:
        """As a person has rewritten it: another plan, the same answer."""
        return self.recipe(None, change) if self.recipe is not None and change != UNCHANGED else self

    def all_read(self, read: Read) -> bool:
        return all(
            read.get(f"source-{number}", {}).get(split) in (ALL, script.rows_per_split)
            for number, script in enumerate(self.scripts)
            for split in range(script.splits)
        )

    def graph(self, parallelism: int) -> JobGraph:
        graph = build_graph(
            *(one.plan for one in self.results),
            parallelism=parallelism,
            max_parallelism=MAX_PARALLELISM,
            dead_letters=scripted_letters(LETTERS_PLACE, format="simulated") if self.refused is not None else None,
        )
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
        spec=scripted_sink(rows.schema, mode, format="simulated"),
        columns=tuple((field.name, field.name) for field in rows.schema),
        inputs=(rows,),
    )
