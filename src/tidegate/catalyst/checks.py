"""What is refused before anything is converted, and the words for it: what is wrong, where, and the way out."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.catalyst import input_files
from tidegate.catalyst.java import Java, catalyst, class_name, items, one_line
from tidegate.catalyst.tree import read
from tidegate.model.errors import InvalidQuery
from tidegate.model.output_mode import OutputMode

_CLOCK = "use current_timestamp(), which is the time at which the row comes by, and cast it"
_CHANCE = "derive the value from the row, e.g. xxhash64(id); replayed rows must come out the same after a failure"
_PLACE = "rows have no fixed partition here; derive the value from the row, e.g. xxhash64(id)"

TIME_AND_CHANCE = {
    "CurrentTime": ("current_time()", _CLOCK),
    "Rand": ("rand()", _CHANCE),
    "Randn": ("randn()", _CHANCE),
    "RandStr": ("randstr()", _CHANCE),
    "Uniform": ("uniform()", _CHANCE),
    "Uuid": ("uuid()", _CHANCE),
    "Shuffle": ("shuffle()", _CHANCE),
    "MonotonicallyIncreasingID": ("monotonically_increasing_id()", _PLACE),
    "SparkPartitionID": ("spark_partition_id()", _PLACE),
}

LABELS = {
    "Project": "SELECT",
    "Filter": "WHERE",
    "Aggregate": "GROUP BY",
    "Join": "JOIN … ON",
    "Expand": "the branches of a window or of GROUPING SETS",
    "EventTimeWatermark": "withWatermark",
    "Generate": "LATERAL VIEW / explode",
    "Sort": "ORDER BY",
}
"""Operators by the words a query uses."""

_STATEFUL = "keep the state with groupBy().agg(), or run this part with Spark's own writeStream"
_REFUSED = {
    "Offset": ("offset() on a stream", "filter rows by a condition"),
    "Tail": ("tail() on a stream", "filter rows by a condition"),
    "Window": ("a window function over rows (row_number, lag …)", "use time windows: groupBy(F.window(…)).agg(F.max_by(…))"),
    "Sample": ("sample()", "filter by a hash of a column: where(pmod(xxhash64(id), 100) < 5)"),
    "FlatMapGroupsWithState": ("flatMapGroupsWithState / mapGroupsWithState", _STATEFUL),
    "TransformWithState": ("transformWithState()", _STATEFUL),
    "FlatMapGroupsInPandas": ("groupBy().applyInPandas()", "aggregate with groupBy().agg(), or work on rows with mapInPandas"),
    "FlatMapGroupsInArrow": ("groupBy().applyInArrow()", "aggregate with groupBy().agg(), or work on rows with mapInArrow"),
    "FlatMapCoGroupsInPandas": ("cogroup()", "union both streams and aggregate by the key"),
    "FlatMapCoGroupsInArrow": ("cogroup()", "union both streams and aggregate by the key"),
    "Intersect": ("INTERSECT of streams", "use a left semi join with a static DataFrame"),
    "Except": ("EXCEPT of streams", "use a left anti join with a static DataFrame"),
    "CollectMetrics": ("observe()", "read the query's lastProgress, or aggregate in a query of its own"),
    "ScriptTransformation": ("TRANSFORM … USING a script", "call the program from mapInArrow"),
    "MapElements": ("typed operations on a Dataset", "use columns, or mapInArrow"),
    "MapPartitions": ("typed operations on a Dataset", "use columns, or mapInArrow"),
    "AttachDistributedSequence": ("pandas API on Spark over a stream", "use the DataFrame API"),
    "PythonDataSource": ("this use of a Python data source", "read it with spark.readStream"),
}  # fmt: skip


_DISTINCT = "Distinct aggregations are not supported"
_UNWATERMARKED = "streaming aggregations without watermark"


def refused_operator(kind: str) -> InvalidQuery:
    what, hint = _REFUSED.get(
        kind, (f"the operator {kind}", "write that step with mapInArrow, or leave it to a query before this one")
    )
    return InvalidQuery(f"{what} is not supported yet", hint=hint)


def require_stream(df: object) -> DataFrame:
    """The DataFrame, if it is one that can be read here: classic PySpark, and a stream."""
    kind = type(df)
    if kind.__module__.startswith("pyspark.sql.connect"):
        raise InvalidQuery(
            "this DataFrame belongs to a Spark Connect session, which does not show its plan",
            hint="start the session without remote(): SparkSession.builder.master(…), with SPARK_REMOTE unset",
        )
    if not isinstance(df, DataFrame) or not hasattr(df, "_jdf"):
        raise InvalidQuery(
            f"writeStream needs a PySpark DataFrame, not a {kind.__name__}", hint="pass the DataFrame of the query"
        )
    if not df.isStreaming:
        raise InvalidQuery(
            "this DataFrame is not a stream: none of its sources is read with spark.readStream",
            hint="read at least one source with spark.readStream, or write it with df.write",
        )
    return df


def check_determinism(spark: SparkSession, analysed: Java) -> None:
    """Refuses functions of chance. Only the analysed plan shows them all: the optimiser folds some to constants."""
    current_like = catalyst(spark).trees.TreePattern.CURRENT_LIKE()

    def suspicious(node: Java) -> bool:
        return not node.deterministic() or node.containsPattern(current_like)

    pending = [analysed]
    while pending:
        plan = pending.pop()
        # A static side is computed once by Spark itself, before the stream starts: there the clock stands still.
        if plan.isStreaming() and suspicious(plan):
            for expression in items(plan.expressions()):
                if suspicious(expression):
                    _check_expression(expression, class_name(plan))
            pending.extend(items(plan.children()))


def _check_expression(expression: Java, operator: str) -> None:
    where = LABELS.get(operator, operator)
    nodes = list(read(expression).walk())
    for node in nodes:
        if (known := TIME_AND_CHANCE.get(node.kind)) is not None:
            function, hint = known
            raise InvalidQuery(
                f"{function} in {one_line_sql(expression)} (in {where}) would give another value when rows are replayed after a failure",
                hint=hint,
            )
    kinds = {node.kind for node in nodes}
    judged = kinds & {"PythonUDF", "AggregateExpression", *input_files.FUNCTIONS}
    if operator != "Aggregate" and not judged and not expression.deterministic():
        raise InvalidQuery(f"{one_line_sql(expression)} (in {where}) is not deterministic", hint=_CHANCE)


def one_line_sql(expression: Java) -> str:
    text = " ".join(str(expression.sql()).split())
    return text if len(text) <= 200 else text[:198] + " …"


def check_operators(analysed: Java) -> None:
    """Refuses operators that the optimiser would turn into others, so that they keep the name the user knows."""
    pending = [analysed]
    while pending:
        plan = pending.pop()
        if plan.isStreaming():
            kind = class_name(plan)
            if kind in _REFUSED:
                raise refused_operator(kind)
            pending.extend(reversed(items(plan.children())))


def check_streaming_rules(spark: SparkSession, analysed: Java, mode: OutputMode) -> None:
    """Spark's own rules for streaming queries in this output mode."""
    jvm: Java = spark._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    known = {OutputMode.APPEND: modes.Append, OutputMode.UPDATE: modes.Update, OutputMode.COMPLETE: modes.Complete}
    chosen = known[mode]()
    try:
        catalyst(spark).analysis.UnsupportedOperationChecker.checkForStreaming(analysed, chosen)
    except PySparkException as error:
        text = one_line(error)
        if text.startswith(_DISTINCT):
            return None  # We go beyond Spark here. All its rules that depend on the output mode were checked before this one.
        if mode is OutputMode.APPEND and _UNWATERMARKED in text and not _aggregates(analysed):
            # SELECT DISTINCT and UNION, which Spark takes for aggregations. They are dropDuplicates(), which needs no watermark.
            return check_streaming_rules(spark, analysed, OutputMode.UPDATE)
        raise InvalidQuery(f"Spark refuses the query: {_without_advice(text)}", hint=_rule_hint(text, mode)) from None


def _aggregates(analysed: Java) -> bool:
    pending = [analysed]
    while pending:
        plan = pending.pop()
        if plan.isStreaming():
            if class_name(plan) == "Aggregate":
                return True
            pending.extend(items(plan.children()))
    return False


def _without_advice(text: str) -> str:
    """Spark's finding without its error class, and without the setting that would silence it: that is no way out here."""
    if text.startswith("[") and "] " in text:
        text = text.split("] ", 1)[1]
    return text.split(" Please refer ")[0].split(" If you understand ")[0]


def _rule_hint(text: str, mode: OutputMode) -> str:
    lowered = text.lower()
    if "join" in lowered and "watermark" in lowered:
        return (
            "a row without a partner leaves when none can come any more: call withWatermark() on both streams, and join on equal "
            "windows or within a range of event time, e.g. b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"
        )
    if "watermark" in lowered and mode is OutputMode.APPEND:
        return (
            "in append mode a group is written when the watermark has passed it: call withWatermark() on the time column and group by "
            "it or by a window over it, or use outputMode('update')"
        )
    if "no streaming aggregations" in lowered:
        return "only an aggregation has a result to write again: use outputMode('append') or 'update'"
    if "session window" in lowered:
        return "a session that grows replaces others: use append mode with a watermark, or outputMode('complete')"
    if lowered.startswith("sorting"):
        return "a stream has no end to sort at: sort what the sink holds, or an aggregated result with outputMode('complete')"
    if lowered.startswith("limits"):
        return "use append mode for the first rows of a stream, or outputMode('complete') for those of an aggregated result"
    if lowered.startswith("union"):
        return "write the static rows to the sink in a batch job of their own"
    if "join" in lowered:
        return "keep the stream on the preserved side: stream.join(static, …, 'left'), or use an inner join"
    if "correctness" in lowered or "stateful operator" in lowered:
        return (
            "one aggregation after another needs append mode and windows; pivot() counts as two: write it as "
            "sum(CASE WHEN … THEN … END) per column"
        )
    return "Spark Structured Streaming has the same rule; change the query or the output mode"
