"""A Catalyst expression as a Python tree, read from the JVM in one call.

``toJSON`` gives classes, constructor arguments and children at once, but leaves out result types and evaluation modes: a
node asks the JVM for those when someone needs them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tidegate.catalyst.java import Java
from tidegate.catalyst.types import from_json, from_json_text
from tidegate.model.types import DataType

_MODE_KEYS = ("evalMode", "evalContext")
_STRICT_KEYS = ("failOnError", "ansiEnabled")


@dataclass(slots=True)
class Facts:
    """What only the JVM knows of a node; each is asked for once."""

    parent: Facts | None
    index: int
    _java: Java = None
    _type: DataType | None = None
    _mode: str | None = None
    _name: str | None = None

    @property
    def java(self) -> Java:
        if self._java is None:
            assert self.parent is not None
            self._java = self.parent.java.children().apply(self.index)
        return self._java

    @property
    def type(self) -> DataType:
        if self._type is None:
            self._type = from_json_text(self.java.dataType().json())
        return self._type

    @property
    def mode(self) -> str:
        """``ANSI``, ``TRY`` or ``LEGACY``."""
        if self._mode is None:
            self._mode = str(self.java.evalMode().toString())
        return self._mode

    @property
    def name(self) -> str:
        """Spark's SQL name of the function."""
        if self._name is None:
            self._name = str(self.java.prettyName()).lower()
        return self._name


@dataclass(slots=True)
class Node:
    """One expression: ``kind`` is the simple name of its Catalyst class, ``fields`` its constructor arguments."""

    kind: str
    fields: dict[str, Any]
    facts: Facts
    children: list[Node] = field(default_factory=list)

    @property
    def java(self) -> Java:
        return self.facts.java

    @property
    def type(self) -> DataType:
        stated = self.fields.get("dataType")
        return self.facts.type if stated is None else from_json(stated)

    @property
    def expr_id(self) -> int:
        return int(self.fields["exprId"]["id"])

    @property
    def mode(self) -> str | None:
        """``ANSI``, ``TRY`` or ``LEGACY``; None when the class has no such thing."""
        if any(key in self.fields for key in _MODE_KEYS):
            return self.facts.mode
        for key in _STRICT_KEYS:
            if isinstance(strict := self.fields.get(key), bool):
                return "ANSI" if strict else "LEGACY"
        return None

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()


def read(expression: Java) -> Node:
    """The tree of a Catalyst expression."""
    nodes = iter(json.loads(expression.toJSON()))
    return _build(nodes, Facts(None, 0, expression))


def share_facts(template: Node, other: Node) -> None:
    """Lets ``other`` reuse what is known of ``template`` wherever both have the same shape.

    For the branches of an Expand: one rule of the analyser wrote them all, they differ in literals only, and a long window
    with a short slide has thousands of them.
    """
    if template.kind != other.kind or len(template.children) != len(other.children):
        return
    if other.children:
        other.facts = template.facts
    for one, two in zip(template.children, other.children, strict=True):
        share_facts(one, two)


def _build(nodes: Iterator[dict[str, Any]], facts: Facts) -> Node:
    fields = next(nodes)
    node = Node(fields["class"].rpartition(".")[2], fields, facts)
    node.children = [_build(nodes, Facts(facts, index)) for index in range(fields["num-children"])]
    return node
