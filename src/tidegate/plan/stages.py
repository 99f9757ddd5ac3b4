"""From what a query means to how it runs: the relational plan is cut into stages at its exchanges.

An Aggregate becomes a PartialAggregate at the end of the stage below, a keyed edge, and the merging Aggregate at the head of a new
stage; a Union becomes a stage with one forward input per branch. User code behind an aggregate stands in a stage of its own: when a
window closes, all its rows come at once, and what the code has not seen yet must lie in a channel, where a barrier can overtake it,
and not in the middle of a chain. Everything else runs in the chain it is in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import StageId
from tidegate.model.types import Field, Schema
from tidegate.plan.dead_letters import DeadLetters, with_dead_letters
from tidegate.plan.event_times import with_event_times
from tidegate.plan.graph import Edge, JobGraph, Partitioning, Stage
from tidegate.plan.keyed import Deduplicate, PartialDeduplicate, SessionAggregate, StatefulProcess, StreamJoin
from tidegate.plan.ordering import Limit, PartialLimit, Sort
from tidegate.plan.relational import (
    Aggregate,
    AssignWatermark,
    Expand,
    Filter,
    Generate,
    Keyed,
    MapBatches,
    PartialAggregate,
    Plan,
    Project,
    PythonEval,
    Repartition,
    Scan,
    Sink,
    StampTime,
    StaticJoin,
    Union,
)
from tidegate.plan.sharing import shared_nodes
from tidegate.plan.watermarks import push_watermarks_down_all


def build_graph(
    *plans: Sink, parallelism: int, max_parallelism: int, dead_letters: DeadLetters | None = None
) -> JobGraph:
    """The graph of one pipeline, with a sink per plan. Stages are numbered from the sources down: an edge leads to a higher number.

    A node that several consumers read (``plan/sharing.py``) is the same object in all of them, and ends its stage.
    ``dead_letters``: where rows go whose user function raises; None: such a row ends the attempt.
    """
    sinks = push_watermarks_down_all(plans)
    cutter = _Cutter(frozenset(map(id, shared_nodes(sinks))))
    for sink in sinks:
        cutter.close(cutter.chain(sink))
    graph = with_event_times(JobGraph(tuple(cutter.stages), tuple(cutter.edges), parallelism, max_parallelism))
    if dead_letters is not None:
        graph = with_dead_letters(graph, dead_letters)
    _check_unique_ids(graph)
    return graph


@dataclass(slots=True)
class _Open:
    """A stage under construction: its inputs are known, its chain still grows."""

    inputs: list[tuple[StageId, Partitioning, tuple[str, ...], Schema]]
    nodes: list[Plan]


@dataclass(slots=True)
class _Cutter:
    shared: frozenset[int]
    """Identities of nodes with several consumers."""
    stages: list[Stage] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    closed: dict[int, StageId] = field(default_factory=dict)
    """Stages that end in a shared node, by its identity."""

    def chain(self, node: Plan) -> _Open:
        """The open stage whose chain ends in ``node``, or a new one that reads it."""
        if id(node) in self.shared:
            return _Open([(self.ending(node), Partitioning.FORWARD, (), node.schema)], [])
        return self._chain(node)

    def ending(self, node: Plan) -> StageId:
        """A closed stage whose rows are those of ``node``."""
        if id(node) not in self.shared:
            return self.close(self._chain(node))
        if id(node) not in self.closed:
            self.closed[id(node)] = self.close(self._chain(node))
        return self.closed[id(node)]

    def _chain(self, node: Plan) -> _Open:
        match node:
            case Scan():
                return _Open([], [node])
            case Union(inputs=inputs):
                ports = [(self.ending(child), Partitioning.FORWARD, (), child.schema) for child in inputs]
                return _Open(ports, [_alone(node)])
            case Aggregate(keys=keys):
                below = self.chain(_only_input(node))
                merged = _alone(node)
                assert isinstance(merged, Aggregate)
                types = _key_schema(node)
                below.nodes.append(PartialAggregate(aggregate=merged, schema=types))
                return _Open([(self.close(below), Partitioning.KEYED, keys, types)], [merged])
            case Repartition(keys=keys, single=single):
                child = _only_input(node)
                how = Partitioning.KEYED if keys or single else Partitioning.REBALANCE
                return _Open([(self.ending(child), how, keys, child.schema)], [_alone(node)])
            case Deduplicate(keys=keys) if node.rows_of_a_key_are_late_together:
                child = _only_input(node)
                below = self.chain(child)
                alone = _alone(node)
                assert isinstance(alone, Deduplicate)
                below.nodes.append(PartialDeduplicate(deduplicate=alone, schema=child.schema))
                return _Open([(self.close(below), Partitioning.KEYED, keys, child.schema)], [alone])
            case SessionAggregate(keys=keys) | Deduplicate(keys=keys) | StatefulProcess(keys=keys):
                child = _only_input(node)
                return _Open([self._exchange(child, keys)], [_alone(node)])
            case Sort():
                return _Open([self._exchange(_only_input(node), ())], [_alone(node)])
            case Limit(count=count):
                child = _only_input(node)
                below = self.chain(child)
                below.nodes.append(PartialLimit(count=count, schema=child.schema))
                return _Open([(self.close(below), Partitioning.KEYED, (), child.schema)], [_alone(node)])
            case StreamJoin(left=left, right=right, inputs=(one, other)):
                return _Open([self._exchange(one, left.keys), self._exchange(other, right.keys)], [_alone(node)])
            case StreamJoin():
                raise InvalidQuery(
                    f"join {node.id} has {len(node.inputs)} inputs in the plan, expected two",
                    hint="build the plan from the leaves up: the left side first, then the right one",
                )
            case (
                AssignWatermark()
                | Filter()
                | Project()
                | Expand()
                | Generate()
                | StampTime()
                | PartialAggregate()
                | PartialDeduplicate()
                | PartialLimit()
                | PythonEval()
                | MapBatches()
                | StaticJoin()
                | Sink()
            ):
                below = _only_input(node)
                stage = self.chain(below)
                if _runs_user_code(node) and any(isinstance(one, Keyed) for one in stage.nodes):
                    stage = _Open([(self.close(stage), Partitioning.FORWARD, (), below.schema)], [])
                stage.nodes.append(_alone(node))
                return stage

    def _exchange(self, child: Plan, keys: tuple[str, ...]) -> tuple[StageId, Partitioning, tuple[str, ...], Schema]:
        """All rows of a key to one subtask."""
        return self.ending(child), Partitioning.KEYED, keys, child.schema

    def close(self, stage: _Open) -> StageId:
        target = StageId(len(self.stages))
        self.stages.append(Stage(target, tuple(stage.nodes)))
        for port, (source, partitioning, keys, schema) in enumerate(stage.inputs):
            self.edges.append(Edge(len(self.edges), source, target, port, partitioning, keys, schema))
        return target


def _runs_user_code(node: Plan) -> bool:
    match node:
        case PythonEval() | MapBatches():
            return True
        case Sink(spec=spec):
            return spec.runs_user_code
        case _:
            return False


def _alone(node: Plan) -> Plan:
    return node if isinstance(node, Scan) else replace(node, inputs=())


def _only_input(node: Plan) -> Plan:
    if len(node.inputs) != 1:
        raise InvalidQuery(
            f"{type(node).__name__} has {len(node.inputs)} inputs in the plan, expected one",
            hint="build the plan from the leaves up; only Union takes several inputs, and only Scan takes none",
        )
    return node.inputs[0]


def _key_schema(node: Aggregate) -> Schema:
    """Types of the grouping keys: all the exchange has to know. How accumulators look is the operators' affair."""
    known: dict[str, Field] = {column.name: column for column in (*node.schema, *node.input_schema)}
    missing = [key for key in node.keys if key not in known]
    if missing:
        raise InvalidQuery(
            f"aggregate {node.id} groups by {', '.join(missing)}, found neither in its input nor in its output",
            hint=f"known columns: {', '.join(sorted(known))}",
        )
    return tuple(known[key] for key in node.keys)


def _check_unique_ids(graph: JobGraph) -> None:
    ids = graph.stateful_ids()
    repeated = sorted({one for one, next_one in pairwise(ids) if one == next_one})
    if repeated:
        raise InvalidQuery(
            f"operator ids must be unique, found twice: {', '.join(repeated)}",
            hint="state is stored under the operator's id; give each scan, watermark, aggregate and sink its own",
        )
