"""``foreachBatch``: the rows of a batch as a DataFrame, handed to the user's function on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.foreach_batch.parts import BatchPart, decode_rows
from tidegate.connectors.spark_types import spark_schema
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, TidegateError, Unavailable, UserCodeFailed
from tidegate.model.ids import BatchId
from tidegate.model.types import Field, Schema
from tidegate.operators.arrow_columns import arrow_column
from tidegate.operators.user_functions import user_traceback
from tidegate.plan.relational import Sink
from tidegate.spark.checks import is_one_host, task_slots
from tidegate.storage.open import open_store
from tidegate.storage.options import StorageOptions

BatchFunction: TypeAlias = Callable[[DataFrame, int], object]

FORMAT = "foreachbatch"
_ROWS_MAX = 65_536
"""Of one record batch on its way to Spark."""


def check_function(function: object) -> BatchFunction:
    if not callable(function):
        raise InvalidQuery(
            f"foreachBatch needs a function of a DataFrame and a batch id, not a {type(function).__name__}",
            hint="write foreachBatch(lambda df, batch_id: …)",
        )
    return function


def refuse_starvation(session: SparkSession, parallelism: int) -> None:
    """Raises InvalidQuery when the jobs of the function would wait for ever for a task slot. Executors of a cluster may still be on
    their way at the start: there every call asks anew."""
    if is_one_host(session) and parallelism >= task_slots(session):
        raise InvalidQuery(
            f"the query takes all {parallelism} task slots: none is left for the Spark jobs of the foreachBatch function",
            hint=f'leave one free: .option("parallelism", {max(1, parallelism - 1)}), or give Spark more cores',
        )


@dataclass(frozen=True, slots=True)
class BatchCaller:
    """Calls the function of one query. Whatever it raises reaches the user as it is, with the batch it was called with."""

    session: SparkSession
    function: BatchFunction
    sink: Sink
    parallelism: int
    location: str
    storage: StorageOptions

    def __call__(self, batch: BatchId, parts: tuple[BatchPart, ...]) -> None:
        self._check_slots()
        rows = batch_frame(self.session, self.sink.schema, parts, self.location, self.storage)
        try:
            self.function(rows, int(batch))
        except TidegateError:
            raise
        except Exception as error:
            told = UserCodeFailed(
                f"{user_traceback(error)}\nin foreachBatch of {self.sink.id}, batch {batch}",
                hint="mend the function and start the query again: it is called with the same rows and the same batch id",
            )
            told.position = f"batch {batch}"
            raise told from error

    def _check_slots(self) -> None:
        slots = task_slots(self.session)
        if self.parallelism >= slots:
            raise Unavailable(
                f"Spark can run {slots} tasks at once and the query takes {self.parallelism}: none is left for foreachBatch",
                hint="executors are missing, or there are too few of them: it is tried again; one task slot must stay free",
            )


def batch_frame(
    session: SparkSession, schema: Schema, parts: tuple[BatchPart, ...], location: str, storage: StorageOptions
) -> DataFrame:
    """One partition per part, read by Spark's executors when a job wants it: the rows never pass through the driver."""
    zone = str(session.conf.get("spark.sql.session.timeZone"))
    nullable = tuple(Field(field.name, field.type) for field in schema)

    def read_parts(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from tidegate.api.foreach_batch import read_part

        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_part(parts[number], schema, zone, location, storage)

    return session.range(0, len(parts), 1, len(parts)).mapInArrow(read_parts, spark_schema(nullable))


def read_part(
    part: BatchPart, schema: Schema, zone: str, location: str, storage: StorageOptions
) -> Iterator[pa.RecordBatch]:
    data: bytes | None = part.data
    if data is None:
        data = open_store(location, storage, make=False).read(part.key)
    if data is None:
        raise CorruptSnapshot(
            f"{part.key} is gone: the rows of a batch are there while foreachBatch runs, and not afterwards",
            hint="use the DataFrame inside the function only: write it, or persist() and count() it there",
        )
    rows = decode_rows(part, data)
    for piece in rows.iter_slices(_ROWS_MAX) if rows.height else ():
        columns = [arrow_column(piece.get_column(field.name), field.type, zone) for field in schema]
        yield pa.RecordBatch.from_arrays(columns, names=[field.name for field in schema])
