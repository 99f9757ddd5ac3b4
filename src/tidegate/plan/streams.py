"""Which ``withWatermark`` tells the time of the rows of an edge: where streams meet, each keeps its own."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.model.ids import OperatorId, StageId
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import AssignWatermark, Scan


def streams_of(graph: JobGraph) -> dict[int, frozenset[OperatorId]]:
    """By the number of the edge; empty where nothing above tells the time. Branches of one ``withWatermark`` are one stream."""
    above: dict[StageId, frozenset[OperatorId]] = {}
    for stage in graph.stages:  # From the sources down.
        tells = [node.stream or node.id for node in stage.nodes if isinstance(node, AssignWatermark)]
        met = frozenset[OperatorId]().union(*(above[one.source] for one in graph.inputs_of(stage.id)))
        # The last one in a chain is the one that tells the time of what leaves it.
        above[stage.id] = frozenset(tells[-1:]) or met
    return {edge.number: above[edge.source] for edge in graph.edges}


def sources_meet(graph: JobGraph) -> bool:
    """Sources have to know how far others are."""
    return len(graph.scans()) > 1 and any(
        isinstance(node, AssignWatermark) for stage in graph.stages for node in stage.nodes
    )


def far_sources(graph: JobGraph) -> frozenset[OperatorId]:
    """Those for the time of whose rows somebody asks who does not know them apart any more."""
    return frozenset(source for far in far_assigners(graph) for source in far.sources)


@dataclass(frozen=True, slots=True)
class FarAssigner:
    """A ``withWatermark`` that does not know which split its rows come from: it stands behind an exchange."""

    node: AssignWatermark
    sources: tuple[OperatorId, ...]
    """Whose rows come by."""


def far_assigners(graph: JobGraph) -> tuple[FarAssigner, ...]:
    above: dict[StageId, tuple[OperatorId, ...]] = {}
    found: list[FarAssigner] = []
    for stage in graph.stages:  # From the sources down.
        own = [node.id for node in stage.nodes if isinstance(node, Scan)]
        others = (source for one in graph.inputs_of(stage.id) for source in above[one.source])
        above[stage.id] = tuple(dict.fromkeys((*own, *others)))
        if not own:
            assigners = (node for node in stage.nodes if isinstance(node, AssignWatermark))
            found += [FarAssigner(node, above[stage.id]) for node in assigners]
    return tuple(found)
