"""Where rows go whose user function raises: a sink beside the stream of every stage that calls user functions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId
from tidegate.model.types import LONG, STRING, Field, Schema
from tidegate.plan.graph import JobGraph, Stage
from tidegate.plan.relational import MapBatches, PythonEval, Scan, Sink
from tidegate.ports.spec import SinkSpec

LETTERS: Schema = (
    Field("row", STRING, nullable=False),
    Field("operator", STRING, nullable=False),
    Field("function", STRING, nullable=False),
    Field("error", STRING, nullable=False),
    Field("message", STRING, nullable=False),
    Field("traceback", STRING, nullable=False),
    Field("position", STRING),
    Field("attempt", LONG, nullable=False),
    Field("after_checkpoint", LONG),
)
"""``row``: the operator's input as JSON. ``error``: the exception's type. ``position``: how far the source had read, known
only before the first exchange. ``after_checkpoint``: the last barrier the attempt had passed, null before its first."""

_PREFIX = "dead-letter-"


def is_dead_letter_id(operator: OperatorId) -> bool:
    """True for the ids that ``with_dead_letters`` gives."""
    return operator.startswith(_PREFIX)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where rows go that user functions refuse. ``spec`` has the columns of ``LETTERS``."""

    path: str
    spec: SinkSpec


def with_dead_letters(graph: JobGraph, letters: DeadLetters) -> JobGraph:
    """Every stage with user functions gets a sink for them. Its id follows from the name of the stage's
    first user function, so that it does not depend on what surrounds it."""
    _refuse_taken(graph, letters.path)
    taken: set[str] = set()
    return replace(graph, stages=tuple(_with_sink(stage, letters.spec, taken) for stage in graph.stages))


def _refuse_taken(graph: JobGraph, path: str) -> None:
    """Letters among the output would be read as rows by whoever reads it; among the input, by this very query."""
    for node in (*graph.scans(), *graph.sinks()):
        if node.spec.place and _plain(node.spec.place) == _plain(path):
            raise InvalidQuery(
                f"option deadLetter names {path}, which the query {'reads' if isinstance(node, Scan) else 'writes'} itself",
                hint="give the rows that functions refuse a directory of their own",
            )


def _plain(path: str) -> str:
    return path.removeprefix("file://").rstrip("/")


def _with_sink(stage: Stage, spec: SinkSpec, taken: set[str]) -> Stage:
    function = _first_function(stage)
    if function is None:
        return stage
    name = _unique(re.sub(r"[^A-Za-z0-9]+", "-", function).strip("-") or "function", taken)
    sink = Sink(
        id=OperatorId(_PREFIX + name),
        spec=spec,
        columns=tuple((field.name, field.name) for field in LETTERS),
        dead_letters=True,
    )
    return replace(stage, nodes=(*stage.nodes, sink))


def _first_function(stage: Stage) -> str | None:
    for node in stage.nodes:
        match node:
            case PythonEval(udfs=(first, *_)):
                return first.label
            case MapBatches(label=label):
                return label
            case _:
                pass
    return None


def _unique(name: str, taken: set[str]) -> str:
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name}-{number}"
    taken.add(candidate)
    return candidate
