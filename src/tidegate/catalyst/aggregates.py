"""``Aggregate``: keys and inputs become plain columns below it, expressions over its results a projection above it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidegate.catalyst import functions
from tidegate.catalyst.aggregate_functions import signature
from tidegate.catalyst.checks import LABELS
from tidegate.catalyst.context import Context, nullability, output_of, project
from tidegate.catalyst.java import Java, class_name, items
from tidegate.catalyst.naming import Relation, Scope
from tidegate.catalyst.printing import sql_text
from tidegate.catalyst.sessions import with_sessions
from tidegate.catalyst.tree import Node, read
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import DataType, Field
from tidegate.plan.expressions import Column, Expression, Literal, Named, Scalar
from tidegate.plan.keyed import SessionAggregate
from tidegate.plan.relational import Aggregate, AggregateCall, EventTimeKey

_WHERE = LABELS["Aggregate"]
_WATERMARK = "spark.watermarkDelayMs"


def aggregate(context: Context, plan: Java, child: Relation) -> Relation:
    grouping = items(plan.groupingExpressions())
    work = _Grouping(context, child)
    for key in grouping:
        work.add_key(read(key))
    results = [read(expression) for expression in items(plan.aggregateExpressions())]
    shown = output_of(plan)
    made: dict[int, tuple[str, Expression]] = {}
    for node in results:
        name = str(node.fields["name"])
        made[node.expr_id] = (name, work.result(node, name))
    below = project(child.plan, work.inputs.values(), work.input_columns()) if work.computed else child.plan
    calls = tuple(work.calls)
    known = nullability(below)
    keys = tuple(work.keys.values())
    schema = (
        *(Field(key.name, key.type, known[key.name]) for key in keys),
        *(Field(call.name, call.type, call.function != "count") for call in calls),
    )
    node = Aggregate(
        id=context.names.operator("aggregate"),
        keys=tuple(key.name for key in keys),
        calls=calls,
        # In complete mode, as in Spark, nothing is closed and nothing is late.
        event_time=None if context.mode is OutputMode.COMPLETE else _event_time(grouping, list(work.key_order)),
        mode=context.mode,
        schema=schema,
        input_schema=below.schema,
        inputs=(below,),
    )
    node = with_sessions(node, grouping, list(work.key_order))
    if all(isinstance(expression, Column) for _, expression in made.values()):
        return Relation(
            node, Scope({expr_id: column for expr_id, (_, column) in made.items() if isinstance(column, Column)})
        )
    return _results_above(context, node, made, {one.name: one.nullable for one in shown})


@dataclass(slots=True)
class _Grouping:
    """Collects what the aggregation needs while its expressions are read."""

    context: Context
    child: Relation
    inputs: dict[str, Named] = field(default_factory=dict)
    keys: dict[str, Column] = field(default_factory=dict)
    key_order: list[Column] = field(default_factory=list)
    calls: list[AggregateCall] = field(default_factory=list)
    computed: bool = False
    _complex_keys: list[tuple[Expression, Column]] = field(default_factory=list)

    def add_key(self, node: Node) -> None:
        expression = self._convert(node)
        column = self._plain(expression, "_key")
        if not isinstance(expression, Column):
            self._complex_keys.append((expression, column))
        self.keys[column.name] = column
        self.key_order.append(column)

    def result(self, node: Node, name: str) -> Expression:
        """A column of the output: a key, a call, or an expression over them."""
        inner = node.children[0] if node.kind == "Alias" else node
        if inner.kind == "AggregateExpression":
            return self._call(inner, name)
        return self.context.expressions.from_node(inner, self.child.scope, _WHERE, self._above)

    def input_columns(self) -> list[Column]:
        return [Column(named.name, named.expression.type) for named in self.inputs.values()]

    def _above(self, node: Node) -> Expression | None:
        if node.kind == "AggregateExpression":
            return self._call(node, None)
        if self._complex_keys and node.kind not in ("Literal", "AttributeReference") and not _aggregates(node):
            expression = self._convert(node)
            return next((column for known, column in self._complex_keys if known == expression), None)
        return None

    def _call(self, node: Node, name: str | None) -> Column:
        call = self._read_call(node)
        for known in self.calls:
            if replace(call, name=known.name) == known:
                return Column(known.name, known.type)
        named = replace(call, name=self.context.names.column(name or call.function, call.type).name)
        self._require_supported(named)
        self.calls.append(named)
        return Column(named.name, named.type)

    def _read_call(self, node: Node) -> AggregateCall:
        function = node.children[0]
        if function.kind in ("PythonUDAF", "PythonUDF"):
            raise InvalidQuery(
                f"the Python aggregate function {function.fields['name']!r} is not supported (in {_WHERE})",
                hint="compute the parts per row in a pandas UDF and aggregate them with sum, min, max or avg",
            )
        read = signature(self.context.spark, function, self._constant)
        arguments = [self._convert(child) for child in read.columns]
        if read.name == "count":  # count(1) counts rows: a constant that is not null needs no column.
            arguments = [one for one in arguments if not (isinstance(one, Literal) and one.value is not None)]
        columns = tuple(self._plain(one, "_input") for one in arguments)
        condition = None
        if len(node.children) > 1:
            condition = self._plain(self._convert(node.children[1]), "_filter").name
        constants = (f"{param}" for param in read.params)
        shown = f"{read.name}({', '.join((*map(sql_text, arguments), *constants)) or '*'})"
        return AggregateCall(
            name="",
            function=f"try_{read.name}" if function.mode == "TRY" else read.name,
            args=tuple(column.name for column in columns),
            type=_result_type(function, read.name),
            input_types=tuple(column.type for column in columns),
            distinct=bool(node.fields["isDistinct"]),
            filter=condition,
            ansi=functions.ansi_of(function, self.context.expressions.ansi),
            sql=shown,
            ignore_nulls=bool(function.fields.get("ignoreNulls", False)),
            params=read.params,
            tables=read.tables,
        )

    def _constant(self, node: Node) -> Scalar:
        value = self._convert(node)
        if not isinstance(value, Literal):
            raise InvalidQuery(
                f"{sql_text(value)} (in {_WHERE}) must be a constant",
                hint="write the number itself, or pass it with F.lit()",
            )
        return value.value

    def _require_supported(self, call: AggregateCall) -> None:
        from tidegate.operators.accumulators import supported

        if (reason := supported(call)) is not None:
            raise InvalidQuery(
                f"the aggregate {call.sql} is not supported (in {_WHERE}): {reason}",
                hint="docs/reference/functions.md lists the aggregate functions; collect_list() keeps the values for a function of yours",
            )

    def _convert(self, node: Node) -> Expression:
        return self.context.expressions.from_node(node, self.child.scope, _WHERE)

    def _plain(self, expression: Expression, what: str) -> Column:
        """A column of the projection below; an expression gets one of its own, once."""
        if isinstance(expression, Column):
            self.inputs.setdefault(expression.name, Named(expression.name, expression))
            return expression
        for named in self.inputs.values():
            if named.expression == expression:
                return Column(named.name, expression.type)
        column = self.context.names.column(what, expression.type)
        self.inputs[column.name] = Named(column.name, expression)
        self.computed = True
        return column


def _result_type(function: Node, name: str) -> DataType:
    return t.LONG if name == "count" else function.facts.type


def _aggregates(node: Node) -> bool:
    return any(one.kind == "AggregateExpression" for one in node.walk())


def _results_above(
    context: Context,
    node: Aggregate | SessionAggregate,
    made: dict[int, tuple[str, Expression]],
    nullable: dict[str, bool],
) -> Relation:
    named: dict[str, Named] = {}
    scope: dict[int, Column] = {}
    known: dict[str, bool] = {}
    for expr_id, (name, expression) in made.items():
        if isinstance(expression, Column):
            column = expression
        else:
            column = context.names.column(name, expression.type)
            known[column.name] = nullable.get(name, True)
        named[column.name] = Named(column.name, expression)
        scope[expr_id] = column
    above = project(node, named.values(), scope.values(), known)
    return Relation(above, Scope(scope))


def _event_time(grouping: list[Java], keys: list[Column]) -> EventTimeKey | None:
    """The key whose attribute carries a watermark: a window closes at its end, a plain time at itself."""
    for expression, key in zip(grouping, keys, strict=True):
        if _notes(expression, _WATERMARK):
            return EventTimeKey(key.name, "end" if isinstance(key.type, t.Struct) else None)
    return None


def _notes(expression: Java, key: str) -> bool:
    """Whether the analyser left a note about event time on an attribute."""
    return class_name(expression) == "AttributeReference" and bool(expression.metadata().contains(key))
