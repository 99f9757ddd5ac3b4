"""Scalar user functions: Python row by row, pandas and Arrow batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa

from tidegate.model import types as t
from tidegate.model.elements import Batch, Output
from tidegate.operators.arrow_columns import arrow_column, polars_column
from tidegate.operators.columns import arrow_type
from tidegate.operators.expressions import Projection
from tidegate.operators.pandas_values import from_pandas, to_pandas
from tidegate.operators.protocol import Stateless
from tidegate.operators.python_values import from_python, to_python
from tidegate.operators.user_functions import Load, LoadedFunction, describe_row, failure, load_function, user_name
from tidegate.plan.expressions import Call, Cast, Column, Expression, Literal, Named
from tidegate.plan.relational import PythonEval, PythonUdf, UdfKind


class PythonEvalOperator(Stateless):
    """Appends one column per user function to each batch. Functions are loaded once and called with whole batches or rows."""

    def __init__(self, node: PythonEval, load: Load) -> None:
        super().__init__()
        self._evaluations = tuple(_Evaluation(udf, load, node.zone) for udf in node.udfs)
        self._output = [field.name for field in node.schema]

    def on_batch(self, batch: Batch) -> Iterator[Output]:
        if batch.rows.is_empty():
            return
        results = [evaluation.column(batch.rows) for evaluation in self._evaluations]
        yield batch.with_rows(batch.rows.with_columns(results).select(self._output))


class _Evaluation:
    """One user function bound to its arguments."""

    def __init__(self, udf: PythonUdf, load: Load, zone: str) -> None:
        self._udf = udf
        self._zone = zone
        self._loaded: LoadedFunction = load_function(load, udf.command, udf.label)
        self._operator = f"user function {udf.label}({', '.join(_argument(arg) for arg in udf.args)})"
        columns = [Named(f"{i}", expression) for i, expression in enumerate(udf.args)]
        schema = tuple(t.Field(column.name, column.expression.type) for column in columns)
        self._arguments = Projection(columns, schema)
        keywords = udf.keywords or (None,) * len(udf.args)
        self._positional = tuple(i for i, keyword in enumerate(keywords) if keyword is None)
        self._keywords = tuple((i, keyword) for i, keyword in enumerate(keywords) if keyword is not None)

    def column(self, rows: pl.DataFrame) -> pl.Series:
        arguments = self._arguments.apply(rows).get_columns()
        match self._udf.kind:
            case UdfKind.PYTHON | UdfKind.PYTHON_ARROW:
                result = self._by_row(rows, arguments)
            case UdfKind.PANDAS | UdfKind.ARROW | UdfKind.PANDAS_ITER | UdfKind.ARROW_ITER:
                result = self._by_batch(rows, arguments)
        return result.alias(self._udf.name)

    def _by_row(self, rows: pl.DataFrame, arguments: list[pl.Series]) -> pl.Series:
        function, make_row = self._loaded.function, self._loaded.make_row
        columns = [to_python(c, arg.type, make_row) for c, arg in zip(arguments, self._udf.args, strict=True)]
        calls = zip(*columns, strict=True) if columns else iter([()] * rows.height)
        results: list[Any] = []
        try:
            if self._keywords:
                for call in calls:
                    keywords = {name: call[i] for i, name in self._keywords}
                    results.append(function(*(call[i] for i in self._positional), **keywords))
            else:
                for call in calls:
                    results.append(function(*call))
        except Exception as error:
            raise failure(error, self._operator, describe_row(rows, len(results))) from error
        lenient = self._udf.kind is UdfKind.PYTHON
        try:
            return from_python(results, self._udf.type, lenient=lenient)
        except Exception as error:
            index = self._misfit(results, lenient)
            returned = f"returned {results[index]!r}, which does not fit {t.simple_string(self._udf.type)}"
            raise failure(error, f"{self._operator}: it {returned}", describe_row(rows, index)) from error

    def _misfit(self, results: list[Any], lenient: bool) -> int:
        """The first result that cannot be converted; searched only after the whole column could not be."""
        for index, result in enumerate(results):
            try:
                from_python([result], self._udf.type, lenient=lenient)
            except Exception:  # noqa: BLE001 - any failure identifies the row, the error itself is already at hand
                return index
        return 0

    def _by_batch(self, rows: pl.DataFrame, arguments: list[pl.Series]) -> pl.Series:
        pandas = self._udf.kind in (UdfKind.PANDAS, UdfKind.PANDAS_ITER)
        try:
            values: list[Any] = [
                arrow_column(column, arg.type, self._zone)
                for column, arg in zip(arguments, self._udf.args, strict=True)
            ]
            if pandas:
                pairs = zip(values, self._udf.args, strict=True)
                values = [to_pandas(array, arg.type, self._zone) for array, arg in pairs]
            parts = [self._result_part(result, pandas) for result in self._call(values)]
            array = pa.concat_arrays(parts) if parts else pa.array([], arrow_type(self._udf.type))
            if len(array) != rows.height:
                raise ValueError(f"the function returned {len(array)} values for {rows.height} rows")
        except Exception as error:
            raise failure(
                error, self._operator, describe_row(rows, 0, f"first row of the batch of {rows.height}")
            ) from error
        return polars_column(array, self._udf.type)

    def _call(self, values: list[Any]) -> Iterator[Any]:
        function = self._loaded.function
        if self._udf.kind in (UdfKind.PANDAS_ITER, UdfKind.ARROW_ITER):
            yield from function(iter([values[0] if len(values) == 1 else tuple(values)]))
        else:
            yield function(*(values[i] for i in self._positional), **{name: values[i] for i, name in self._keywords})

    def _result_part(self, result: Any, pandas: bool) -> pa.Array:
        what = f"the result of {self._udf.label}"
        if pandas:
            return from_pandas(result, self._udf.type, self._zone, what)
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if not isinstance(result, pa.Array):
            raise TypeError(f"{what} must be a pyarrow.Array, not a {type(result).__name__}")
        return result.cast(arrow_type(self._udf.type))


def _argument(expression: Expression) -> str:
    match expression:
        case Column(name):
            return user_name(name)
        case Literal(value):
            return repr(value)
        case Call(sql=sql) | Cast(sql=sql) if sql:
            return sql
        case _:
            return "…"
