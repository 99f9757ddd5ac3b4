"""The physical shape: stages (chains of operators), edges between them, and how rows choose a channel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.model.ids import OperatorId, StageId
from tidegate.model.types import Schema, simple_string
from tidegate.plan.relational import Aggregate, AggregateCall, AssignWatermark, Plan, Scan, Sink


class Partitioning(Enum):
    FORWARD = "forward"
    """To the subtask with the same index, in the same slot."""
    KEYED = "keyed"
    """By key group of the key columns."""
    REBALANCE = "rebalance"
    """Round robin, whole batches."""
    BROADCAST = "broadcast"
    """Every row to every subtask."""


def stage_state_id(stage: StageId) -> OperatorId:
    """Under which the state of a stage itself, as opposed to its operators', is stored: the event time of its inputs."""
    return OperatorId(f"stage-{stage}")


@dataclass(frozen=True, slots=True)
class Edge:
    number: int
    source: StageId
    target: StageId
    port: int
    """Which input of the target this is (a union has several)."""
    partitioning: Partitioning
    keys: tuple[str, ...]
    schema: Schema


@dataclass(frozen=True, slots=True)
class Stage:
    """A chain of operators without an exchange inside; nodes have ``inputs=()``. One subtask of it runs in every slot.

    A stage starts with a Scan, or reads its input edges (several for a union). It ends in a Sink, or in output edges.
    """

    id: StageId
    nodes: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class JobGraph:
    """One pipeline: a connected component of the query. ``parallelism`` subtasks of every stage, one per slot."""

    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]
    parallelism: int
    max_parallelism: int

    def stage(self, stage: StageId) -> Stage:
        return self.stages[stage]

    def inputs_of(self, stage: StageId) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.edges if edge.target == stage)

    def outputs_of(self, stage: StageId) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.edges if edge.source == stage)

    def scans(self) -> tuple[Scan, ...]:
        return tuple(node for stage in self.stages for node in stage.nodes if isinstance(node, Scan))

    def sinks(self) -> tuple[Sink, ...]:
        return tuple(node for stage in self.stages for node in stage.nodes if isinstance(node, Sink))

    def state_shapes(self) -> tuple[tuple[OperatorId, str], ...]:
        """What the state of an operator means, in words: restored only into an operator of the same shape. Sorted."""
        nodes = [node for stage in self.stages for node in stage.nodes if isinstance(node, Scan | Aggregate)]
        return tuple(sorted((node.id, _shape(node)) for node in nodes))

    def stateful_ids(self) -> tuple[OperatorId, ...]:
        """Operators that must have an entry in every manifest, sorted; a stage with inputs has one for its event time."""
        kinds = (Scan, AssignWatermark, Aggregate, Sink)
        operators = [node.id for stage in self.stages for node in stage.nodes if isinstance(node, kinds)]
        return tuple(sorted([*operators, *{stage_state_id(edge.target) for edge in self.edges}]))


def _shape(node: Scan | Aggregate) -> str:
    """Names without their number in the plan: a projection added elsewhere changes the number and not the meaning."""
    match node:
        case Scan(format=format):
            return f"reads {format}"
        case Aggregate(keys=keys, calls=calls, event_time=event_time, input_schema=schema):
            types = {field.name: simple_string(field.type) for field in schema}
            groups = [f"{_plain(key)} {types.get(key, '')}".rstrip() for key in keys]
            closing = f", closed by {_plain(event_time.column)}" if event_time is not None else ""
            return f"groups by ({', '.join(groups)}){closing}: {', '.join(map(_call, calls))}"


def _call(call: AggregateCall) -> str:
    inputs = [f"{_plain(arg)} {simple_string(of)}" for arg, of in zip(call.args, call.input_types, strict=False)]
    only = f" filter {_plain(call.filter)}" if call.filter else ""
    nulls = " ignore nulls" if call.ignore_nulls else ""
    return f"{call.function}({'distinct ' if call.distinct else ''}{', '.join(inputs) or '*'}){nulls}{only}"


def _plain(name: str) -> str:
    return name.rpartition("#")[0] or name
