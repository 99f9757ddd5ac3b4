"""What the state of each operator means: the facts that a restore compares, part by part."""

from __future__ import annotations

import re
from typing import TypeAlias

from tidegate.model.shape import PLACE, Part, StateShape
from tidegate.model.types import simple_string
from tidegate.plan.meaning import plain
from tidegate.plan.relational import Aggregate, AggregateCall, AssignWatermark, Scan, Sink

Stateful: TypeAlias = Scan | AssignWatermark | Aggregate | Sink

_PLACES = ("path", "subscribe", "topic", "subscribepattern", "assign", "table", "dbtable")
"""Options that say where a connector reads or writes, most telling first; none whose value may hold a password."""
_LOCAL = re.compile(r"file:/+")


def place_of(node: Scan | Sink) -> str:
    """Where it reads or writes, as far as an option says so; empty: nowhere in particular."""
    options = {name.lower(): value for name, value in node.options.items()}
    place = next((options[name] for name in _PLACES if options.get(name)), "")
    return _LOCAL.sub("/", place, count=1).rstrip("/") if place.startswith("file:") else place.rstrip("/")


def shape_of(node: Stateful) -> StateShape:
    match node:
        case Scan() | Sink():
            place = place_of(node)
            return StateShape(node.id, (("format", node.format), *(((PLACE, place),) if place else ())))
        case AssignWatermark(column=column, schema=schema):
            of = next((f" {simple_string(field.type)}" for field in schema if field.name == column), "")
            return StateShape(node.id, (("column", f"{plain(column)}{of}"),))
        case Aggregate():
            return StateShape(node.id, _aggregate(node))


def _aggregate(node: Aggregate) -> tuple[Part, ...]:
    types = {field.name: simple_string(field.type) for field in (*node.schema, *node.input_schema)}
    meant = dict(node.meanings)
    keys = [
        (f"key {number}", f"{meant.get(key, plain(key))} {types.get(key, '')}".rstrip())
        for number, key in enumerate(node.keys, 1)
    ]
    closing = [("closed by", plain(node.event_time.column))] if node.event_time is not None else []
    calls = [(f"aggregate {number}", _call(call, meant)) for number, call in enumerate(node.calls, 1)]
    return (*keys, *closing, *calls)


def _call(call: AggregateCall, meant: dict[str, str]) -> str:
    inputs = [
        f"{meant.get(arg, plain(arg))} {simple_string(of)}"
        for arg, of in zip(call.args, call.input_types, strict=False)
    ]
    only = f" filter {meant.get(call.filter, plain(call.filter))}" if call.filter else ""
    nulls = " ignore nulls" if call.ignore_nulls else ""
    return f"{call.function}({'distinct ' if call.distinct else ''}{', '.join(inputs) or '*'}){nulls}{only}"
