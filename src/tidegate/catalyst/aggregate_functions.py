"""Catalyst's aggregate functions: their names in the plan, which of their arguments are columns, and which are constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidegate.catalyst.java import Java, catalyst, items
from tidegate.catalyst.literals import internal_value
from tidegate.catalyst.tree import Node
from tidegate.model.errors import InvalidQuery
from tidegate.plan.expressions import Scalar

NAMES = {
    "Count": "count",
    "Sum": "sum",
    "Average": "avg",
    "Min": "min",
    "Max": "max",
    "First": "first",
    "Last": "last",
    "CollectList": "collect_list",
    "CollectSet": "collect_set",
    "StddevSamp": "stddev_samp",
    "StddevPop": "stddev_pop",
    "VarianceSamp": "var_samp",
    "VariancePop": "var_pop",
    "MinBy": "min_by",
    "MaxBy": "max_by",
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "ApproximatePercentile": "percentile_approx",
    "Percentile": "percentile",
    "PercentileDisc": "percentile_disc",
    "Mode": "mode",
    "ListAgg": "listagg",
    "RegrReplacement": "sum_of_squares",
    "Product": "product",
    "PivotFirst": "pivot_first",
}
_TABLED_PRECISION_MAX = 18

Constant = Callable[[Node], Scalar]


@dataclass(frozen=True, slots=True)
class Signature:
    """``columns`` are what the function reads row by row; the rest is the same for all rows."""

    name: str
    columns: tuple[Node, ...]
    params: tuple[Scalar, ...] = ()
    tables: tuple[tuple[float, ...], ...] = ()


def signature(spark: SparkSession, function: Node, constant: Constant) -> Signature:
    """``constant`` reads an argument that must not depend on the row."""
    name, children = NAMES.get(function.kind) or function.facts.name, tuple(function.children)
    match function.kind:
        case "HyperLogLogPlusPlus":
            relative_sd = float(function.fields["relativeSD"])
            return Signature(name, children[:1], (relative_sd,), _bias_tables(spark, relative_sd))
        case "ApproximatePercentile":
            accuracy = constant(children[2])
            return Signature(name, children[:1], (_percentages(constant(children[1])), accuracy))
        case "Percentile":
            times = children[2]
            once = times.kind == "Literal" and constant(times) == 1
            params = (_percentages(constant(children[1])), bool(function.fields["reverse"]))
            return Signature(name, children[:1] if once else (children[0], times), params)
        case "PercentileDisc":
            if function.fields.get("legacyCalculation"):
                raise InvalidQuery(
                    "percentile_disc with spark.sql.legacy.percentileDiscCalculation is not supported",
                    hint="unset that option: the default is the percentile of the SQL standard",
                )
            params = (_percentages(constant(children[1])), bool(function.fields["reverse"]))
            return Signature(name, children[:1], params)
        case "Mode":
            reverse = function.fields.get("reverseOpt")
            return Signature(name, children, () if reverse is None else (bool(reverse),))
        case "MaxMinByK":
            by = "min_by" if function.fields["reverse"] else "max_by"
            return Signature(by, children[:2], (constant(children[2]),))
        case "ListAgg":
            orders = children[2:]
            params = (constant(children[1]), *(_direction(order) for order in orders))
            return Signature(name, (children[0], *(order.children[0] for order in orders)), params)
        case "PivotFirst":
            of = children[0].facts.type
            values = tuple(internal_value(value, of) for value in items(function.java.pivotColumnValues()))
            return Signature(name, children, values)
        case "CollectList" | "CollectSet" if function.fields.get("ignoreNulls") is False:
            return Signature(name, children, ("respect nulls",))
        case _:
            return Signature(name, children)


def _percentages(given: Scalar) -> Scalar:
    if isinstance(given, tuple):
        return tuple(_percentages(one) for one in given)
    return float(given)  # pyright: ignore[reportArgumentType]


def _direction(order: Node) -> str:
    direction, nulls = (str(order.fields[name]["object"]).rpartition(".")[2] for name in ("direction", "nullOrdering"))
    return f"{'desc' if direction.startswith('Desc') else 'asc'} nulls {'last' if 'Last' in nulls else 'first'}"


def _bias_tables(spark: SparkSession, relative_sd: float) -> tuple[tuple[float, ...], ...]:
    """Spark's own numbers, out of the running Spark: raw estimates of HyperLogLog, their biases, the limit of linear counting."""
    from tidegate.operators.accumulators.cardinality import precision

    bits = precision(relative_sd)
    if bits > _TABLED_PRECISION_MAX:
        return ()
    jvm: Java = spark._jvm
    numbers = catalyst(spark).util.HyperLogLogPlusPlusHelper
    arrays = (numbers.RAW_ESTIMATE_DATA()[bits - 4], numbers.BIAS_DATA()[bits - 4])
    tables = tuple(_doubles(str(jvm.java.util.Arrays.toString(array))) for array in arrays)
    return (*tables, (float(numbers.THRESHOLDS()[bits - 4]),))


def _doubles(text: str) -> tuple[float, ...]:
    return tuple(float(number) for number in text.strip("[]").split(","))
