"""Plan expressions on Polars batches, with Spark's semantics."""

from tidegate.operators.expressions.compiled import Compiled, Guard
from tidegate.operators.expressions.compiler import (
    compile_expression,
    describe,
    first_unsupported,
    function_names,
    supported,
)
from tidegate.operators.expressions.evaluation import Predicate, Projection

__all__ = [
    "Compiled",
    "Guard",
    "Predicate",
    "Projection",
    "compile_expression",
    "describe",
    "first_unsupported",
    "function_names",
    "supported",
]
