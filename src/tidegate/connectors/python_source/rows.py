"""Rows of a user's iterator as frames: bounded in number and in time, counted as they leave."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from tidegate.connectors.rows import RowShape
from tidegate.model.errors import DataError
from tidegate.model.types import Schema
from tidegate.operators.arrow_columns import polars_column
from tidegate.operators.python_values import from_python
from tidegate.operators.user_functions import failure

TURN_S = 0.02
"""How long tuples are collected before the loop gets its turn back."""


class RowIterator:
    """Pulls tuples, rows or record batches. A record batch that is larger than asked for is handed out in slices."""

    def __init__(self, source: Iterator[Any], schema: Schema, shape: RowShape, name: str) -> None:
        self._source = source
        self._schema = schema
        self._shape = shape
        self._name = name
        self._ahead: pl.DataFrame | pa.RecordBatch | Sequence[Any] | None = None
        """A frame of which rows are left, or one tuple that was pulled to see what kind it is."""
        self.taken = 0
        self._exhausted = False

    @property
    def ended(self) -> bool:
        """Every row has been handed out, and the iterator has said so."""
        return self._exhausted and self._ahead is None

    def take(self, rows_max: int) -> pl.DataFrame | None:
        """At most ``rows_max`` rows; None when the iterator has ended."""
        if self._ahead is None:
            self._ahead = self._pull()
        if self._ahead is None:
            return None
        if isinstance(self._ahead, pa.RecordBatch):
            self._ahead = self._from_arrow(self._ahead)
        if isinstance(self._ahead, pl.DataFrame):
            rows, rest = self._ahead.head(rows_max), self._ahead.slice(rows_max)
            self._ahead = rest if rest.height else None
        else:
            rows = self._from_tuples(rows_max)
        self.taken += rows.height
        return rows

    def skip(self, rows: int) -> None:
        """Leaves out rows that were emitted before a restart; too few of them means that the source is not deterministic."""
        while self.taken < rows:
            if self.take(rows - self.taken) is None:
                raise DataError(
                    f"data source {self._name} gave {rows} rows before the restart and only {self.taken} now, for the same offsets",
                    hint="partitions() and read() must give the same rows again for the same offsets",
                )

    def close(self) -> None:
        """Ends a generator of the user now, so that its ``finally`` runs while the slot still lives."""
        close = getattr(self._source, "close", None)
        self._ahead, self._exhausted = None, True
        if callable(close):
            close()

    def _from_tuples(self, rows_max: int) -> pl.DataFrame:
        deadline = time.monotonic() + TURN_S
        rows = [self._ahead]
        self._ahead = None
        while len(rows) < rows_max and time.monotonic() < deadline:
            following = self._pull()
            if following is None:
                break
            if isinstance(following, pa.RecordBatch):
                self._ahead = following
                break
            rows.append(following)
        width = len(self._schema)
        odd = next((row for row in rows if not isinstance(row, tuple | list) or len(row) != width), None)
        if odd is not None:
            raise DataError(
                f"read() of data source {self._name} gave {odd!r} where a row of {width} values is expected",
                hint=f"yield tuples with one value for each of {', '.join(field.name for field in self._schema)}",
            )
        columns = zip(*rows, strict=True)
        try:
            frame = pl.DataFrame(
                [
                    from_python(values, field.type, lenient=False).alias(field.name)
                    for values, field in zip(columns, self._schema, strict=True)
                ]
            )
        except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
            raise self._misfit(error) from error
        return self._shape.rows(frame, self._name)

    def _from_arrow(self, batch: pa.RecordBatch) -> pl.DataFrame:
        if batch.num_columns != len(self._schema):
            raise self._misfit(f"a record batch of {batch.num_columns} columns")
        try:
            columns = zip(batch.columns, self._schema, strict=True)
            frame = pl.DataFrame([polars_column(column, field.type, field.name) for column, field in columns])
        except (pa.ArrowException, pl.exceptions.PolarsError) as error:
            raise self._misfit(error) from error
        return self._shape.rows(frame, self._name)

    def _misfit(self, error: object) -> DataError:
        return DataError(
            f"rows of data source {self._name} do not fit its schema: {error}",
            hint="return what schema() promises, with the columns in its order",
        )

    def _pull(self) -> Any:
        """The next item that holds rows; None at the end."""
        while not self._exhausted:
            try:
                item = next(self._source)
            except StopIteration:
                self._exhausted = True
                break
            except Exception as error:
                raise failure(error, f"data source {self._name}", f"in read(), after row {self.taken}") from error
            if not isinstance(item, pa.RecordBatch) or item.num_rows:
                return item
        return None
