"""User functions in Python: scalar UDFs (also chained), ``mapInPandas`` and ``mapInArrow``."""

from __future__ import annotations

from pyspark.util import PythonEvalType

from tidegate.catalyst.context import Context, aligned, attributes, nullability
from tidegate.catalyst.java import Java, byte_string, items
from tidegate.catalyst.naming import Relation, Scope, fields_of
from tidegate.catalyst.tree import Node, read
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import Field
from tidegate.plan.expressions import Column, Expression
from tidegate.plan.relational import MapBatches, PythonEval, PythonUdf, UdfKind

_KINDS = {
    PythonEvalType.SQL_BATCHED_UDF: UdfKind.PYTHON,
    PythonEvalType.SQL_ARROW_BATCHED_UDF: UdfKind.PYTHON_ARROW,
    PythonEvalType.SQL_SCALAR_PANDAS_UDF: UdfKind.PANDAS,
    PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF: UdfKind.PANDAS_ITER,
    PythonEvalType.SQL_SCALAR_ARROW_UDF: UdfKind.ARROW,
    PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF: UdfKind.ARROW_ITER,
}


def python_eval(context: Context, plan: Java, child: Relation) -> Relation:
    """``BatchEvalPython`` / ``ArrowEvalPython``: the functions of a chain ``f(g(x))`` become operators one after the other."""
    functions = [read(function) for function in items(plan.udfs())]
    results = [read(result) for result in items(plan.resultAttrs())]
    named: dict[int, Column] = {}
    relation, udfs = child, []
    for function, result in zip(functions, results, strict=True):
        relation, udf = _udf(context, relation, function, str(result.fields["name"]))
        named[result.expr_id] = Column(udf.name, udf.type)
        udfs.append(udf)
    return _append(context, relation, udfs, named)


def map_batches(context: Context, plan: Java, child: Relation, inputs: list[Node], kind: UdfKind) -> Relation:
    """``mapInArrow`` / ``mapInPandas``; ``inputs`` are the attributes that the function sees, by position."""
    function = read(plan.functionExpr())
    if plan.isBarrier():
        raise InvalidQuery(
            f"{_name(kind)}({function.fields['name']}, barrier=True) is not supported",
            hint="leave barrier out: all slots of a query run together anyway",
        )
    source, seen = aligned(context, child, [child.scope[node.expr_id] for node in inputs])
    made = attributes(plan)
    columns = {node.expr_id: context.names.column(str(node.fields["name"]), node.type) for node in made}
    nullable = {column.name: bool(node.fields["nullable"]) for column, node in zip(columns.values(), made, strict=True)}
    known = nullability(source)
    node = MapBatches(
        kind=kind,
        label=str(function.fields["name"]),
        command=command_of(function),
        input_names=tuple(str(node.fields["name"]) for node in inputs),
        schema=fields_of(columns.values(), nullable),
        output_names=tuple(str(node.fields["name"]) for node in made),
        zone=context.zone,
        input_schema=tuple(Field(column.name, column.type, known[column.name]) for column in seen),
        inputs=(source,),
    )
    return Relation(node, Scope(columns))


def _udf(context: Context, relation: Relation, function: Node, result: str) -> tuple[Relation, PythonUdf]:
    label = str(function.fields["name"])
    kind = _KINDS.get(int(function.fields["evalType"]))
    if kind is None:
        raise InvalidQuery(
            f"the Python function {label!r} is of a kind that is not supported",
            hint="write it as udf, pandas_udf (Series or Iterator of Series) or arrow_udf",
        )
    if not function.fields["udfDeterministic"]:
        context.warn(
            f"the Python function {label!r} is marked non-deterministic: rows replayed after a failure may come out differently"
        )
    args: list[Expression] = []
    keywords: list[str | None] = []
    for child in function.children:
        keyword = None
        if child.kind == "NamedArgumentExpression":
            keyword, child = str(child.fields["key"]), child.children[0]
        if child.kind == "PythonUDF":
            relation, inner = _udf(context, relation, child, f"{label}_argument")
            relation = _append(context, relation, [inner], {})
            args.append(Column(inner.name, inner.type))
        else:
            args.append(context.expressions.from_node(child, relation.scope, f"the arguments of {label}()"))
        keywords.append(keyword)
    of = function.type
    udf = PythonUdf(
        name=context.names.column(result, of).name,
        label=label,
        command=command_of(function),
        kind=kind,
        args=tuple(args),
        type=of,
        keywords=tuple(keywords) if any(keywords) else (),
    )
    return relation, udf


def _append(context: Context, relation: Relation, udfs: list[PythonUdf], named: dict[int, Column]) -> Relation:
    schema = (*relation.plan.schema, *(Field(udf.name, udf.type) for udf in udfs))
    node = PythonEval(udfs=tuple(udfs), schema=schema, zone=context.zone, inputs=(relation.plan,))
    return Relation(node, relation.scope.plus(named))


def command_of(function: Node) -> bytes:
    """Spark's pickled ``(function, return type)``."""
    carried = function.java.func()
    if not carried.broadcastVars().isEmpty():
        raise InvalidQuery(
            f"the Python function {function.fields['name']!r} uses a broadcast variable, or is itself larger than 1 MB",
            hint="close over the plain value instead, or load it inside the function",
        )
    return byte_string(carried.command())


def _name(kind: UdfKind) -> str:
    return "mapInPandas" if kind is UdfKind.PANDAS else "mapInArrow"
