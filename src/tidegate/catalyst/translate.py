"""A streaming DataFrame → the plan of its query. The one entry point of this package."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from tidegate.catalyst.checks import check_determinism, check_operators, check_streaming_rules, require_stream
from tidegate.catalyst.clock import with_open_clock
from tidegate.catalyst.context import Context, attributes, output_of
from tidegate.catalyst.expressions import Expressions
from tidegate.catalyst.input_files import reads_input_files
from tidegate.catalyst.java import Java
from tidegate.catalyst.naming import Names
from tidegate.catalyst.optimising import optimise
from tidegate.catalyst.relations import relation
from tidegate.catalyst.together import together
from tidegate.connectors.registry import parse_sink
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Schema
from tidegate.operators.columns import arrow_schema
from tidegate.plan.relational import Plan, Sink
from tidegate.plan.watermarks import push_watermarks_down, settle_unasked
from tidegate.ports.spec import ConnectorRequest


@dataclass(frozen=True, slots=True)
class SinkRequest:
    """What the user asked of the sink, as it will stand in the plan."""

    format: str
    options: dict[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    payload: bytes = b""
    query: str = ""
    """Its name among the queries of a job."""

    def of(self, schema: Schema, mode: OutputMode, zone: str) -> ConnectorRequest:
        return ConnectorRequest(
            format=self.format,
            options=self.options,
            schema=schema,
            mode=mode,
            partition_by=self.partition_by,
            zone=zone,
            payload=self.payload,
        )


@dataclass(frozen=True, slots=True)
class Translation:
    plan: Sink
    """The same query gives an equal plan in every session."""
    warnings: tuple[str, ...]
    """What differs from Spark without being wrong; shown once, at the start."""
    text: str
    """Catalyst's own optimised plan, for ``explain``."""


def translate(df: DataFrame, *, mode: OutputMode, sink: SinkRequest) -> Translation:
    """Reads the query behind ``df``: DataFrame API, SQL text and views are all the same to Catalyst.

    Raises InvalidQuery for whatever cannot run, naming it, its place and the way out. Static sides are executed here.
    """
    found = read_query(df, mode=mode, sink=sink, names=Names())
    (component,) = together((found.plan,))
    (plan,) = component.plans
    return replace(found, plan=plan)


def read_query(df: DataFrame, *, mode: OutputMode, sink: SinkRequest, names: Names) -> Translation:
    """``translate`` for one of several queries: the plan is raw, for ``together``. ``names`` is the same for all of them."""
    df = require_stream(df)
    spark = df.sparkSession
    frame: Java = df._jdf
    analysed = frame.queryExecution().analyzed()
    check_determinism(spark, analysed)
    check_operators(analysed)
    check_streaming_rules(spark, analysed, mode)
    opened = with_open_clock(spark, analysed)
    optimised = optimise(spark, opened)
    context = Context(spark, mode, names, Expressions(spark))
    context.input_files = reads_input_files(analysed)
    context.clock = opened is not analysed
    top = relation(context, optimised)
    public = output_of(analysed)
    arrow_schema(public)  # Refuses what lives inside expressions only: intervals of months.
    # The optimiser keeps the positions of the output, not always the names.
    columns = [top.scope[node.expr_id].name for node in attributes(optimised)]
    shown = [one.name for one in public]
    _check_names(shown, sink)
    plan = Sink(
        id=context.names.operator("sink"),
        spec=parse_sink(sink.of(public, mode, context.zone)),
        columns=tuple(zip(columns, shown, strict=True)),
        query=sink.query,
        inputs=(top.plan,),
    )
    return Translation(
        _sink(push_watermarks_down(settle_unasked(plan))), tuple(context.warnings), str(optimised.toString())
    )


def _check_names(names: list[str], sink: SinkRequest) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidQuery(
            f"the result has more than one column named {', '.join(map(repr, twice))}",
            hint="rename one of them with alias()",
        )
    missing = [name for name in sink.partition_by if name not in names]
    if missing:
        raise InvalidQuery(
            f"partitionBy names {', '.join(map(repr, missing))}, which the result does not have",
            hint=f"its columns are {', '.join(names)}",
        )


def _sink(plan: Plan) -> Sink:
    assert isinstance(plan, Sink)
    return plan
