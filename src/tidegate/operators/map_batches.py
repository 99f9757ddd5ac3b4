"""``mapInArrow`` and ``mapInPandas``: a user function from an iterator of batches to an iterator of batches.

The function is called once per batch, with an iterator of that one batch: a stream has no end at which a function over all
batches could return, and nothing it keeps between batches would be in a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from tidegate.model import types as t
from tidegate.model.elements import Batch, Produced, Rejected
from tidegate.operators.arrow_columns import arrow_column, polars_column
from tidegate.operators.bisection import Accepted, Refused, first_refused, sifted
from tidegate.operators.columns import arrow_type, plan_type
from tidegate.operators.letters import failure_at, failure_of_all, rejected
from tidegate.operators.pandas_values import frame_to_table, to_pandas
from tidegate.operators.protocol import Operator
from tidegate.operators.user_functions import Load, load_function
from tidegate.plan.relational import MapBatches, UdfKind

_OUTPUT_ROWS_MAX = 65_536


class MapBatchesOperator(Operator):
    """Result columns are matched to the declared schema by name and cast; what does not fit is the user's error.

    Tolerant: rows that the function raises for are rejected, and it is called again with the others.
    """

    def __init__(self, node: MapBatches, load: Load, *, tolerant: bool = False) -> None:
        super().__init__()
        self._tolerant = tolerant
        self._node = node
        self._pandas = node.kind in (UdfKind.PANDAS, UdfKind.PANDAS_ITER)
        self._function = load_function(load, node.command, node.label).function
        self._operator = f"{'mapInPandas' if self._pandas else 'mapInArrow'}({node.label})"
        names = zip(node.output_names, node.schema, strict=True)
        self._public = tuple(t.Field(name, field.type, field.nullable) for name, field in names)

    def on_batch(self, batch: Batch) -> Iterator[Produced]:
        if batch.rows.is_empty():
            return
        results = self._sifted(batch.rows) if self._tolerant else self._strict(batch.rows)
        for result in results:
            if isinstance(result, Rejected):
                yield result
                continue
            for part in result.iter_slices(_OUTPUT_ROWS_MAX):
                yield batch.with_rows(part)

    def _strict(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Results go out as the function yields them."""
        try:
            yield from self._results(rows)
            return
        except Exception as error:  # noqa: BLE001 - whatever user code raises
            failed = error
        # Not in the handler: what the next calls raise has nothing to do with the first.
        first = first_refused(range(rows.height), lambda part: self._all_results(rows, part), failed)
        if first is None:
            raise failure_of_all(rows, failed, self._operator) from failed
        raise failure_at(rows, first, self._operator) from first.error

    def _sifted(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame | Rejected]:
        """What a call yields goes out once the function has taken all of the rows: it may still raise for the last one."""
        refused: list[Refused] = []
        for outcome in sifted(range(rows.height), lambda part: self._all_results(rows, part)):
            match outcome:
                case Accepted(result=results):
                    yield from results
                case Refused():
                    refused.append(outcome)
        if refused:
            yield rejected(rows, refused, self._node.label)

    def _all_results(self, rows: pl.DataFrame, part: range) -> list[pl.DataFrame]:
        return list(self._results(rows.slice(part.start, len(part))))

    def _results(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        for result in self._function(iter([self._argument(rows)])):
            table = self._checked(result)
            if table.num_rows:
                yield self._renamed(table)

    def _argument(self, rows: pl.DataFrame) -> pa.RecordBatch | pd.DataFrame:
        if self._node.input_schema:
            rows = rows.select(field.name for field in self._node.input_schema)
        kinds = self._kinds(rows)
        arrays = [
            arrow_column(column, kind, self._node.zone) for column, kind in zip(rows.get_columns(), kinds, strict=True)
        ]
        if not self._pandas:
            return pa.RecordBatch.from_arrays(arrays, names=list(self._node.input_names))
        columns = [
            to_pandas(array, kind, self._node.zone) if not isinstance(kind, t.Struct) else _rows_of(array)
            for array, kind in zip(arrays, kinds, strict=True)
        ]
        frame = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=pd.RangeIndex(rows.height))
        frame.columns = list(self._node.input_names)
        return frame

    def _kinds(self, rows: pl.DataFrame) -> list[t.DataType]:
        if self._node.input_schema:
            return [field.type for field in self._node.input_schema]
        return [plan_type(dtype) for dtype in rows.dtypes]

    def _checked(self, result: Any) -> pa.Table:
        """The result with exactly the declared columns and types, under the user's names."""
        if self._pandas:
            if not isinstance(result, pd.DataFrame):
                raise TypeError(f"the function must yield pandas.DataFrame, not {type(result).__name__}")
            return frame_to_table(result, self._public, self._node.zone)
        if not isinstance(result, pa.RecordBatch | pa.Table):
            raise TypeError(f"the function must yield pyarrow.RecordBatch, not {type(result).__name__}")
        names = [field.name for field in self._public]
        missing = [name for name in names if name not in result.schema.names]
        extra = [name for name in result.schema.names if name not in names]
        if missing or extra:
            raise ValueError(
                f"the result has the wrong columns: missing {missing or 'none'}, unexpected {extra or 'none'}"
            )
        return pa.table([_cast(result.column(field.name), field) for field in self._public], names=names)

    def _renamed(self, table: pa.Table) -> pl.DataFrame:
        columns = zip(table.columns, self._node.schema, strict=True)
        return pl.DataFrame([polars_column(column, field.type, field.name) for column, field in columns])


def _rows_of(array: pa.Array) -> pd.Series:
    """``mapInPandas`` sees a struct column as one column of dictionaries."""
    return pd.Series(array.to_pylist(), dtype=object)


def _cast(column: pa.Array | pa.ChunkedArray, field: t.Field) -> pa.Array | pa.ChunkedArray:
    target = arrow_type(field.type)
    if column.type == target:
        return column
    try:
        return column.cast(target)
    except pa.ArrowException as error:
        raise TypeError(
            f"result column {field.name!r} is {column.type}, which does not fit the declared {t.simple_string(field.type)}: {error}"
        ) from error
