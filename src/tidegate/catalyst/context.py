"""What the conversion of one query shares between its parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from tidegate.catalyst.expressions import Expressions
from tidegate.catalyst.java import Java, items
from tidegate.catalyst.naming import Names, Relation, fields_of
from tidegate.catalyst.tree import Node, read
from tidegate.catalyst.types import schema_of
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Schema
from tidegate.plan.expressions import Column, Named
from tidegate.plan.relational import Plan, Project


@dataclass(slots=True)
class Context:
    spark: SparkSession
    mode: OutputMode
    names: Names
    expressions: Expressions
    clock: bool = False
    """The query asks for the time of day."""
    input_files: bool = False
    """The query asks for the names of the files it reads."""
    warnings: list[str] = field(default_factory=list)

    @property
    def zone(self) -> str:
        return self.expressions.zone

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def output_of(plan: Java) -> Schema:
    """Names, types and nullability of an operator's output, by position; refuses types that no column may have."""
    return schema_of(plan.schema().json())


def attributes(plan: Java) -> list[Node]:
    """The output of an operator as attributes, by position."""
    return [read(attribute) for attribute in items(plan.output())]


def nullability(plan: Plan) -> dict[str, bool]:
    return {one.name: one.nullable for one in plan.schema}


def aligned(context: Context, relation: Relation, wanted: Sequence[Column]) -> tuple[Plan, tuple[Column, ...]]:
    """The relation with exactly the ``wanted`` columns in that order; one wanted twice appears twice, under a new name."""
    if [one.name for one in relation.plan.schema] == [column.name for column in wanted]:
        return relation.plan, tuple(wanted)
    taken: dict[str, Named] = {}
    result: list[Column] = []
    for column in wanted:
        again = column.name in taken
        target = context.names.column(column.name.rpartition("#")[0], column.type) if again else column
        taken[target.name] = Named(target.name, column)
        result.append(target)
    return project(relation.plan, tuple(taken.values()), result), tuple(result)


def project(
    plan: Plan, columns: Iterable[Named], output: Iterable[Column], nullable: dict[str, bool] | None = None
) -> Project:
    known = {**nullability(plan), **(nullable or {})}
    return Project(columns=tuple(columns), schema=fields_of(output, known), inputs=(plan,))
