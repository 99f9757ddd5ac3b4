"""Steps of a query that call the user's Python functions, which may refuse rows for good: those become dead letters."""

from __future__ import annotations

import polars as pl

from tidegate.model.types import LONG, Field
from tidegate.plan.expressions import Column, Expression, Named
from tidegate.plan.relational import MapBatches, Project, PythonEval, PythonUdf, UdfKind
from tidegate.testing.simulation.relations import COLUMNS, Names, Relation
from tidegate.testing.simulation.user_code import (
    ADDED,
    ARROW_CALL,
    PANDAS_CALL,
    PICKY_ARROW_CALL,
    PICKY_BATCHES,
    PICKY_PANDAS_CALL,
    PICKY_PYTHON_CALL,
    PYTHON_CALL,
    REFUSED_OF,
    REFUSED_REST,
)

_KINDS = (
    (UdfKind.PYTHON, PYTHON_CALL, PICKY_PYTHON_CALL),
    (UdfKind.PANDAS, PANDAS_CALL, PICKY_PANDAS_CALL),
    (UdfKind.ARROW, ARROW_CALL, PICKY_ARROW_CALL),
)
_BAD = pl.col("id") % REFUSED_OF == REFUSED_REST


def called(names: Names, of: Relation, number: int, *, picky: bool) -> Relation:
    """A scalar function of every row: in Python row by row, or with whole columns. ``picky``: it raises for some rows."""
    kind, lenient, strict = _KINDS[number % len(_KINDS)]
    label, result = names.fresh("called-"), names.fresh("result#u")
    udf = PythonUdf(result, label, strict if picky else lenient, kind, (of.column("id"), of.column("value")), LONG)
    evaluated = PythonEval(udfs=(udf,), schema=(*of.plan.schema, Field(result, LONG)), inputs=(of.plan,))
    schema = names.columns()
    values: tuple[Expression, ...] = (of.column("id"), of.column("key"), Column(result, LONG), of.column("ts"))
    columns = tuple(Named(field.name, value) for field, value in zip(schema, values, strict=True))
    kept, refused = _sorted_out(of, label, picky=picky)
    return Relation(
        Project(columns=columns, schema=schema, inputs=(evaluated,)),
        kept.with_columns(value=pl.col("value") + ADDED),
        refused,
    )


def sifted(names: Names, of: Relation) -> Relation:
    """``mapInArrow`` with a function that raises for a whole batch when it finds a row it does not like."""
    label = names.fresh("sifted-")
    plan = MapBatches(
        kind=UdfKind.ARROW,
        label=label,
        command=PICKY_BATCHES,
        input_names=COLUMNS,
        schema=names.columns(),
        output_names=COLUMNS,
        input_schema=of.plan.schema,
        inputs=(of.plan,),
    )
    return Relation(plan, *_sorted_out(of, label, picky=True))


def _sorted_out(of: Relation, label: str, *, picky: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that go on, and all that were refused up to here."""
    if not picky:
        return of.rows, of.refused
    letters = of.rows.filter(_BAD).select(pl.lit(label).alias("function"), "id")
    return of.rows.filter(~_BAD), pl.concat([of.refused, letters])
