"""A query as people read it: what it does, how it is cut into stages, and which way rows take between them."""

from __future__ import annotations

import msgspec

from tidegate.catalyst.printing import sql_text, user_name
from tidegate.model.config import QueryConfig
from tidegate.plan.graph import Edge, JobGraph, Partitioning
from tidegate.plan.relational import (
    Aggregate,
    AssignWatermark,
    Expand,
    Filter,
    MapBatches,
    PartialAggregate,
    Plan,
    Project,
    PythonEval,
    Scan,
    Sink,
    StaticJoin,
    Union,
)


def explain_query(plan: Sink, graph: JobGraph, config: QueryConfig, sink: str, *, extended: bool) -> str:
    lines: list[str] = []
    if extended:
        lines += ["== Plan ==", *_tree(plan, 0), ""]
    lines += [f"== Stages == (parallelism {graph.parallelism}, {graph.max_parallelism} key groups)"]
    for stage in graph.stages:
        inputs = "; ".join(_edge(edge, graph) for edge in graph.inputs_of(stage.id))
        lines.append(f"Stage {stage.id}" + (f"  ← {inputs}" if inputs else ""))
        lines += [f"  {_node(node)}" for node in stage.nodes]
    lines += ["", f"Sink: {sink}"]
    if extended:
        lines += ["", "== Settings =="]
        lines += [f"{name} = {value}" for name, value in msgspec.structs.asdict(config).items()]
    return "\n".join(lines)


def _tree(node: Plan, depth: int) -> list[str]:
    lines = ["   " * max(0, depth - 1) + ("+- " if depth else "") + _node(node)]
    for child in node.inputs:
        lines += _tree(child, depth + 1)
    return lines


def _edge(edge: Edge, graph: JobGraph) -> str:
    channels = graph.parallelism if edge.partitioning is Partitioning.FORWARD else graph.parallelism**2
    keys = f" by {', '.join(user_name(key) for key in edge.keys)}" if edge.keys else ""
    return f"stage {edge.source}, {edge.partitioning.value}{keys}, {channels} channel{'s' if channels > 1 else ''}"


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(user_name(column) for column in columns)


def _node(node: Plan) -> str:
    match node:
        case Scan(id=id, format=format, columns=columns, options=options):
            where = f" {options['path']}" if "path" in options else ""
            return f"Scan {id}: {format}{where} [{', '.join(columns)}]"
        case AssignWatermark(id=id, column=column, delay_us=delay_us):
            return f"Watermark {id}: {user_name(column)}, {delay_us / 1e6:g} s"
        case Filter(condition=condition):
            return f"Filter {sql_text(condition)}"
        case Project(columns=columns):
            return "Project " + ", ".join(f"{sql_text(one.expression)} AS {user_name(one.name)}" for one in columns)
        case Expand(projections=projections):
            return f"Expand into {len(projections)} rows"
        case PartialAggregate(aggregate=aggregate):
            return f"PartialAggregate for {aggregate.id} by [{_names(aggregate.keys)}]"
        case Aggregate(id=id, keys=keys, calls=calls, mode=mode):
            functions = ", ".join(call.sql or f"{call.function}({_names(call.args)})" for call in calls)
            return f"Aggregate {id}: by [{_names(keys)}], {functions}, {mode.value}"
        case Union(inputs=inputs):
            return f"Union of {len(inputs)}" if inputs else "Union"
        case PythonEval(udfs=udfs):
            return "PythonEval " + ", ".join(f"{udf.label} ({udf.kind.value})" for udf in udfs)
        case MapBatches(label=label, kind=kind):
            return f"MapBatches {label} ({kind.value})"
        case StaticJoin(kind=kind, stream_keys=keys):
            return f"StaticJoin {kind.value} on [{', '.join(sql_text(key) for key in keys)}]"
        case Sink(id=id, format=format, columns=columns, mode=mode):
            return f"Sink {id}: {format} [{', '.join(public for _, public in columns)}], {mode.value}"
