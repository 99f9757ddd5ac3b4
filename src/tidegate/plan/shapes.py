"""What the state of each operator means: the facts that a restore compares, part by part."""

from __future__ import annotations

from tidegate.model.shape import PLACE, Part, StateShape
from tidegate.model.types import Schema, simple_string
from tidegate.plan.keyed import Deduplicate, SessionAggregate, StatefulProcess, StreamJoin
from tidegate.plan.meaning import plain
from tidegate.plan.ordering import Limit
from tidegate.plan.relational import Aggregate, AggregateCall, AssignWatermark, Scan, Sink, Stateful


def shape_of(node: Stateful) -> StateShape:
    match node:
        case Scan() | Sink():
            place = node.spec.place
            return StateShape(node.id, (("format", node.format), *(((PLACE, place),) if place else ())))
        case AssignWatermark(column=column, schema=schema):
            of = next((f" {simple_string(field.type)}" for field in schema if field.name == column), "")
            return StateShape(node.id, (("column", f"{plain(column)}{of}"),))
        case Aggregate():
            return StateShape(node.id, _aggregate(node))
        case SessionAggregate():
            return StateShape(node.id, _session(node))
        case Limit(count=count):
            return StateShape(node.id, (("limit", str(count)),))
        case Deduplicate():
            return StateShape(node.id, _deduplicate(node))
        case StreamJoin():
            return StateShape(node.id, _join(node))
        case StatefulProcess():
            return StateShape(node.id, _process(node))


def _aggregate(node: Aggregate) -> tuple[Part, ...]:
    meant = dict(node.meanings)
    keys = _keys(node.keys, (*node.schema, *node.input_schema), meant)
    closing = [("closed by", plain(node.event_time.column))] if node.event_time is not None else []
    calls = [(f"aggregate {number}", _call(call, meant)) for number, call in enumerate(node.calls, 1)]
    return (*keys, *closing, *calls)


def _session(node: SessionAggregate) -> tuple[Part, ...]:
    meant = dict(node.meanings)
    keys = _keys(node.keys, node.input_schema, meant)
    sessions = ("session", meant.get(node.session, plain(node.session)))
    calls = [(f"aggregate {number}", _call(call, meant)) for number, call in enumerate(node.calls, 1)]
    return (*keys, sessions, *calls)


def _deduplicate(node: Deduplicate) -> tuple[Part, ...]:
    keys = _keys(node.keys, node.schema, dict(node.meanings))
    if node.event_time is None:
        return (*keys,)
    time = plain(node.event_time.column)
    if node.within_watermark:
        return (*keys, ("forgotten after", time))
    return (*keys, *([("forgotten by", time)] if node.event_time.column in node.keys else []))


def _join(node: StreamJoin) -> tuple[Part, ...]:
    meant = dict(node.meanings)
    sides = (("left", node.left), ("right", node.right))
    keys = [(f"{side} {name}", text) for side, one in sides for name, text in _keys(one.keys, one.schema, meant)]
    rows = [
        (f"{side} rows", ", ".join(f"{plain(field.name)} {simple_string(field.type)}" for field in one.schema))
        for side, one in sides
    ]
    return (("join", node.kind.value), *keys, *rows)


def _process(node: StatefulProcess) -> tuple[Part, ...]:
    return (*_keys(node.keys, node.input_schema, dict(node.meanings)), ("api", node.kind.value))


def _keys(keys: tuple[str, ...], schema: Schema, meant: dict[str, str]) -> list[Part]:
    types = {field.name: simple_string(field.type) for field in schema}
    return [
        (f"key {number}", f"{meant.get(key, plain(key))} {types.get(key, '')}".rstrip())
        for number, key in enumerate(keys, 1)
    ]


def _call(call: AggregateCall, meant: dict[str, str]) -> str:
    inputs = [
        f"{meant.get(arg, plain(arg))} {simple_string(of)}"
        for arg, of in zip(call.args, call.input_types, strict=False)
    ]
    only = f" filter {meant.get(call.filter, plain(call.filter))}" if call.filter else ""
    nulls = " ignore nulls" if call.ignore_nulls else ""
    constants = [repr(param) for param in call.params]
    arguments = ", ".join((*inputs, *constants)) or "*"
    return f"{call.function}({'distinct ' if call.distinct else ''}{arguments}){nulls}{only}"
