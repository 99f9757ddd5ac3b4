"""``current_timestamp()``, ``now()``, ``current_date()``, ``localtimestamp()``: the time at which a row comes by.

Spark's optimiser would fold them into constants. As Spark's own micro-batches do, they are first replaced by an expression that survives
it; here that becomes a column which a ``StampTime`` appends below the first operator that asks for the time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from tidegate.catalyst.java import Java, catalyst, class_name, items
from tidegate.catalyst.naming import CLOCK, Names, Relation
from tidegate.model import types as t
from tidegate.model.types import DataType, Field
from tidegate.plan.expressions import Cast, Column, Expression
from tidegate.plan.relational import StampTime

STAMP = "CurrentBatchTimestamp"
_CLOCKS = ("CurrentTimestamp", "CurrentTimestampLike", "Now", "CurrentDate", "LocalTimestamp")


def with_open_clock(spark: SparkSession, analysed: Java) -> Java:
    """The plan with the functions of time as the optimiser leaves them alone; the plan itself if there are none."""
    if not analysed.containsPattern(catalyst(spark).trees.TreePattern.CURRENT_LIKE()):
        return analysed
    gateway: Java = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    return analysed.transformAllExpressions(_Replacement(gateway.jvm, time.time_ns() // 1_000_000))


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A Scala function that Spark calls for every expression. ``now_ms``: what static sides, which run once, get to see."""

    jvm: Java
    now_ms: int

    def isDefinedAt(self, _expression: Java) -> bool:
        return True

    def apply(self, expression: Java) -> Java:
        return expression

    def applyOrElse(self, expression: Java, default: Java) -> Java:
        kind = class_name(expression)
        if kind not in _CLOCKS:
            return default.apply(expression)
        made = self.jvm.org.apache.spark.sql.catalyst.expressions.CurrentBatchTimestamp
        zoned = kind in ("CurrentDate", "LocalTimestamp")
        zone = expression.timeZoneId() if zoned else self.jvm.scala.Option.apply("UTC")
        return made(self.now_ms, expression.dataType(), zone)

    class Java:
        implements = ("scala.PartialFunction",)


def stamped(spark: SparkSession, names: Names, plan: Java, child: Relation) -> Relation:
    """The child with a column for the time, if ``plan`` asks for it and the rows have none yet."""
    current_like = catalyst(spark).trees.TreePattern.CURRENT_LIKE()
    if CLOCK in child.scope.columns or not any(
        expression.containsPattern(current_like) for expression in items(plan.expressions())
    ):
        return child
    column = names.column("_now", t.TIMESTAMP)
    schema = (*child.plan.schema, Field(column.name, column.type, False))
    node = StampTime(column=column.name, schema=schema, inputs=(child.plan,))
    return Relation(node, child.scope.plus({CLOCK: column}))


def of_clock(stamp: Column, of: DataType, zone: str) -> Expression:
    """The time as a timestamp, a date or a timestamp without zone."""
    return stamp if of == stamp.type else Cast(stamp, of, zone=zone)
