"""Scalar user functions: Python row by row, pandas and Arrow batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa

from tidegate.model import types as t
from tidegate.model.elements import Batch, Produced
from tidegate.operators.arrow_columns import arrow_column, polars_column
from tidegate.operators.bisection import Accepted, Refused, first_refused, sifted
from tidegate.operators.columns import arrow_type, polars_type
from tidegate.operators.expressions import Projection
from tidegate.operators.letters import failure_at, failure_of_all, rejected
from tidegate.operators.pandas_values import from_pandas, to_pandas
from tidegate.operators.protocol import Operator
from tidegate.operators.python_values import from_python, to_python
from tidegate.operators.user_functions import Load, LoadedFunction, load_function, user_name
from tidegate.plan.expressions import Call, Cast, Column, Expression, Literal, Named
from tidegate.plan.relational import PythonEval, PythonUdf, UdfKind


class PythonEvalOperator(Operator):
    """Appends one column per user function to each batch. Functions are loaded once and called with whole batches or rows.

    Tolerant: rows that a function raises for are rejected, the others go on, and later functions do not see them.
    """

    def __init__(self, node: PythonEval, load: Load, *, tolerant: bool = False) -> None:
        super().__init__()
        self._evaluations = tuple(_Evaluation(udf, load, node.zone, tolerant) for udf in node.udfs)
        self._output = [field.name for field in node.schema]

    def on_batch(self, batch: Batch) -> Iterator[Produced]:
        rows, results = batch.rows, list[pl.Series]()
        for evaluation in self._evaluations:
            if rows.is_empty():
                return
            column, refused = evaluation.column(rows)
            if refused:
                yield rejected(rows, refused, evaluation.label)
                kept = pl.Series([True]).new_from_index(0, rows.height)
                kept[[one.index for one in refused]] = False
                rows, results = rows.filter(kept), [result.filter(kept) for result in results]
            results.append(column)
        if rows.height:
            yield batch.with_rows(rows.with_columns(results).select(self._output))


class _Evaluation:
    """One user function bound to its arguments."""

    def __init__(self, udf: PythonUdf, load: Load, zone: str, tolerant: bool) -> None:
        self.label = udf.label
        self._tolerant = tolerant
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

    def column(self, rows: pl.DataFrame) -> tuple[pl.Series, list[Refused]]:
        """Results for the rows that were not refused, in order. Raises at the first bad row unless tolerant."""
        arguments = self._arguments.apply(rows).get_columns()
        match self._udf.kind:
            case UdfKind.PYTHON | UdfKind.PYTHON_ARROW:
                result, refused = self._by_row(rows, arguments)
            case UdfKind.PANDAS | UdfKind.ARROW | UdfKind.PANDAS_ITER | UdfKind.ARROW_ITER:
                result, refused = self._by_batch(rows, arguments)
        return result.alias(self._udf.name), refused

    def _by_row(self, rows: pl.DataFrame, arguments: list[pl.Series]) -> tuple[pl.Series, list[Refused]]:
        function, make_row = self._loaded.function, self._loaded.make_row
        columns = [to_python(c, arg.type, make_row) for c, arg in zip(arguments, self._udf.args, strict=True)]
        calls = zip(*columns, strict=True) if columns else iter([()] * rows.height)
        results: list[Any] = []
        refused: list[Refused] = []
        while len(results) + len(refused) < rows.height:
            try:
                if self._keywords:
                    for call in calls:
                        keywords = {name: call[i] for i, name in self._keywords}
                        results.append(function(*(call[i] for i in self._positional), **keywords))
                else:
                    for call in calls:
                        results.append(function(*call))
            except Exception as error:
                refused.append(Refused(len(results) + len(refused), error))
                if not self._tolerant:
                    raise failure_at(rows, refused[0], self._operator) from error
        lenient = self._udf.kind is UdfKind.PYTHON
        try:
            return from_python(results, self._udf.type, lenient=lenient), refused
        except Exception as error:
            unfit = self._misfits(results, lenient)
            if not self._tolerant:
                first = unfit[0] if unfit else Refused(0, error)
                returned = f"returned {results[first.index]!r}, which does not fit {t.simple_string(self._udf.type)}"
                raise failure_at(rows, Refused(first.index, error), f"{self._operator}: it {returned}") from error
        # The results stand at the places of the rows that were not refused before.
        gone, misfits = {one.index for one in refused}, {one.index for one in unfit}
        places = [index for index in range(rows.height) if index not in gone]
        refused += [Refused(places[one.index], one.error) for one in unfit]
        fitting = [result for number, result in enumerate(results) if number not in misfits]
        return from_python(fitting, self._udf.type, lenient=lenient), sorted(refused, key=lambda one: one.index)

    def _misfits(self, results: list[Any], lenient: bool) -> list[Refused]:
        """Results that cannot be converted (only the first, unless tolerant); searched after the whole column could not be."""
        found: list[Refused] = []
        for index, result in enumerate(results):
            try:
                from_python([result], self._udf.type, lenient=lenient)
            except Exception as error:  # noqa: BLE001 - any failure identifies the row
                found.append(Refused(index, error))
                if not self._tolerant:
                    break
        return found

    def _by_batch(self, rows: pl.DataFrame, arguments: list[pl.Series]) -> tuple[pl.Series, list[Refused]]:
        def call(part: range) -> pl.Series:
            return self._called([column[part.start : part.stop] for column in arguments], len(part))

        everything = range(rows.height)
        if self._tolerant:
            outcomes = list(sifted(everything, call))
            parts = [one.result for one in outcomes if isinstance(one, Accepted)]
            column = pl.concat(parts) if parts else pl.Series([], dtype=polars_type(self._udf.type))
            return column, [one for one in outcomes if isinstance(one, Refused)]
        try:
            return call(everything), []
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            failed = error
        # Not in the handler: what the next calls raise has nothing to do with the first.
        first = first_refused(everything, call, failed)
        if first is None:
            raise failure_of_all(rows, failed, self._operator) from failed
        raise failure_at(rows, first, self._operator) from first.error

    def _called(self, arguments: list[pl.Series], height: int) -> pl.Series:
        pandas = self._udf.kind in (UdfKind.PANDAS, UdfKind.PANDAS_ITER)
        values: list[Any] = [
            arrow_column(column, arg.type, self._zone) for column, arg in zip(arguments, self._udf.args, strict=True)
        ]
        if pandas:
            values = [to_pandas(v, arg.type, self._zone) for v, arg in zip(values, self._udf.args, strict=True)]
        parts = [self._result_part(result, pandas) for result in self._call(values)]
        array = pa.concat_arrays(parts) if parts else pa.array([], arrow_type(self._udf.type))
        if len(array) != height:
            raise ValueError(f"the function returned {len(array)} values for {height} rows")
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
