"""The physical shape: stages (chains of operators), edges between them, and how rows choose a channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from tidegate.model.ids import OperatorId, StageId
from tidegate.model.output_mode import OutputMode
from tidegate.model.shape import StateShape
from tidegate.model.types import Schema, simple_string
from tidegate.plan.relational import PartialAggregate, Plan, Scan, Sink, Stateful
from tidegate.plan.shapes import shape_of


class Partitioning(Enum):
    FORWARD = "forward"
    """To the subtask with the same index, in the same slot."""
    KEYED = "keyed"
    """By key group of the key columns."""
    REBALANCE = "rebalance"
    """Round robin, whole batches."""
    BROADCAST = "broadcast"
    """Every row to every subtask."""


_INPUT_STATE = ".inputs"


def is_input_state(operator: OperatorId) -> bool:
    """True for the state of a stage's inputs, false for that of an operator."""
    return operator.endswith(_INPUT_STATE)


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

    A stage starts with a Scan, or reads its input edges (several for a union). It ends in a Sink, or in output edges;
    behind that may come the sink for dead letters, which takes no part in the stream.
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

    @property
    def has_whole_results(self) -> bool:
        """Rows leave at barriers, before them (output mode ``complete``)."""
        return any(sink.mode is OutputMode.COMPLETE for sink in self.sinks())

    def input_state_id(self, stage: StageId) -> OperatorId:
        """Under which the state of a stage itself, as opposed to its operators', is stored: event time and overtaken rows of
        its inputs. Named after the first stateful operator in the stage, or after the one it leads to: never after a number
        that another stage could move."""
        return OperatorId(f"{self._first_stateful(stage)}{_INPUT_STATE}")

    def _first_stateful(self, stage: StageId) -> str:
        for node in self.stages[stage].nodes:
            match node:
                case Sink(dead_letters=True):
                    pass
                case PartialAggregate(aggregate=aggregate):
                    return f"{aggregate.id}.partial"
                case _ if isinstance(node, Stateful):
                    return node.id
                case _:
                    pass
        # Backwards from an operator, port by port, there is one way only: no two stages get the same name.
        return min(f"{self._first_stateful(edge.target)}.{edge.port}" for edge in self.outputs_of(stage))

    def state_shapes(self) -> tuple[StateShape, ...]:
        """What the state of each operator means: restored only into an operator of the same shape. Sorted."""
        inputs = [self._input_shape(stage) for stage in sorted({edge.target for edge in self.edges})]
        return tuple(sorted([*(shape_of(node) for node in self._stateful()), *inputs]))

    def stateful_ids(self) -> tuple[OperatorId, ...]:
        """Operators that must have an entry in every manifest, sorted; a stage with inputs has one of its own."""
        inputs = {self.input_state_id(edge.target) for edge in self.edges}
        return tuple(sorted([*(node.id for node in self._stateful()), *inputs]))

    def pinned_ids(self) -> tuple[OperatorId, ...]:
        """Operators whose id the user chose, sorted."""
        return tuple(sorted(node.id for node in self._stateful() if node.pinned))

    def _stateful(self) -> Iterator[Stateful]:
        for stage in self.stages:
            for node in stage.nodes:
                if isinstance(node, Stateful):
                    yield node

    def _input_shape(self, stage: StageId) -> StateShape:
        """Rows that a barrier overtook fit only a channel with the very same columns; event time alone fits any."""
        parts = tuple((f"input {edge.port}", self._rows_of(edge)) for edge in self.inputs_of(stage))
        return StateShape(self.input_state_id(stage), parts)

    def _rows_of(self, edge: Edge) -> str:
        partial = next((n for n in self.stages[edge.source].nodes if isinstance(n, PartialAggregate)), None)
        calls = partial.aggregate.calls if partial is not None else ()
        columns = [f"{column.name} {simple_string(column.type)}" for column in edge.schema]
        return f"edge {edge.number}, {edge.partitioning.value}: {', '.join([*columns, *(call.name for call in calls)])}"
