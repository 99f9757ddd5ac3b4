"""A Catalyst expression as a Python tree, read from the JVM in one call.

``toJSON`` gives classes, constructor arguments and children at once, but leaves out result types and evaluation modes: a
node asks the JVM for those when someone needs them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tidegate.catalyst.java import Java, class_name, items
from tidegate.catalyst.types import from_json, from_json_text
from tidegate.model.types import DAY_TIME_INTERVAL, DataType

_MODE_KEYS = ("evalMode", "evalContext")
_STRICT_KEYS = ("failOnError", "ansiEnabled")
_PLAIN = frozenset({"Add", "Subtract", "CreateNamedStruct", "KnownNullable", "PreciseTimestampConversion"})
"""What a branch of a window is made of. In one Expand their type and mode are the same at the same place."""
_INTERVAL = '"interval"'
"""A calendar interval. Inside an expression it stands for a length of time; no column may have that type."""


@dataclass(slots=True)
class Facts:
    """What only the JVM knows of a node; each is asked for once."""

    parent: Facts | None
    index: int
    mode_key: str = ""
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
            stated = self.java.dataType().json()
            self._type = DAY_TIME_INTERVAL if stated == _INTERVAL else from_json_text(stated)
        return self._type

    @property
    def mode(self) -> str:
        """``ANSI``, ``TRY`` or ``LEGACY``."""
        if self._mode is None:
            holder = self.java if self.mode_key == "evalMode" else self.java.evalContext()
            self._mode = str(holder.evalMode().toString())
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
        return self.facts.type if stated is None or stated == "interval" else from_json(stated)

    @property
    def expr_id(self) -> int:
        return int(self.fields["exprId"]["id"])

    @property
    def mode(self) -> str | None:
        """``ANSI``, ``TRY`` or ``LEGACY``; None when the class has no such thing."""
        for key in _MODE_KEYS:
            if key in self.fields:
                self.facts.mode_key = key
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
    return _build(nodes, Facts(None, 0, _java=expression))


def read_like(template: Node, expression: Java) -> Node:
    """Reads an expression that differs from another in a few constants, without reading the rest again.

    For the branches of an Expand: one rule of the analyser wrote them all, and a long window with a short slide has hundreds.
    """
    if expression.equals(template.java):
        return template
    if template.kind not in _PLAIN or class_name(expression) != template.kind:
        return read(expression)
    children = items(expression.children())
    if len(children) != len(template.children):
        return read(expression)
    same = [read_like(child, java) for child, java in zip(template.children, children, strict=True)]
    return Node(template.kind, template.fields, template.facts, same)


def _build(nodes: Iterator[dict[str, Any]], facts: Facts) -> Node:
    fields = next(nodes)
    node = Node(fields["class"].rpartition(".")[2], fields, facts)
    node.children = [_build(nodes, Facts(facts, index)) for index in range(fields["num-children"])]
    return node
