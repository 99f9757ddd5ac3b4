"""``Generate``: ``explode`` and its relatives, ``stack`` and ``json_tuple``, in SELECT or as LATERAL VIEW."""

from __future__ import annotations

from dataclasses import replace

from tidegate.catalyst.checks import LABELS
from tidegate.catalyst.context import Context, project
from tidegate.catalyst.java import Java, items
from tidegate.catalyst.naming import Relation
from tidegate.catalyst.printing import sql_text
from tidegate.catalyst.tree import Node, read
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Field, Schema
from tidegate.plan.expressions import Call, Cast, Column, Expression, Literal, Named
from tidegate.plan.relational import Expand, Generate, Project

_WHERE = LABELS["Generate"]
_EXPLODING = {"Explode": "explode", "PosExplode": "posexplode", "Inline": "inline"}


def generate(context: Context, plan: Java, child: Relation) -> Relation:
    """Columns of the child that are not needed above are left to pruning: it knows better than the optimiser's list of them."""
    generator = read(plan.generator())
    made = {}
    fields: list[Field] = []
    for attribute in items(plan.generatorOutput()):
        node = read(attribute)
        column = context.names.column(str(node.fields["name"]), node.type)
        made[node.expr_id] = column
        fields.append(Field(column.name, column.type, bool(node.fields["nullable"])))
    generated: Schema = tuple(fields)
    scope = child.scope.plus(made)
    match generator.kind:
        case kind if kind in _EXPLODING:
            value = context.expressions.from_node(generator.children[0], child.scope, _WHERE)
            node = Generate(
                function=_EXPLODING[kind],
                args=(value,),
                outer=bool(plan.outer()),
                generated=generated,
                schema=(*child.plan.schema, *generated),
                inputs=(child.plan,),
            )
            return Relation(node, scope)
        case "Stack":
            return Relation(_stack(context, generator, child, generated), scope)
        case "JsonTuple":
            return Relation(_json_tuple(context, generator, child, generated), scope)
        case kind:
            raise InvalidQuery(
                f"the generator {generator.facts.name or kind} is not supported (in {_WHERE})",
                hint="yield the rows from mapInArrow or mapInPandas",
            )


def _stack(context: Context, generator: Node, child: Relation, generated: Schema) -> Expand:
    """``stack(n, …)``: n projections of the same row; what is missing of the last one is null."""
    count, *values = (context.expressions.from_node(one, child.scope, _WHERE) for one in generator.children)
    assert isinstance(count, Literal) and isinstance(count.value, int)
    width = len(generated)
    kept = tuple(Column(one.name, one.type) for one in child.plan.schema)
    projections: list[tuple[Expression, ...]] = []
    for number in range(count.value):
        row = values[number * width : (number + 1) * width]
        filled = [*row, *(Literal(None, t.NULL) for _ in range(width - len(row)))]
        projections.append((*kept, *(_as(value, field) for value, field in zip(filled, generated, strict=True))))
    schema = (*child.plan.schema, *generated)
    return Expand(projections=tuple(projections), schema=schema, inputs=(child.plan,))


def _as(value: Expression, field: Field) -> Expression:
    if isinstance(value, Literal) and value.value is None:
        return Literal(None, field.type)
    return value if value.type == field.type else Cast(value, field.type)


def _json_tuple(context: Context, generator: Node, child: Relation, generated: Schema) -> Project:
    """``json_tuple(text, 'a', 'b')``: always one row, so a projection."""
    from tidegate.operators.expressions import supported

    text, *names = (context.expressions.from_node(one, child.scope, _WHERE) for one in generator.children)
    columns = [Named(one.name, Column(one.name, one.type)) for one in child.plan.schema]
    for field, name in zip(generated, names, strict=True):
        if not isinstance(name, Literal) or not isinstance(name.value, str) or "'" in name.value:
            raise InvalidQuery(
                f"json_tuple() with a computed field name, or a quote in it, is not supported (in {_WHERE})",
                hint="write the names of the fields as plain constants",
            )
        value = Call("get_json_object", (text, Literal(f"$['{name.value}']", t.STRING)), t.STRING)
        value = replace(value, sql=sql_text(value))
        if (reason := supported(value)) is not None:
            raise InvalidQuery(
                f"json_tuple() is not supported (in {_WHERE}): {reason}", hint="use from_json() with a schema"
            )
        columns.append(Named(field.name, value))
    output = [Column(one.name, one.type) for one in (*child.plan.schema, *generated)]
    return project(child.plan, columns, output)
