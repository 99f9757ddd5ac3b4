"""Plans of queries that run together: what they share is found, columns nobody reads are dropped, operators get their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.catalyst.pruning import prune
from tidegate.model.errors import Bug
from tidegate.model.ids import OperatorId
from tidegate.model.types import Schema
from tidegate.plan.expressions import Column, Named
from tidegate.plan.identity import identify_all
from tidegate.plan.relational import Plan, Project, Scan, Sink
from tidegate.plan.sharing import connected, distinct, share, shared_nodes
from tidegate.ports.context import EnumeratorContext, ReaderContext
from tidegate.ports.source import SourceConnector, SplitEnumerator
from tidegate.ports.spec import NOWHERE, Place, SourceSpec


@dataclass(frozen=True, slots=True)
class Component:
    """Queries that have something in common: one pipeline."""

    positions: tuple[int, ...]
    """Of its queries among all."""
    plans: tuple[Sink, ...]


@dataclass(frozen=True, kw_only=True)
class _SharedNode(SourceSpec):
    """In place of a node that several plans read. It is replaced before anything runs."""

    @property
    def place(self) -> Place:
        return NOWHERE

    def enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        raise Bug(f"{context.operator} stands for a shared node and was to be read")

    def reader(self, context: ReaderContext) -> SourceConnector:
        raise Bug(f"{context.operator} stands for a shared node and was to be read")


_SHARED = _SharedNode(format="shared", schema=())


def together(plans: Sequence[Sink]) -> tuple[Component, ...]:
    """The pipelines that the queries make, from plans as they were read. Column names are unique over all of them."""
    shared = share(plans)
    return tuple(
        Component(positions, identify_all(prune_all([shared[position] for position in positions])))
        for positions in connected(shared)
    )


def prune_all(plans: Sequence[Sink]) -> tuple[Sink, ...]:
    """Without columns that nobody reads. A shared node keeps what any of its consumers reads; each gets only what it reads."""
    shared = {id(node): (f"shared-{number}", node) for number, node in enumerate(shared_nodes(plans))}
    wanted: dict[str, set[str]] = {label: set() for label, _ in shared.values()}

    def pruned(piece: Plan, columns: frozenset[str] | None) -> Plan:
        result = prune(_cut(piece, shared), columns)
        for node in distinct((result,)):
            if isinstance(node, Scan) and node.id in wanted:
                wanted[node.id].update(column.name for column in node.schema)
        return result

    tops = [pruned(plan, None) for plan in plans]
    done: dict[str, Plan] = {}
    # Consumers first: then everything that is wanted of a node is known when it is its turn.
    for label, node in reversed(shared.values()):
        done[label] = pruned(node, frozenset(wanted[label]))
    whole: dict[str, Plan] = {}
    for label, _ in shared.values():
        whole[label] = _join(done[label], whole)
    return tuple(top for plan in tops if isinstance(top := _join(plan, whole), Sink))


def _cut(piece: Plan, shared: Mapping[int, tuple[str, Plan]]) -> Plan:
    """The part above the next shared nodes, with a scan in place of each of them."""

    def without(node: Plan) -> Plan:
        if id(node) in shared and node is not piece:
            label, _ = shared[id(node)]
            names = tuple(column.name for column in node.schema)
            return Scan(id=OperatorId(label), spec=_SHARED, schema=node.schema, columns=names)
        return node if isinstance(node, Scan) else replace(node, inputs=tuple(map(without, node.inputs)))

    return without(piece)


def _join(node: Plan, whole: Mapping[str, Plan]) -> Plan:
    """The opposite of ``_cut``."""
    if isinstance(node, Scan):
        return _only(whole[node.id], node.schema) if node.id in whole else node
    match node:
        case Project(inputs=(Scan(id=label),)) if label in whole:
            return replace(node, inputs=(whole[label],))  # It chooses columns itself.
        case _:
            return replace(node, inputs=tuple(_join(child, whole) for child in node.inputs))


def _only(node: Plan, schema: Schema) -> Plan:
    if [column.name for column in node.schema] == [column.name for column in schema]:
        return node
    columns = tuple(Named(column.name, Column(column.name, column.type)) for column in schema)
    return Project(columns=columns, schema=schema, inputs=(node,))
