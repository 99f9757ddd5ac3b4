"""Stateful Python: ``transformWithState``, ``transformWithStateInPandas``, ``applyInPandasWithState``."""

from __future__ import annotations

from dataclasses import replace

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from tidegate.catalyst.context import Context, aligned, attributes, nullability, output_of
from tidegate.catalyst.java import Java, class_name, items, one_line
from tidegate.catalyst.naming import Relation, Scope, fields_of
from tidegate.catalyst.python_functions import command_of
from tidegate.catalyst.static_rows import collected
from tidegate.catalyst.tree import Node, read
from tidegate.catalyst.types import schema_of
from tidegate.connectors.pyspark_state.declaring import declared_schemas
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field, Schema
from tidegate.plan.expressions import Column
from tidegate.plan.keyed import StatefulKind, StatefulProcess, TimeMode
from tidegate.plan.relational import AssignWatermark, Plan

_WATERMARK = "spark.watermarkDelayMs"
_TIME_MODES = {
    "NoTime": TimeMode.NONE,
    "ProcessingTime": TimeMode.PROCESSING,
    "EventTime": TimeMode.EVENT,
    "NoTimeout": TimeMode.NONE,
    "ProcessingTimeTimeout": TimeMode.PROCESSING,
    "EventTimeTimeout": TimeMode.EVENT,
}


def transform_with_state(context: Context, plan: Java, child: Relation) -> Relation:
    """``TransformWithStateInPySpark``: the left child begins with the grouping columns, the right one is the initial state."""
    below = attributes(plan.left())
    keys = below[: int(plan.groupingAttributesLen())]
    kind = StatefulKind.TRANSFORM_PANDAS if str(plan.userFacingDataType()) == "pandas" else StatefulKind.TRANSFORM_ROW
    function = read(plan.functionExpr())
    wrapper, *_ = cloudpickle.loads(command_of(function))
    label = type(wrapper.__self__._stateful_processor).__name__  # The user's class, not PySpark's wrapper.
    node, scope = _process(context, plan, child, kind, function, label, keys, below, str(plan.timeMode().toString()))
    schemas = declared_schemas(wrapper, lambda schema: _read_schema(context, schema), node.time_mode)
    node = replace(node, state_schemas=schemas)
    if plan.hasInitialState():
        table, schema, names = _initial(context, plan, [field.type for field in node.key_schema])
        node = replace(node, initial=table, initial_schema=schema, initial_names=names)
    return Relation(node, scope)


def apply_with_state(context: Context, plan: Java, child: Relation) -> Relation:
    """``FlatMapGroupsInPandasWithState``."""
    keys = [read(attribute) for attribute in items(plan.groupingAttributes())]
    below = attributes(plan.child())
    function = read(plan.functionExpr())
    label, timeout = str(function.fields["name"]), class_name(plan.timeout()).rstrip("$")
    node, scope = _process(context, plan, child, StatefulKind.APPLY_PANDAS, function, label, keys, below, timeout)
    return Relation(replace(node, state_schema=schema_of(plan.stateType().json())), scope)


def _process(
    context: Context,
    plan: Java,
    child: Relation,
    kind: StatefulKind,
    function: Node,
    label: str,
    keys: list[Node],
    below: list[Node],
    time_mode: str,
) -> tuple[StatefulProcess, Scope]:
    arguments = [child.scope[node.expr_id] for node in function.children]
    key_columns = [child.scope[node.expr_id] for node in keys]
    seen = {column.name for column in arguments}
    extra = [column for column in dict.fromkeys(key_columns) if column.name not in seen]
    source, columns = aligned(context, child, [*extra, *arguments])
    timed = [node for node in below if node.java.metadata().contains(_WATERMARK)]
    made = attributes(plan)
    output = {node.expr_id: context.names.column(str(node.fields["name"]), node.type) for node in made}
    nullable = {column.name: bool(node.fields["nullable"]) for column, node in zip(output.values(), made, strict=True)}
    known = nullability(source)
    mode = _TIME_MODES[time_mode]
    event_time = child.scope[timed[0].expr_id] if timed else None
    if mode is TimeMode.EVENT and (event_time is None or event_time.name not in {column.name for column in columns}):
        raise InvalidQuery(
            f"{kind.value} in event time needs a watermark on one of the input columns",
            hint="call withWatermark() on a time column before groupBy()",
        )
    node = StatefulProcess(
        id=context.names.operator("process"),
        kind=kind,
        label=label,
        command=command_of(function),
        keys=tuple(column.name for column in key_columns),
        time_mode=mode,
        event_time=event_time.name if event_time is not None and mode is TimeMode.EVENT else None,
        mode=OutputMode(str(plan.outputMode().toString()).lower()),
        input_names=tuple(str(node.fields["name"]) for node in function.children),
        output_names=tuple(str(node.fields["name"]) for node in made),
        schema=fields_of(output.values(), nullable),
        input_schema=tuple(Field(column.name, column.type, known.get(column.name, True)) for column in columns),
        has_watermark=_has_watermark(source),
        zone=context.zone,
        inputs=(source,),
    )
    return node, Scope(output)


def _has_watermark(plan: Plan) -> bool:
    return isinstance(plan, AssignWatermark) or any(_has_watermark(one) for one in plan.inputs)


def _read_schema(context: Context, schema: StructType | str) -> Schema:
    if isinstance(schema, str):
        jvm: Java = context.spark._jvm
        try:
            parsed = jvm.org.apache.spark.sql.types.StructType.fromDDL(schema)
        except PySparkException as error:
            raise InvalidQuery(
                f"the schema {schema!r} of a state variable cannot be read: {one_line(error)}",
                hint="write it as columns: 'count INT, name STRING', or pass a StructType",
            ) from error
        return schema_of(parsed.json())
    return schema_of(schema.json())


def _initial(context: Context, plan: Java, key_types: list[object]) -> tuple[bytes, Schema, tuple[str, ...]]:
    """Computed by Spark once, before the query starts: Arrow rows, their columns (keys first), names of the others."""
    static = plan.right()
    length = int(plan.initGroupingAttrsLen())
    shown = output_of(static)
    columns = [Column(f"initial#{index}", field.type) for index, field in enumerate(shown)]
    if [column.type for column in columns[:length]] != key_types:
        raise InvalidQuery(
            "the initial state is grouped by columns of other types than the stream",
            hint="group both by the same columns; cast those of the initial state",
        )
    names = [column.name for column in columns]
    table, _ = collected(context, static, names, "the initial state", "the DataFrame of the initial state")
    schema = tuple(Field(column.name, column.type) for column in columns)
    return table, schema, tuple(field.name for field in shown[length:])
