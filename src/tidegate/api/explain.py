"""A running query as people read it: what it does, how it is cut into stages, and the settings it runs with."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidegate.model.config import QueryConfig
from tidegate.plan.explain import explain, explain_graph
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Sink


def explain_query(plans: Sequence[Sink], graph: JobGraph, config: QueryConfig, sink: str, *, extended: bool) -> str:
    """``extended``: also the plan and every setting."""
    if not extended:
        return f"{explain_graph(graph)}\n\nSink: {sink}"
    settings = "\n".join(f"{name} = {value}" for name, value in msgspec.structs.asdict(config).items())
    return f"{explain(plans, graph)}\n\nSink: {sink}\n\n== Settings ==\n{settings}"
