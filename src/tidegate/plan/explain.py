"""The text of a plan, as ``query.explain()`` prints it: what the query means, then how it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidegate.model.ids import OperatorId
from tidegate.model.types import Schema, simple_string
from tidegate.plan.expressions import Call, Case, Cast, Column, Expression, FieldOf, Lambda, Literal, MakeStruct
from tidegate.plan.graph import Edge, JobGraph, Partitioning, Stage
from tidegate.plan.keyed import Deduplicate, PartialDeduplicate, SessionAggregate, StatefulProcess, StreamJoin
from tidegate.plan.meaning import plain
from tidegate.plan.ordering import Limit, PartialLimit, Sort
from tidegate.plan.relational import (
    Aggregate,
    AggregateCall,
    AssignWatermark,
    Expand,
    Filter,
    Generate,
    MapBatches,
    PartialAggregate,
    Plan,
    Project,
    PythonEval,
    Repartition,
    Scan,
    Sink,
    StampTime,
    Stateful,
    StaticJoin,
    Union,
)

_TEXT_MAX = 160


def explain(plans: Sink | Sequence[Sink], graph: JobGraph, guarantees: Mapping[OperatorId, str] | None = None) -> str:
    """Plans, stages, channels and parallelism. ``guarantees``: what each sink's connector promises, by operator id."""
    promised = guarantees or {}
    every = [plans] if isinstance(plans, Sink) else plans
    logical = (line for plan in every for line in _tree(plan, promised))
    return "\n".join(("== Plan ==", *logical, "", *_physical(graph, promised)))


def explain_graph(graph: JobGraph, guarantees: Mapping[OperatorId, str] | None = None) -> str:
    """Only how it runs."""
    return "\n".join(_physical(graph, guarantees or {}))


def label(node: Plan) -> str:
    """Short and stable: how metrics and errors name an operator."""
    if isinstance(node, Stateful):
        return node.id
    match node:
        case Generate(function=function):
            return function
        case PartialAggregate(aggregate=aggregate):
            return f"partial {aggregate.id}"
        case PartialDeduplicate(deduplicate=deduplicate):
            return f"partial {deduplicate.id}"
        case PythonEval(udfs=udfs):
            return f"python({', '.join(udf.label for udf in udfs)})"
        case MapBatches(label=name):
            return f"map({name})"
        case StaticJoin(kind=kind):
            return f"static {kind.value} join"
        case PartialLimit(count=count):
            return f"partial limit {count}"
        case Filter() | Project() | Expand() | Union() | Repartition() | StampTime() | Sort():
            return type(node).__name__.lower()


def _tree(root: Plan, guarantees: Mapping[OperatorId, str], depth: int = 0) -> Iterator[str]:
    yield f"{'   ' * (depth - 1) + '+- ' if depth else ''}{describe(root, guarantees)}"
    for child in root.inputs:
        yield from _tree(child, guarantees, depth + 1)


def _physical(graph: JobGraph, guarantees: Mapping[OperatorId, str]) -> Iterator[str]:
    subtasks = graph.parallelism * len(graph.stages)
    yield (
        f"== Stages == parallelism {graph.parallelism}, key groups {graph.max_parallelism}, "
        f"{_count(len(graph.stages), 'stage')}, {_count(subtasks, 'subtask')}, "
        f"{_count(sum(_channels(edge, graph) for edge in graph.edges), 'channel')}"
    )
    for stage in graph.stages:
        yield from _stage(stage, graph, guarantees)


def _stage(stage: Stage, graph: JobGraph, guarantees: Mapping[OperatorId, str]) -> Iterator[str]:
    yield f"Stage {stage.id} ×{graph.parallelism}"
    for edge in graph.inputs_of(stage.id):
        yield f"  ⇐ stage {edge.source}: {_edge(edge, graph)}"
    for node in stage.nodes:
        yield f"    {describe(node, guarantees)}"


def _edge(edge: Edge, graph: JobGraph) -> str:
    how = {
        Partitioning.FORWARD: "forward",
        Partitioning.KEYED: f"keyed by [{_names(edge.keys)}]" if edge.keys else "keyed by nothing: one subtask",
        Partitioning.REBALANCE: "rebalance",
        Partitioning.BROADCAST: "broadcast",
    }[edge.partitioning]
    return f"{how}, {_count(_channels(edge, graph), 'channel')}"


def _channels(edge: Edge, graph: JobGraph) -> int:
    return graph.parallelism if edge.partitioning is Partitioning.FORWARD else graph.parallelism**2


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def describe(node: Plan, guarantees: Mapping[OperatorId, str] | None = None) -> str:
    """One line about one node."""
    match node:
        case Scan(id=name, spec=spec, schema=schema):
            return _short(f"Scan {name} {spec.format}{_options(spec.shown)} [{_columns(schema)}]")
        case AssignWatermark(id=name, column=column, delay_us=delay):
            return f"Watermark {name} {plain(column)} - {_duration(delay)}"
        case Filter(condition=condition):
            return _short(f"Filter {sql(condition)}")
        case Project(columns=columns):
            return _short(f"Project [{', '.join(_named(c.name, c.expression) for c in columns)}]")
        case Expand(projections=projections, schema=schema):
            return _short(f"Expand ×{len(projections)} [{_columns(schema)}]")
        case Aggregate(id=name, keys=keys, calls=calls, event_time=event_time, mode=mode):
            closes = f", closed by watermark over {plain(event_time.column)}" if event_time else ""
            return _short(f"Aggregate {name} {mode.value} by [{_names(keys)}] {_calls(calls)}{closes}")
        case PartialAggregate(aggregate=aggregate):
            return _short(f"PartialAggregate {aggregate.id} by [{_names(aggregate.keys)}] {_calls(aggregate.calls)}")
        case SessionAggregate(id=name, keys=keys, session=session, calls=calls, mode=mode):
            return _short(f"Sessions {name} {mode.value} {plain(session)} by [{_names(keys)}] {_calls(calls)}")
        case Deduplicate(id=name, keys=keys, event_time=event_time):
            until = f", until watermark over {event_time.column}" if event_time else ""
            return _short(f"Deduplicate {name} by [{_names(keys)}]{until}")
        case PartialDeduplicate(deduplicate=deduplicate):
            return _short(f"PartialDeduplicate {deduplicate.id} by [{', '.join(deduplicate.keys)}]")
        case StreamJoin(id=name, kind=kind, left=left, right=right, condition=condition):
            on = ", ".join(f"{plain(a)} = {plain(b)}" for a, b in zip(left.keys, right.keys, strict=True))
            return _short(f"StreamJoin {name} {kind.value} on [{on}]{f' and {sql(condition)}' if condition else ''}")
        case StatefulProcess(id=name, kind=kind, label=function, keys=keys, time_mode=time_mode):
            return _short(f"{kind.value} {name} {function} by [{_names(keys)}], {time_mode.value}")
        case Generate(function=function, args=args, outer=outer):
            return _short(f"Generate {function}({', '.join(map(sql, args))}){' outer' if outer else ''}")
        case Sort(order=order, limit=limit):
            keys = ", ".join(f"{key.column} {'ASC' if key.ascending else 'DESC'}" for key in order)
            return _short(f"Sort [{keys}]{f', first {limit}' if limit is not None else ''}")
        case Limit(id=name, count=count):
            return f"Limit {name} {count}"
        case PartialLimit(count=count):
            return f"PartialLimit {count}"
        case StampTime(column=column):
            return f"StampTime {column}"
        case Repartition(keys=keys, single=single):
            how = f"by [{_names(keys)}]" if keys else "to one subtask" if single else "in turn"
            return _short(f"Repartition {how}")
        case Union(inputs=inputs):
            return f"Union of {len(inputs)}" if inputs else "Union"
        case PythonEval(udfs=udfs):
            return _short(f"PythonEval {', '.join(f'{u.label} as {plain(u.name)} ({u.kind.value})' for u in udfs)}")
        case MapBatches(label=name, kind=kind, schema=schema):
            return _short(f"MapBatches {name} ({kind.value}) [{_columns(schema)}]")
        case StaticJoin(kind=kind, stream_keys=stream_keys, static_keys=static_keys, table=table, parts=parts):
            on = ", ".join(f"{sql(a)} = {sql(b)}" for a, b in zip(stream_keys, static_keys, strict=True))
            where = f"table of {len(table):,} bytes in every slot"
            if parts:
                where = f"table of {sum(part.size_bytes for part in parts):,} bytes over all slots"
            return _short(f"StaticJoin {kind.value} on [{on}], {where}")
        case Sink(id=name, spec=spec, columns=columns):
            guarantee = (guarantees or {}).get(name)
            shown = f", guarantee {guarantee.replace('_', '-')}" if guarantee else ""
            return _short(
                f"Sink {name} {spec.format}{_options(spec.shown)} {spec.mode.value}{shown} [{', '.join(public for _, public in columns)}]"
            )


def sql(of: Expression) -> str:
    """The expression for people; Spark's own text where it is known."""
    match of:
        case Column(name=name):
            return plain(name)
        case Literal(value=value):
            return "NULL" if value is None else repr(value)
        case Call(sql=text) | Cast(sql=text) if text:
            return text
        case Call(function=function, args=args):
            return f"{function}({', '.join(sql(arg) for arg in args)})"
        case Cast(child=child, type=kind):
            return f"cast({sql(child)} as {simple_string(kind)})"
        case Case(branches=branches, otherwise=otherwise):
            parts = " ".join(f"WHEN {sql(condition)} THEN {sql(value)}" for condition, value in branches)
            return f"CASE {parts}{f' ELSE {sql(otherwise)}' if otherwise is not None else ''} END"
        case FieldOf(child=child, name=name):
            return f"{sql(child)}.{name}"
        case MakeStruct(fields=fields):
            return f"struct({', '.join(_named(name, value) for name, value in fields)})"
        case Lambda(parameters=parameters, body=body):
            return f"({', '.join(sql(one) for one in parameters)}) -> {sql(body)}"


def _named(name: str, expression: Expression) -> str:
    text = sql(expression)
    return text if text == plain(name) else f"{text} AS {plain(name)}"


def _calls(calls: tuple[AggregateCall, ...]) -> str:
    texts = (call.sql or f"{call.function}({_names(call.args) or '*'})" for call in calls)
    return f"[{', '.join(f'{text} AS {plain(call.name)}' for text, call in zip(texts, calls, strict=True))}]"


def _columns(schema: Schema) -> str:
    return ", ".join(f"{plain(column.name)}: {simple_string(column.type)}" for column in schema)


def _names(columns: Sequence[str]) -> str:
    return ", ".join(map(plain, columns))


def _options(shown: Sequence[tuple[str, str]]) -> str:
    return f" ({', '.join(f'{name}={value}' for name, value in shown)})" if shown else ""


def _duration(delay_us: int) -> str:
    if delay_us % 1_000_000 == 0:
        return f"{delay_us // 1_000_000} s"
    return f"{delay_us / 1_000:g} ms"


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"
