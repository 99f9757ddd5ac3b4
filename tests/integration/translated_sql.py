"""SQL expressions run by Tidegate: translated from Spark's optimised plan, evaluated on ``FRAME``, errors found row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from pyspark.sql import DataFrame
from tests.integration.expression_rows import FRAME

from tidegate.catalyst.translate import SinkRequest, translate
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import DataType
from tidegate.operators.columns import polars_type
from tidegate.operators.expressions import compile_expression
from tidegate.plan.expressions import columns_of
from tidegate.plan.relational import Project, Scan


@dataclass(frozen=True)
class Answer:
    """``failed``: row → error class; ``values`` are arbitrary there."""

    type: DataType
    values: list[Any]
    failed: dict[int, str] = field(default_factory=dict)


def evaluate(stream: DataFrame, sqls: Sequence[str]) -> list[Answer]:
    """What Tidegate makes of each expression over the columns of ``FRAME``, which ``stream`` reads as well."""
    shown = [f"{sql} as v{n}" for n, sql in enumerate(sqls)]
    sink = translate(stream.selectExpr("id", *shown), mode=OutputMode.APPEND, sink=SinkRequest("noop")).plan
    projects: list[Project] = []
    node = sink.inputs[0]
    while isinstance(node, Project):
        projects.append(node)
        node = node.inputs[0]
    assert isinstance(node, Scan), node
    rows = FRAME.select(pl.col(one.name.rpartition("#")[0]).alias(one.name) for one in node.schema)
    failed: dict[str, dict[int, str]] = {}
    for project in reversed(projects):
        rows, failed = _projected(rows, project, failed)
    columns = [inner for inner, _ in sink.columns][1:]
    kinds = {one.name: one.type for project in projects for one in project.schema}
    return [Answer(kinds[name], plain_values(rows[name]), failed.get(name, {})) for name in columns]


def _projected(
    rows: pl.DataFrame, project: Project, before: dict[str, dict[int, str]]
) -> tuple[pl.DataFrame, dict[str, dict[int, str]]]:
    values: dict[str, pl.Series] = {}
    failed: dict[str, dict[int, str]] = {}
    for column in project.columns:
        compiled = compile_expression(column.expression)
        marks = {f"error{n}": guard.condition for n, guard in enumerate(compiled.guards)}
        frame = rows.with_columns(v=compiled.value, **marks)
        assert frame.schema["v"] == polars_type(column.expression.type), (column, frame.schema["v"])
        values[column.name] = frame["v"]
        errors: dict[int, str] = {}
        for name in columns_of(column.expression):
            errors |= before.get(name, {})
        for n, guard in reversed(list(enumerate(compiled.guards))):
            hit = frame[f"error{n}"].fill_null(value=False)
            errors |= dict.fromkeys(hit.arg_true().to_list(), guard.error)
        failed[column.name] = errors
    return pl.DataFrame(values), failed


def plain_values(of: pl.Series) -> list[Any]:
    """Temporal values as integers: Python's own end with the year 9999."""
    return (of.to_physical() if of.dtype.is_temporal() else of).to_list()


def same(a: Any, b: Any, *, inexact: bool = False) -> bool:
    """Equal with NaN equal to itself, in arrays and structs too."""
    match a, b:
        case float(), float():
            # Transcendental functions may differ in the last bits between libraries, nothing else may.
            close = inexact and math.isclose(a, b, rel_tol=1e-14)
            return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b)) or close
        case list(), list():
            return len(a) == len(b) and all(same(x, y, inexact=inexact) for x, y in zip(a, b, strict=True))
        case dict(), dict():
            return a.keys() == b.keys() and all(same(a[key], b[key], inexact=inexact) for key in a)
        case _:
            return a == b
