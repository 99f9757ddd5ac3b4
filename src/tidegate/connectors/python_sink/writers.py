"""The user's ``DataSourceStreamWriter``, whichever kind it is: made, fed, and its answers checked as Spark does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tidegate.connectors.foreach.sink import make_row
from tidegate.connectors.python_sink.classes import MessageClasses
from tidegate.connectors.python_sink.messages import decode, encode
from tidegate.connectors.python_source.payload import unpack
from tidegate.model.errors import DataError, InvalidQuery, TidegateError, UserCodeFailed
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Schema
from tidegate.operators.arrow_columns import arrow_column
from tidegate.operators.python_values import to_python
from tidegate.operators.user_functions import user_traceback
from tidegate.ports.spec import SinkSpec

_ROWS_MAX = 10_000
"""Of one record batch, as Spark's ``spark.sql.execution.arrow.maxRecordsPerBatch``."""


@dataclass(frozen=True, slots=True)
class UserSink:
    """The user's data source behind one sink, in this process."""

    datasource: DataSource
    spark_schema: StructType
    schema: Schema
    overwrite: bool
    name: str

    @classmethod
    def of(cls, payload: bytes, spec: SinkSpec) -> UserSink:
        """``payload``: as ``python_source.payload.pack`` has made it."""
        datasource, schema = unpack(payload, spec.schema)
        return cls(datasource, schema, spec.schema, spec.mode is OutputMode.COMPLETE, spec.format)

    def writer(self) -> DataSourceStreamWriter:
        """A new one, as Spark makes one for every task and for every commit. InvalidQuery when the source cannot be written to."""
        try:
            made: object = self.datasource.streamWriter(self.spark_schema, self.overwrite)
        except PySparkNotImplementedError as error:
            raise InvalidQuery(
                f"the data source {self.name} cannot be written to as a stream",
                hint="implement streamWriter(schema, overwrite), or write with foreachBatch",
            ) from error
        except Exception as error:
            raise self.failed(error, "in streamWriter()") from error
        if not isinstance(made, DataSourceStreamWriter):
            raise InvalidQuery(
                f"streamWriter() of data source {self.name} gave a {type(made).__name__}",
                hint="return a DataSourceStreamWriter or a DataSourceStreamArrowWriter",
            )
        return made

    def write(self, frames: Iterator[pl.DataFrame]) -> bytes:
        """One call of the user's ``write``; his commit message, encoded. DataError when it cannot be stored."""
        writer = self.writer()
        rows: Iterator[Any] = (
            self._batches(frames) if isinstance(writer, DataSourceStreamArrowWriter) else self._rows(frames)
        )
        try:
            message = writer.write(rows)
        except TidegateError:
            raise
        except Exception as error:
            raise self.failed(error, "in write()") from error
        if not isinstance(message, WriterCommitMessage):
            raise DataError(
                f"write() of data source {self.name} returned a {type(message).__name__}",
                hint="return a WriterCommitMessage: commit() gets it on the driver",
            )
        return encode(message, MessageClasses(writer, self.datasource), self.name)

    def message(self, stored: bytes, name: str, writer: DataSourceStreamWriter) -> WriterCommitMessage:
        """What ``write`` returned, of the classes that ``writer`` knows. CorruptSnapshot names the document: ``name``."""
        return decode(stored, MessageClasses(writer, self.datasource), name, self.name)

    def failed(self, error: BaseException, where: str) -> UserCodeFailed:
        told = UserCodeFailed(
            f"{user_traceback(error)}\nin data source {self.name}, {where}",
            hint="mend the data source and start the query again",
        )
        told.position = where
        return told

    def _rows(self, frames: Iterator[pl.DataFrame]) -> Iterator[Any]:
        row = make_row(tuple(field.name for field in self.schema))
        for frame in frames:
            columns = [to_python(frame[field.name], field.type, make_row) for field in self.schema]
            yield from map(row, zip(*columns, strict=True))

    def _batches(self, frames: Iterator[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in self.schema]
        for frame in frames:
            for piece in frame.iter_slices(_ROWS_MAX):
                columns = [arrow_column(piece.get_column(field.name), field.type) for field in self.schema]
                yield pa.RecordBatch.from_arrays(columns, names=names)
