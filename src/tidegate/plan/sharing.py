"""Work that several queries, or two parts of one, have in common is done once.

Two subtrees are the same when they read the same source with the same options and do the same to its rows, whatever the plan calls
their columns. The second one becomes a projection over the first, which gives the columns the names expected above it: a node with
more than one consumer, always the same object, is what the rest of ``plan`` knows as *shared*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeAlias, cast

from tidegate.model.ids import OperatorId
from tidegate.model.types import Field
from tidegate.plan.expressions import Column, Literal, Named
from tidegate.plan.meaning import plain
from tidegate.plan.relational import AssignWatermark, Filter, Plan, Project, Scan, Sink, Union

_PROVISIONAL = ("id", "pinned", "meanings", "sql")
"""Fields that say how a node is called, not what it does."""
Form: TypeAlias = object
"""What a subtree does, comparable with ``==``."""


def share(plans: Sequence[Sink]) -> tuple[Sink, ...]:
    """The plans, with one node for equal subtrees. Column names are unique over all of them, here and in the result.

    Neither pruned nor named plans: two queries that read different columns of a source read the same source.
    """
    plans = _with_equal_streams(plans)
    pool = _Pool()
    for plan in plans:
        for head in _heads(plan):
            pool.offer(head)
    return tuple(replace(plan, inputs=tuple(map(pool.shared, plan.inputs))) for plan in plans)


def connected(plans: Sequence[Sink]) -> tuple[tuple[int, ...], ...]:
    """Positions of the plans that have a node in common, directly or through others: one group per pipeline, in order."""
    groups: list[tuple[list[int], set[int]]] = []
    for position, plan in enumerate(plans):
        members, own = [position], {id(node) for node in distinct((plan,))}
        apart: list[tuple[list[int], set[int]]] = []
        for other in groups:
            if own & other[1]:
                members, own = other[0] + members, own | other[1]
            else:
                apart.append(other)
        groups = [*apart, (members, own)]
    return tuple(sorted(tuple(sorted(members)) for members, _ in groups))


def distinct(plans: Sequence[Plan]) -> Iterator[Plan]:
    """Every node once, inputs before their consumers, left to right."""
    seen: set[int] = set()

    def below(node: Plan) -> Iterator[Plan]:
        if id(node) in seen:
            return
        seen.add(id(node))
        for child in node.inputs:
            yield from below(child)
        yield node

    for plan in plans:
        yield from below(plan)


def shared_nodes(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """Nodes with more than one consumer, inputs before their consumers."""
    nodes = tuple(distinct(plans))
    consumers = Counter(id(child) for node in nodes for child in node.inputs)
    return tuple(node for node in nodes if consumers[id(node)] > 1)


def form(node: Plan) -> Form:
    """Equal for subtrees that do the same, though they call their columns and operators differently."""
    numbers: dict[str, int] = {}
    for one in distinct((node,)):
        for column in one.schema:
            numbers.setdefault(column.name, len(numbers))
    return _form(node, numbers)


@dataclass(slots=True)
class _Pool:
    """Subtrees met so far, and what stands for each of them."""

    _known: list[tuple[Form, Plan, Plan]] = field(default_factory=list)
    """What it does, the subtree as it was, and the node that does it."""

    def offer(self, head: AssignWatermark) -> None:
        """Event time is assigned where rows still know the split they came from: such a head is shared whole or not at all. A
        query that asks for no event time reads it behind the assigner, where the rows are the same."""
        if self._find(form(head)) is not None:
            return
        self._known.append((form(head), head, head))
        (child,) = head.inputs
        if self._find(form(child)) is None:
            self._known.append((form(child), child, head))

    def shared(self, node: Plan, *, by_position: bool = False) -> Plan:
        """What stands for ``node``: itself, or an earlier one that does the same. ``by_position``: names do not matter above."""
        own = form(node)
        known = self._find(own)
        if known is not None:
            was, stands = known
            # The first one to come by is the head itself; its columns have the right names already.
            return stands if by_position or _names(was) == _names(node) else _renamed(stands, was, node)
        result = node
        if not isinstance(node, Scan):
            union = isinstance(node, Union)
            result = replace(node, inputs=tuple(self.shared(child, by_position=union) for child in node.inputs))
        self._known.append((own, node, result))
        return result

    def _find(self, wanted: Form) -> tuple[Plan, Plan] | None:
        return next(((was, stands) for what, was, stands in self._known if what == wanted), None)


def _heads(plan: Plan) -> Iterator[AssignWatermark]:
    """The uppermost assigner of every chain that begins with a scan."""
    for child in plan.inputs:
        if isinstance(child, AssignWatermark) and _begins_with_scan(child):
            yield child
        else:
            yield from _heads(child)


def _begins_with_scan(node: Plan) -> bool:
    while isinstance(node, AssignWatermark | Filter | Project):
        (node,) = node.inputs
    return isinstance(node, Scan)


def _with_equal_streams(plans: Sequence[Sink]) -> tuple[Sink, ...]:
    """Streams of the same branches are called the same. A branch of two streams that differ is read twice: what one of them may
    do without, the time of a source that is quiet, the other one has to wait for."""
    branches: dict[OperatorId, list[AssignWatermark]] = {}
    for node in distinct(plans):
        if isinstance(node, AssignWatermark) and node.stream is not None:
            branches.setdefault(node.stream, []).append(node)
    known: list[tuple[list[Form], OperatorId]] = []
    called: dict[OperatorId | None, OperatorId | None] = {None: None}
    for stream, nodes in branches.items():
        forms = [form(replace(node, stream=None)) for node in nodes]
        equal = (name for others, name in known if len(others) == len(forms) and all(one in others for one in forms))
        called[stream] = next(equal, stream)
        known.append((forms, stream))
    done: dict[int, Plan] = {}
    for node in distinct(plans):
        made = node if isinstance(node, Scan) else replace(node, inputs=tuple(done[id(child)] for child in node.inputs))
        done[id(node)] = replace(made, stream=called[made.stream]) if isinstance(made, AssignWatermark) else made
    return tuple(sink for plan in plans if isinstance(sink := done[id(plan)], Sink))


def _renamed(stands: Plan, was: Plan, wanted: Plan) -> Project:
    columns = tuple(
        Named(column.name, Column(source.name, source.type))
        for column, source in zip(wanted.schema, was.schema, strict=True)
    )
    return Project(columns=columns, schema=wanted.schema, inputs=(stands,))


def _names(node: Plan) -> tuple[str, ...]:
    return tuple(column.name for column in node.schema)


def _form(value: Any, numbers: dict[str, int]) -> Form:
    match value:
        case str() if value in numbers:
            return plain(value), numbers[value]
        case Literal():
            return repr(value)
        case Field(name=name, type=of, nullable=nullable):
            return _form(name, numbers), of, nullable
        case tuple():
            return tuple(_form(one, numbers) for one in cast(tuple[Any, ...], value))
        case _ if is_dataclass(value) and not isinstance(value, type):
            parts = (_form(getattr(value, one.name), numbers) for one in fields(value) if one.name not in _PROVISIONAL)
            return type(value).__name__, *parts
        case _:
            return value
