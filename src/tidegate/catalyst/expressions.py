"""Catalyst expressions → plan expressions. Types are Spark's own, nothing is inferred a second time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession

from tidegate.catalyst import clock, functions, input_files
from tidegate.catalyst.java import Java, session_zone
from tidegate.catalyst.literals import calendar_parts, frozen, literal, members
from tidegate.catalyst.naming import CLOCK, INPUT_FILE, Scope
from tidegate.catalyst.printing import sql_text
from tidegate.catalyst.tree import Node, read
from tidegate.model import types as t
from tidegate.model.errors import Bug, InvalidQuery
from tidegate.plan.expressions import Call, Case, Cast, Column, Expression, FieldOf, Lambda, Literal, MakeStruct

Override = Callable[[Node], Expression | None]
"""Says what a node is above an aggregation, where ``sum(x)`` is a column; None: convert it as usual."""

_WAY_OUT = "write that part as a pandas UDF (F.pandas_udf) or in mapInArrow: both run inside the stream"


@dataclass(slots=True)
class Expressions:
    """Converts the expressions of one query."""

    spark: SparkSession
    zone: str = ""
    ansi: bool = True
    _folded: dict[int, Literal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.zone = session_zone(self.spark.conf)
        self.ansi = str(self.spark.conf.get("spark.sql.ansi.enabled")).lower() == "true"

    def convert(self, expression: Java, scope: Scope, where: str) -> Expression:
        """``where`` names the operator for messages: ``WHERE``."""
        return self.from_node(read(expression), scope, where)

    def from_node(self, node: Node, scope: Scope, where: str, override: Override | None = None) -> Expression:
        return _Conversion(self, scope, where, override).of(node)

    def run(self, plan: Java) -> DataFrame:
        """A part of the query without a stream in it, as a DataFrame that Spark executes."""
        jvm: Any = self.spark._jvm
        return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(self.spark._jsparkSession, plan), self.spark)

    def scalar(self, node: Node) -> Literal:
        """The one value of a subquery over static data: computed by Spark, once, before the stream starts."""
        key = node.expr_id
        if key not in self._folded:
            plan = node.java.plan()
            if plan.isStreaming():
                raise InvalidQuery(
                    "a scalar subquery over a stream has no single value",
                    hint="aggregate the stream in a query of its own, or join with the aggregated DataFrame",
                )
            if not node.java.children().isEmpty():
                raise InvalidQuery(
                    "a correlated scalar subquery is not supported",
                    hint="write it as a left join with the static DataFrame",
                )
            rows = self.run(plan).toArrow()
            if rows.num_rows > 1:
                raise InvalidQuery(
                    f"a scalar subquery gave {rows.num_rows} rows", hint="make it give one: add LIMIT 1 or max()"
                )
            value = frozen(rows.column(0)[0].as_py()) if rows.num_rows else None
            self._folded[key] = Literal(value, node.facts.type)
        return self._folded[key]

    def constant(self, expression: Java) -> Any:
        """The value of an expression without columns. Its SQL text would not do: folded arrays have none."""
        jvm: Any = self.spark._jvm
        column = SparkColumn(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))
        return self.spark.range(1).select(column.alias("value")).toArrow().column(0)[0].as_py()


@dataclass(frozen=True, slots=True)
class _Conversion:
    """One expression at one operator."""

    owner: Expressions
    scope: Scope
    where: str
    override: Override | None
    bound: dict[int, Column] = field(default_factory=dict)
    """Parameters of the lambdas around the expression."""
    depth: int = 0

    def of(self, node: Node) -> Expression:
        if self.override is not None and (known := self.override(node)) is not None:
            return known
        match node.kind:
            case "AttributeReference":
                return self.scope[node.expr_id]
            case "Literal":
                return literal(node, self.owner.constant)
            case kind if kind in functions.TRANSPARENT:
                return self.of(node.children[0])
            case "Cast":
                return self._cast(node)
            case "If":
                condition, then, otherwise = (self.of(child) for child in node.children)
                return Case(((condition, then),), otherwise, node.facts.type)
            case "CaseWhen":
                return self._case(node)
            case "GetStructField":
                return self._field(node)
            case "GetArrayStructFields":
                return self._field_of_elements(node)
            case "CreateNamedStruct":
                return self._struct(node)
            case "ScalarSubquery":
                return self.owner.scalar(node)
            case clock.STAMP:
                if CLOCK not in self.scope.columns:
                    raise self._refused(
                        "the time of day", "compute it with select() or withColumn() in a step before this one"
                    )
                return clock.of_clock(
                    self.scope[CLOCK], node.type, str(node.fields.get("timeZoneId") or self.owner.zone)
                )
            case kind if kind in input_files.FUNCTIONS:
                if INPUT_FILE not in self.scope.columns:
                    raise self._refused(
                        f"function {node.facts.name!r} of rows that do not come straight from files",
                        "select it, or _metadata.file_path, right behind readStream, before joins, unions and aggregations",
                    )
                return input_files.of_input_file(kind, self.scope[INPUT_FILE])
            case "InSet":
                value = self.of(node.children[0])
                return self._checked(
                    Call("in", (value, *members(node, value.type)), t.BOOLEAN, self.owner.ansi, self.owner.zone)
                )
            case "PythonUDF":
                raise self._refused(
                    f"the Python function {node.fields['name']!r}", "compute it with select() in a step before this one"
                )
            case "AggregateExpression":
                raise self._refused("an aggregate function", "aggregate with groupBy().agg()")
            case "OuterReference" | "Exists" | "ListQuery" | "InSubquery" | "DynamicPruningSubquery":
                raise self._refused("a correlated or IN subquery", "write it as a join with the static DataFrame")
            case "LambdaFunction":
                return self._lambda(node)
            case "NamedLambdaVariable":
                return self.bound[node.expr_id]
            case "ScalaUDF":
                raise self._refused("a function written in Scala or Java", "write it as a Python or pandas UDF")
            case _:
                return self._call(node)

    def _call(self, node: Node) -> Expression:
        if node.kind == "ElementAt" and node.children[0].kind == "StringSplitSQL":
            pieces, part = node.children  # How Spark spells split_part.
            args = tuple(self.of(child) for child in (*pieces.children, part))
            return self._checked(Call("split_part", args, node.facts.type, self.owner.ansi, self.owner.zone))
        if node.kind in ("TimestampAddInterval", "TimeAdd") and (parts := calendar_parts(node.children[1])) is not None:
            moved = self.of(node.children[0])
            return self._checked(
                Call("timestampaddcalendarinterval", (moved, *parts), moved.type, self.owner.ansi, self.owner.zone)
            )
        if (unread := functions.unread_argument(node)) is not None:
            raise self._refused(f"function {functions.function_name(node)!r} with {unread}", _WAY_OUT)
        plain = tuple(self.of(child) for child in functions.arguments_of(node))
        args = functions.all_arguments(node, plain)
        return self._checked(
            Call(
                function=functions.function_name(node),
                args=args,
                type=functions.result_type(node, args),
                ansi=functions.ansi_of(node, self.owner.ansi),
                zone=str(node.fields.get("timeZoneId") or self.owner.zone),
            )
        )

    def _lambda(self, node: Node) -> Lambda:
        """Parameters are named by how deep the lambda stands: the same query gives the same names in every session."""
        body, *parameters = node.children
        mine = {
            one.expr_id: Column(f"{one.fields['name']}@{self.depth}.{index}", one.type)
            for index, one in enumerate(parameters)
        }
        inner = replace(self, bound={**self.bound, **mine}, depth=self.depth + 1)
        return Lambda(tuple(mine.values()), inner.of(body))

    def _checked(self, call: Call) -> Call:
        from tidegate.operators.expressions import supported

        call = replace(call, sql=sql_text(call))
        if (reason := supported(call)) is not None:
            unknown = f"the function {call.function} is not supported"
            what = f"function {call.function!r} is not supported" if reason == unknown else reason
            raise InvalidQuery(f"{what}: {call.sql} (in {self.where})", hint=_WAY_OUT)
        return call

    def _cast(self, node: Node) -> Expression:
        of = node.type
        if of == t.STRING and "collate" in str(node.java.dataType().catalogString()).lower():
            raise self._refused("a cast to a string with a collation", "compare lower(column) instead")
        child = self.of(node.children[0])
        zone = str(node.fields.get("timeZoneId") or self.owner.zone)
        if node.fields["dataType"] == "interval" and child.type == t.STRING:
            return self._checked(Call("calendar_interval", (child,), of, self.owner.ansi, zone))
        cast = Cast(child, of, functions.ansi_of(node, self.owner.ansi), zone)
        return replace(cast, sql=sql_text(cast))

    def _case(self, node: Node) -> Expression:
        parts = [self.of(child) for child in node.children]
        branches = tuple((parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2))
        return Case(branches, parts[-1] if len(parts) % 2 else None, node.facts.type)

    def _field(self, node: Node) -> Expression:
        child = self.of(node.children[0])
        if not isinstance(child.type, t.Struct):
            raise Bug(f"a field is read from {sql_text(child)}, which is no struct")
        chosen = child.type.fields[int(node.fields["ordinal"])]
        return FieldOf(child, chosen.name, chosen.type)

    def _field_of_elements(self, node: Node) -> Expression:
        child = self.of(node.children[0])
        if not isinstance(child.type, t.Array) or not isinstance(child.type.element, t.Struct):
            raise Bug(f"a field of elements is read from {sql_text(child)}, which is no array of structs")
        name = child.type.element.fields[int(node.fields["ordinal"])].name
        args = (child, Literal(name, t.STRING))
        return self._checked(Call("getarraystructfields", args, node.facts.type, self.owner.ansi, self.owner.zone))

    def _struct(self, node: Node) -> Expression:
        of = node.facts.type
        if not isinstance(of, t.Struct):
            raise Bug(f"named_struct has the type {t.simple_string(of)}")
        values = (self.of(child) for child in node.children[1::2])
        return MakeStruct(tuple((name.name, value) for name, value in zip(of.fields, values, strict=True)), of)

    def _refused(self, what: str, hint: str) -> InvalidQuery:
        return InvalidQuery(f"{what} is not supported (in {self.where})", hint=hint)
