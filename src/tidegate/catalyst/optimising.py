"""Spark's optimiser, without the one rule that would hide what an aggregation means."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.catalyst.java import Java, class_name, items, one_line
from tidegate.model.errors import InvalidQuery

_DISTINCT_REWRITE = ".RewriteDistinctAggregates"


def optimise(spark: SparkSession, analysed: Java) -> Java:
    """The optimised plan. An aggregation with several DISTINCT groups stays one: the rule that makes two of it, around an Expand,
    cannot be switched off, so a plan it applies to is optimised again, batch by batch, without it."""
    session: Java = spark._jsparkSession
    optimizer = session.sessionState().optimizer()
    try:
        whole = optimizer.execute(analysed)
        return whole if _aggregations(whole) <= _aggregations(analysed) else _without_rewrite(optimizer, analysed)
    except PySparkException as error:
        raise InvalidQuery(
            f"Spark could not optimise the query: {one_line(error)}",
            hint="the same query fails with Spark's own writeStream",
        ) from error


def _aggregations(plan: Java) -> int:
    return (class_name(plan) in ("Aggregate", "Distinct")) + sum(
        _aggregations(child) for child in items(plan.children()) if child.isStreaming()
    )


def _without_rewrite(optimizer: Java, plan: Java) -> Java:
    for batch in items(optimizer.batches()):
        rules = [rule for rule in items(batch.rules()) if not str(rule.ruleName()).endswith(_DISTINCT_REWRITE)]
        for _ in range(batch.strategy().maxIterations()):
            before = plan
            for rule in rules:
                plan = rule.apply(plan)
            if plan.fastEquals(before):
                break
    return plan
