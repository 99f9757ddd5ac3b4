"""A streaming DataFrame → the plan of its query. The one entry point of this package."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.catalyst.checks import check_determinism, check_operators, check_streaming_rules, require_stream
from tidegate.catalyst.context import Context, attributes, output_of
from tidegate.catalyst.expressions import Expressions
from tidegate.catalyst.java import Java, one_line
from tidegate.catalyst.naming import Names
from tidegate.catalyst.pruning import prune
from tidegate.catalyst.relations import relation
from tidegate.model.errors import InvalidQuery
from tidegate.plan.identity import identify
from tidegate.plan.relational import OutputMode, Plan, Sink
from tidegate.plan.watermarks import push_watermarks_down


@dataclass(frozen=True, slots=True)
class SinkRequest:
    """What the user asked of the sink, as it will stand in the plan."""

    format: str
    options: dict[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    payload: bytes = b""


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
    df = require_stream(df)
    spark = df.sparkSession
    frame: Java = df._jdf
    analysed = frame.queryExecution().analyzed()
    check_determinism(spark, analysed)
    aggregations = check_operators(analysed)
    check_streaming_rules(spark, analysed, mode)
    optimised = _optimise(spark, analysed)
    context = Context(spark, mode, Names(), Expressions(spark))
    top = relation(context, optimised)
    if context.names.count("aggregate") > aggregations:
        # The optimiser rewrote one aggregation as several; their event time would be lost between them.
        raise InvalidQuery(
            "DISTINCT over different columns, or DISTINCT with FILTER, in one aggregation is not supported",
            hint="use size(collect_set(column)) for all but one of them, or a query for each",
        )
    public = output_of(analysed)
    # The optimiser keeps the positions of the output, not always the names.
    columns = [top.scope[node.expr_id].name for node in attributes(optimised)]
    names = [one.name for one in public]
    _check_names(names, sink)
    plan = Sink(
        id=context.names.operator("sink"),
        format=sink.format,
        options=sink.options,
        columns=tuple(zip(columns, names, strict=True)),
        schema=public,
        mode=mode,
        partition_by=sink.partition_by,
        payload=sink.payload,
        inputs=(top.plan,),
    )
    named = identify(_sink(push_watermarks_down(prune(plan))))
    return Translation(named, tuple(context.warnings), str(optimised.toString()))


def _optimise(spark: SparkSession, analysed: Java) -> Java:
    session: Java = spark._jsparkSession
    try:
        return session.sessionState().optimizer().execute(analysed)
    except PySparkException as error:
        raise InvalidQuery(
            f"Spark could not optimise the query: {one_line(error)}",
            hint="the same query fails with Spark's own writeStream",
        ) from error


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
