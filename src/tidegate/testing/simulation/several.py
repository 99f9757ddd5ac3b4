"""Several results of one input, each into a sink of its own: one pipeline, whose common part runs once."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, cast

from tidegate.model.ids import OperatorId
from tidegate.plan.relational import Plan, Sink
from tidegate.testing.simulation.query import SimulatedQuery


def beside(query: SimulatedQuery, common: Plan, number: int) -> SimulatedQuery:
    """The same query with names of its own for every operator above ``common``, which stays one node."""
    return replace(query, plan=cast("Sink", _renamed(query.plan, common, f"-of-{number}")))


def _renamed(node: Plan, common: Plan, suffix: str) -> Plan:
    if node is common:
        return node
    changes: dict[str, Any] = {"inputs": tuple(_renamed(one, common, suffix) for one in node.inputs)}
    if "id" in {field.name for field in fields(node)}:
        changes["id"] = OperatorId(f"{getattr(node, 'id')}{suffix}")  # noqa: B009
    return replace(node, **changes)
